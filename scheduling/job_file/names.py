"""Reading names of objects that stand in the workspace's namespace of a cluster."""

from __future__ import annotations

import re
from typing import Final

from django.utils.translation import gettext as _

from scheduling.job_file.section import Section

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_KEY: Final = re.compile(r"[-._A-Za-z0-9]+")


def read_name(part: Section, key: str) -> str:
    """The name of an object; anything else is noted."""
    name = part.text(key, limit=253)
    if not _NAME.fullmatch(name):
        part.add(key, "FORMAT", _("use lower-case letters, digits, dots and hyphens, as in my-data"))
    return name


def read_key(part: Section, key: str) -> str:
    """The key of an entry of a secret or a config map."""
    name = part.text(key, limit=253)
    if not _KEY.fullmatch(name):
        part.add(key, "FORMAT", _("use letters, digits, dots, hyphens and underscores, as in token"))
    return name


def read_source(part: Section, kinds: tuple[str, ...]) -> str:
    """Which of the `kinds` a mapping names; that it names none or several is noted."""
    named = [kind for kind in kinds if part.has(kind)]
    if len(named) != 1:
        part.problems.add(
            part.path, "REQUIRED", _("name exactly one of: %(choices)s") % {"choices": ", ".join(kinds)}
        )
    return named[0] if named else kinds[0]
