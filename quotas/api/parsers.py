"""Bodies that are quota files: text, kept as it is so that errors can name its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, Final

from django.utils.translation import gettext as _
from rest_framework.parsers import BaseParser

from foundation.errors import FieldError, Invalid
from foundation.parsers import LARGEST, read_body


class _FileParser(BaseParser):
    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        body = read_body(stream, LARGEST)
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            message = _("The file is not UTF-8 text.")
            errors = [FieldError("", "ENCODING", message)]
            raise Invalid(message, code="ENCODING", errors=errors) from error


class YamlFileParser(_FileParser):
    """`application/yaml`."""

    media_type = "application/yaml"


class CsvFileParser(_FileParser):
    """`text/csv`."""

    media_type = "text/csv"


FILE_PARSERS: Final = [YamlFileParser, CsvFileParser]
