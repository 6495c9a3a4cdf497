"""Whether a job could ever run, asked before it is accepted.

The engine knows the answer, but it needs a snapshot of the cell; whoever owns snapshots registers a
checker here. Without one every job is accepted, and waits with `NEVER_FITS` if it has to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.utils.translation import gettext as _

from foundation.core.errors import Refused
from quotas.models import Queue
from scheduling.job_file import JobSpec


class NeverFits(Refused):
    """No flavor of the queue could hold the job even if everything were empty."""

    code = "NEVER_FITS"


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a job cannot ever run: numbers (asked, largest, …) and what would help."""

    numbers: Mapping[str, Any] = field(default_factory=dict)
    help: Sequence[Mapping[str, Any]] = ()


class Checker(Protocol):
    """Answers None for a job that could run once enough is free."""

    def __call__(self, spec: JobSpec, queue: Queue) -> Misfit | None: ...


_checkers: list[Checker] = []


def register(checker: Checker) -> None:
    """Add a checker; called once from an `AppConfig.ready()`."""
    if checker not in _checkers:
        _checkers.append(checker)


def check(spec: JobSpec, queue: Queue) -> None:
    """Refuse a job that could never run.

    Raises: NeverFits.
    """
    for checker in _checkers:
        misfit = checker(spec, queue)
        if misfit is not None:
            numbers = {**misfit.numbers, "help": [dict(item) for item in misfit.help]}
            raise NeverFits(_("No node could hold it even if every node were empty."), numbers=numbers)
