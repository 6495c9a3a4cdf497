"""Bodies that are job files: YAML or JSON, read within bounds."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from foundation.core.bounded_parsing import ParseBounds
from foundation.web.parsers import BodyParser, BoundedJsonParser
from scheduling.job_file import JOB_BOUNDS, load_text


class JobJsonParser(BoundedJsonParser):
    """`application/json`."""

    bounds: ClassVar[ParseBounds] = JOB_BOUNDS


class JobYamlParser(BodyParser):
    """`application/yaml`, the registered type."""

    media_type = "application/yaml"
    bounds: ClassVar[ParseBounds] = JOB_BOUNDS

    def read_body(self, body: bytes) -> Any:
        """The mapping that the text is."""
        return load_text(body)


class OldYamlParser(JobYamlParser):
    """The type that was used before YAML had a registered one."""

    media_type = "application/x-yaml"


class TextYamlParser(JobYamlParser):
    """The media type that some editors and proxies use for YAML."""

    media_type = "text/yaml"


JOB_PARSERS: Final = [JobJsonParser, JobYamlParser, OldYamlParser, TextYamlParser]
