"""The bar of a job's stages from the queue to its end, and the same as a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from scheduling.models import Job
from scheduling.selectors.jobs.job_stages import JobStage, job_stages
from tenants.models import User

_WORDS: Final[Mapping[JobStage, tuple[str | Promise, str]]] = {
    JobStage.QUEUED: (gettext_lazy("Queued"), "foreign"),
    JobStage.QUOTA: (gettext_lazy("Waiting for quota"), "lent"),
    JobStage.NODES: (gettext_lazy("Waiting for nodes"), "held"),
    JobStage.STARTING: (gettext_lazy("Image pull and start"), "allocated"),
    JobStage.RUNNING: (gettext_lazy("Running"), "used"),
}
"""The name of each stage and the color of its part of the bar."""


@dataclass(frozen=True, slots=True)
class StageLine:
    """One stage; `begin` and `width` are percent of the bar."""

    label: str | Promise
    color: str
    time: timedelta
    begin: float
    width: float


@dataclass(frozen=True, slots=True)
class StageBar:
    """The stages in their order; `to_start` is the time before the job ran, `started` whether it ran."""

    lines: Sequence[StageLine]
    to_start: timedelta
    started: bool


def describe_stages(viewer: User, job: Job, now: datetime) -> StageBar | None:
    """Return the bar of a job; None for a job that is suspended or was submitted just now."""
    found = job_stages(viewer=viewer, job=job, now=now)
    total = sum((each.time for each in found), timedelta(0))
    lines: list[StageLine] = []
    passed = timedelta(0)
    for each in found:
        label, color = _WORDS[each.stage]
        lines.append(StageLine(label, color, each.time, _percent(passed, total), _percent(each.time, total)))
        passed += each.time
    to_start = sum((each.time for each in found if each.stage != JobStage.RUNNING), timedelta(0))
    return StageBar(lines, to_start, job.started_at is not None) if lines else None


def _percent(part: timedelta, whole: timedelta) -> float:
    return round(100 * (part / whole), 3)
