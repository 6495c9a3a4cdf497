"""Parsers of quota files: the text is kept unparsed, so that errors can name its lines."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.utils.translation import gettext as _

from foundation.core.bounded_parsing import ParseBounds
from foundation.core.errors import FieldError, Invalid
from foundation.web.parsers import BodyParser
from quotas.files import FILE_BOUNDS


class _FileParser(BodyParser):
    bounds: ClassVar[ParseBounds] = FILE_BOUNDS

    def read_body(self, body: bytes) -> Any:
        """Return the text of the file. Raises: Invalid with code ENCODING."""
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            message = _("The file isn't UTF-8 text.")
            errors = [FieldError("", "ENCODING", message)]
            raise Invalid(message, code="ENCODING", errors=errors) from error


class YamlFileParser(_FileParser):
    """The parser of `application/yaml`."""

    media_type = "application/yaml"


class CsvFileParser(_FileParser):
    """The parser of `text/csv`."""

    media_type = "text/csv"


FILE_PARSERS: Final = [YamlFileParser, CsvFileParser]
