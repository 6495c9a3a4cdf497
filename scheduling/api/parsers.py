"""Bodies that are job files: YAML or JSON, of bounded size and depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, ClassVar, Final

from rest_framework.parsers import BaseParser

from foundation.parsers import BoundedJsonParser, read_body, require_shallow
from scheduling.spec import load_text

LARGEST: Final = 256 * 1024


class JobJsonParser(BoundedJsonParser):
    """`application/json`."""

    largest: ClassVar[int] = LARGEST


class JobYamlParser(BaseParser):
    """`application/yaml`, the registered type."""

    media_type = "application/yaml"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        value = load_text(read_body(stream, LARGEST))
        require_shallow(value)
        return value


class OldYamlParser(JobYamlParser):
    """The type that was used before YAML had a registered one."""

    media_type = "application/x-yaml"


class TextYamlParser(JobYamlParser):
    """What some editors and proxies call it."""

    media_type = "text/yaml"


JOB_PARSERS: Final = [JobJsonParser, JobYamlParser, OldYamlParser, TextYamlParser]
