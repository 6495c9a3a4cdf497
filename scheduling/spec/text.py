"""From YAML text to plain values."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

import yaml
from django.utils.translation import gettext as _

from foundation.errors import Invalid

_LARGEST: Final = 256 * 1024
# The C parser is about ten times as fast; the pure one is there wherever libyaml is not.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Reads `on`, `yes` and dates as the words they are, as YAML 1.2 does: `on` is a key of our files."""

    yaml_implicit_resolvers: ClassVar = {
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF")
)


def load_text(text: str | bytes) -> dict[str, Any]:
    """Read one YAML (or JSON) document that is a mapping.

    Raises: Invalid with code YAML_INVALID, naming the line where the parser does.
    """
    if len(text) > _LARGEST:
        raise Invalid(_("The file is larger than 256 KiB."), code="YAML_INVALID")
    try:
        # A few lines of aliases can expand to gigabytes, so they are refused before anything is built.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader)):
            raise yaml.YAMLError(_("aliases are not allowed here"))
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 (it is a safe loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise Invalid(
            _("The file is not valid YAML: %(problem)s") % {"problem": problem}, code="YAML_INVALID"
        ) from error
    if not isinstance(value, dict):
        raise Invalid(_("The file must be a mapping, as in name: my-job."), code="YAML_INVALID")
    return value
