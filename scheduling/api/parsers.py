"""Bodies that are job files: YAML or JSON, of bounded size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, Final

from django.utils.translation import gettext as _
from rest_framework.parsers import BaseParser

from foundation.errors import AllotmentError, Invalid
from scheduling.spec import load_text

LARGEST: Final = 256 * 1024


class TooLarge(AllotmentError):
    """The body is larger than any job file needs to be."""

    code = "TOO_LARGE"
    status = 413


def _read(stream: IO[bytes]) -> bytes:
    # Read here and with a limit: the framework would read a body of any size before parsing it.
    body = stream.read(LARGEST + 1)
    if len(body) > LARGEST:
        raise TooLarge(_("A job file has at most 256 KiB."))
    return body


class JobJsonParser(BaseParser):
    """`application/json`; the constants that JSON does not have are refused."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            return json.loads(_read(stream), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            problem = _("The body is not valid JSON: %(problem)s") % {"problem": error}
            raise Invalid(problem, code="JSON_INVALID") from error


def _no_constant(name: str) -> None:
    raise ValueError(_("%(name)s is not JSON") % {"name": name})


class JobYamlParser(BaseParser):
    """`application/yaml`, the registered type."""

    media_type = "application/yaml"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return load_text(_read(stream))


class OldYamlParser(JobYamlParser):
    """The type that was used before YAML had a registered one."""

    media_type = "application/x-yaml"


class TextYamlParser(JobYamlParser):
    """What some editors and proxies call it."""

    media_type = "text/yaml"


JOB_PARSERS: Final = [JobJsonParser, JobYamlParser, OldYamlParser, TextYamlParser]
