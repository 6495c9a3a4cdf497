"""Parsers of request bodies that are job files, in YAML or JSON, with size limits."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from foundation.core.bounded_parsing import ParseBounds
from foundation.web.parsers import BodyParser, BoundedJsonParser
from scheduling.job_file import JOB_BOUNDS, load_text


class JobJsonParser(BoundedJsonParser):
    """The parser of `application/json`."""

    bounds: ClassVar[ParseBounds] = JOB_BOUNDS


class JobYamlParser(BodyParser):
    """The parser of `application/yaml`, the registered media type."""

    media_type = "application/yaml"
    bounds: ClassVar[ParseBounds] = JOB_BOUNDS

    def read_body(self, body: bytes) -> Any:
        """Return the mapping in the text."""
        return load_text(body)


class OldYamlParser(JobYamlParser):
    """The parser of the media type that was used before YAML had a registered one."""

    media_type = "application/x-yaml"


class TextYamlParser(JobYamlParser):
    """The parser of the media type that some editors and proxies use for YAML."""

    media_type = "text/yaml"


JOB_PARSERS: Final = [JobJsonParser, JobYamlParser, OldYamlParser, TextYamlParser]
