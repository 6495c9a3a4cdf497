"""Checks before a job is accepted that it could run at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.errors import Refused
from foundation.core.lazy_import import defer_import
from foundation.core.reasons import Reason
from quotas.models import Queue
from scheduling.job_file import JobSpec


class NeverFits(Refused):
    """No flavor of the queue could hold the job even in an empty cell."""

    code = Reason.NEVER_FITS


@dataclass(frozen=True, slots=True)
class JobMisfit:
    """The reason why a job can never run: numbers (asked, largest, …) and recommendations."""

    numbers: Mapping[str, Any] = field(default_factory=dict)
    help: Sequence[Mapping[str, Any]] = ()


# The import is deferred, because most commands submit no jobs and need neither snapshots nor the engine.
find_misfit: Final[Callable[[JobSpec, Queue], JobMisfit | None]] = defer_import(
    "scheduling.services.jobs.potential:find_misfit"
)


def check(spec: JobSpec, queue: Queue) -> None:
    """Refuse a job that could never run.

    Raises: NeverFits.
    """
    misfit = find_misfit(spec, queue)
    if misfit is not None:
        numbers = {**misfit.numbers, "help": [dict(item) for item in misfit.help]}
        raise NeverFits(_("No node is large enough for this job."), numbers=numbers)
