"""One limit as a quota file writes it, and the errors that it can have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.numbers import read_whole
from foundation.core.quantities import Resource
from quotas.distribution.division import Keep

UNLIMITED_WORD: Final = "unlimited"
LIMITS: Final = ("nominal", "borrowing_limit", "lending_limit")
PLACE: Final = ("tenant", "queue", "cluster", "flavor", "resource")
COLUMNS: Final = (*PLACE, *LIMITS)
ROWS_MAX: Final = 20_000
_PROBLEMS_MAX: Final = 100
"""The maximum number of errors that are reported: a file may consist of errors only."""


class FileFormat(StrEnum):
    YAML = "yaml"
    CSV = "csv"


def find_format(name: str) -> FileFormat:
    """Return the format by the end of a file's name; YAML for any other."""
    return FileFormat.CSV if name.lower().endswith(".csv") else FileFormat.YAML


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One limit. `queue` is empty for the tenant itself, `cluster` where the flavor's name is enough."""

    line: int
    tenant: str
    queue: str
    cluster: str
    flavor: str
    resource: Resource
    nominal: int | Keep | None
    borrowing_limit: int | Keep | None
    lending_limit: int | Keep | None


class PoolShare(Enum):
    """The part of the nodes' CPU or memory in the pool that belongs to the GPUs of the same row."""

    OF_NODES = "nodes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """The quota of one pool in GPUs; cards, compute and GPU memory follow from it.

    `cpu` is in millicores and `memory` in MiB. `lines` are those of its fields.
    """

    line: int
    tenant: str
    queue: str
    cluster: str
    flavor: str
    gpus: int | Keep | None = Keep.AS_IS
    borrowing_limit: int | Keep | None = Keep.AS_IS
    lending_limit: int | Keep | None = Keep.AS_IS
    cpu: int | Keep | PoolShare | None = Keep.AS_IS
    memory: int | Keep | PoolShare | None = Keep.AS_IS
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)


Row = FileRow | PoolRow
Cell = tuple[str, int]
"""A value as it was written, and its line."""


class FileProblems:
    """The errors of one file, by line and field."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: dict[tuple[int, FieldError], None] = {}

    def add_problem(self, line: int, field: str, code: str, message: str) -> None:
        """Record an error once: a line for several tenants has the same error for each of them.

        Raises: Invalid with all errors when there are too many to continue.
        """
        self._found[line, FieldError(self.locate_field(line, field), code, message)] = None
        if len(self._found) >= _PROBLEMS_MAX:
            self.raise_if_any()

    def locate_field(self, line: int, field: str = "") -> str:
        """Return file, line and field as text, such as `quotas.yaml:12 nominal`."""
        return f"{self.name}:{line} {field}".rstrip()

    def raise_if_any(self) -> None:
        """Raise the errors, if any. Raises: Invalid with all of them, in the order of the lines."""
        if self._found:
            errors = [
                error for _line, error in sorted(self._found, key=lambda item: (item[0], item[1].field))
            ]
            message = _("The file has errors. No changes were made.")
            raise Invalid(message, code="FILE_INVALID", errors=errors)


def read_limit(text: str, problems: FileProblems, line: int, field: str) -> int | Keep | None:
    """Read a whole number, `unlimited`, or an empty text, which leaves the limit unchanged."""
    word = text.strip()
    if not word:
        return Keep.AS_IS
    if word.lower() == UNLIMITED_WORD:
        return None
    if (amount := read_whole(word, most=10**19)) is not None:
        return amount
    message = _('Invalid amount %(text)s. Enter a whole number or "unlimited".')
    problems.add_problem(line, field, "AMOUNT", message % {"text": repr(word[:40])})
    return Keep.AS_IS


def read_resource(text: str, problems: FileProblems, line: int) -> Resource:
    """Return a resource by its name; for any other text record a problem and return the first resource."""
    word = text.strip()
    if word in {resource.value for resource in Resource}:
        return Resource(word)
    message = _("Unknown resource %(text)s. Valid: %(known)s.")
    known = ", ".join(resource.value for resource in Resource)
    problems.add_problem(line, "resource", "UNKNOWN", message % {"text": repr(word[:40]), "known": known})
    return Resource.CPU


def build_row(line: int, found: Mapping[str, Cell], problems: FileProblems) -> FileRow:
    """Build one limit from its values; every error in them is recorded in `problems`."""

    def text(field: str) -> str:
        return found.get(field, ("", line))[0].strip()

    def at(field: str) -> int:
        return found.get(field, ("", line))[1]

    for field in ("tenant", "flavor", "resource"):
        if not text(field):
            problems.add_problem(line, field, "REQUIRED", _("Required."))
    limits = {field: read_limit(text(field), problems, at(field), field) for field in LIMITS}
    named = text("resource")
    resource = read_resource(named, problems, at("resource")) if named else Resource.CPU
    return FileRow(
        line=line,
        tenant=text("tenant"),
        queue=text("queue"),
        cluster=text("cluster"),
        flavor=text("flavor"),
        resource=resource,
        nominal=limits["nominal"],
        borrowing_limit=limits["borrowing_limit"],
        lending_limit=limits["lending_limit"],
    )
