"""Parses the environment of containers: values, and entries of secrets and config maps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from clusters.gpu.reserved import is_reserved_variable
from scheduling.job_file.values.kinds import Form, Text, check_forms
from scheduling.job_file.values.section import Section
from scheduling.job_file.values.text_forms import NAME

VARIABLES_MAX: Final = 256
BYTES_MAX: Final = 64 * 1024
_SOURCES: Final = ("secret", "config")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = Form.of_pattern(
    r"[-._A-Za-z0-9]+", gettext_noop("Use letters, digits, dots, hyphens and underscores, for example token.")
)


@dataclass(frozen=True, slots=True)
class Variables:
    """Variables by name: a text, or its source as `{secret: …, key: …}` or `{config: …, key: …}`."""

    words: ClassVar[str] = "mapping of names to a text, `{secret: …, key: …}` or `{config: …, key: …}`"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        raw = part.read_value(key, {})
        if not isinstance(raw, Mapping):
            part.add_problem(key, "TYPE", _("Must be a map of names to values."))
            return {}
        if len(raw) > VARIABLES_MAX:
            part.add_problem(key, "TOO_LONG", _("Maximum: %(limit)s entries.") % {"limit": VARIABLES_MAX})
            return {}
        found = {str(name): _value(part, f"{key}.{name}", str(name), value) for name, value in raw.items()}
        said = {name: value for name, value in found.items() if value is not None}
        if sum(len(name) + len(str(value).encode()) for name, value in said.items()) > BYTES_MAX:
            part.add_problem(
                key, "TOO_LONG", _("Maximum: %(limit)s KiB in total.") % {"limit": BYTES_MAX // 1024}
            )
        return said


def _value(part: Section, path: str, name: str, value: Any) -> Any:
    """Return the value of a variable; None if an error was recorded."""
    if not _VARIABLE.fullmatch(name):
        part.add_problem(path, "FORMAT", _("Use letters, digits and underscores, for example MY_KEY."))
    elif is_reserved_variable(name):
        part.add_problem(path, "RESERVED", _("This variable is reserved."))
    elif isinstance(value, Mapping):
        return _entry(
            Section.read_section(value, part.path_of(path), (*_SOURCES, "key", "optional"), part.problems)
        )
    elif isinstance(value, bool) or not isinstance(value, str | int | float):
        part.add_problem(path, "TYPE", _("Must be a string, in quotes."))
    else:
        return str(value)
    return None


def _entry(part: Section) -> dict[str, Any]:
    named = [source for source in _SOURCES if part.has_key(source)]
    if len(named) != 1:
        sentence = _("Specify exactly one of: %(choices)s.") % {"choices": ", ".join(_SOURCES)}
        part.problems.add_problem(part.path, "REQUIRED", sentence)
    source = named[0] if named else _SOURCES[0]
    found: dict[str, Any] = {source: Text(253, (NAME,)).read_value(part, source, "")}
    found["key"] = part.read_text("key", limit=253)
    check_forms(part, "key", found["key"], (_KEY,))
    return found | ({"optional": True} if part.read_flag("optional", default=False) else {})
