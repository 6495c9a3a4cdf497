"""Reading what containers find in their environment: values, and entries of secrets and config maps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from clusters.gpu.reserved import could_be_reserved, is_reserved_variable
from scheduling.job_file.names import read_key, read_name, read_source
from scheduling.job_file.section import Section

ENVIRONMENT_MAX: Final = 256
ENVIRONMENT_BYTES_MAX: Final = 64 * 1024
SOURCES: Final = ("secret", "config")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_environment(job: Section) -> dict[str, Any]:
    """By name, a text, or where it is read from as `{secret: …, key: …}` or `{config: …, key: …}`."""
    raw = job.value("environment", {})
    if not isinstance(raw, Mapping):
        job.add("environment", "TYPE", _("must be a mapping of names to values"))
        return {}
    if len(raw) > ENVIRONMENT_MAX:
        message = _("must have at most %(limit)s entries") % {"limit": ENVIRONMENT_MAX}
        job.add("environment", "TOO_LONG", message)
        return {}
    found: dict[str, Any] = {}
    for key, value in raw.items():
        path = f"environment.{key}"
        if not _VARIABLE.fullmatch(str(key)):
            job.add(path, "FORMAT", _("use letters, digits and underscores, as in MY_KEY"))
        elif is_reserved_variable(str(key)):
            job.add(path, "RESERVED", _("the platform sets it, or leaves it unset on purpose"))
        elif isinstance(value, Mapping):
            found[str(key)] = _entry(Section.read(value, path, (*SOURCES, "key", "optional"), job.problems))
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            job.add(path, "TYPE", _("must be text; put it in quotes"))
        else:
            found[str(key)] = str(value)
    if sum(len(key) + len(str(value).encode()) for key, value in found.items()) > ENVIRONMENT_BYTES_MAX:
        limits = {"limit": ENVIRONMENT_BYTES_MAX // 1024}
        job.add("environment", "TOO_LONG", _("must have at most %(limit)s KiB in all") % limits)
    return found


def read_environment_from(job: Section) -> list[dict[str, Any]]:
    """Whole secrets and config maps, each of whose keys becomes a variable behind a prefix."""
    found = []
    for index, raw in enumerate(job.items("environment_from", limit=16)):
        path = f"environment_from.{index}"
        part = Section.read(raw, path, (*SOURCES, "prefix", "optional"), job.problems)
        kind, prefix = read_source(part, SOURCES), part.text("prefix", limit=63)
        if not _VARIABLE.fullmatch(prefix):
            # Without one, a key of a secret could be named like any variable, the platform's among them.
            part.add("prefix", "REQUIRED", _("say what the variables begin with, as in HUB_"))
        elif could_be_reserved(prefix):
            part.add("prefix", "RESERVED", _("choose another prefix: the platform's own variables begin so"))
        found.append({kind: read_name(part, kind), "prefix": prefix, **_optional(part)})
    return found


def _entry(part: Section) -> dict[str, Any]:
    kind = read_source(part, SOURCES)
    return {kind: read_name(part, kind), "key": read_key(part, "key"), **_optional(part)}


def _optional(part: Section) -> dict[str, bool]:
    """Whether the job starts without it; left out where it does not."""
    return {"optional": True} if part.flag("optional", default=False) else {}
