"""The expected end of a running job in words: its ranges, their basis, and the limit of its run time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import ngettext

from foundation.core import clock
from frontend.pages.jobs.pending.job_expected import Range, clip_to_now
from frontend.texts import formats
from scheduling.models import RUNNING_STATES, Job
from scheduling.prediction.run_times import RunBasis, RunGroup
from scheduling.services.start_prediction.queue_times import running_times
from tenants.models import User


@dataclass(frozen=True, slots=True)
class EndWords:
    """The panel. `likely` and `wide` are what is left of the two ranges, None without an estimate.

    `limit` is when the job is ended at the latest, if its run time is limited.
    """

    likely: Range | None
    wide: Range | None
    basis: str
    limit: datetime | None


def describe_expected_end(viewer: User, job: Job) -> EndWords | None:
    """Return when a job is expected to end; None for one that does not run."""
    if job.started_at is None or job.state not in RUNNING_STATES:
        return None
    now = clock.now()
    found = running_times(viewer=viewer, job=job, now=now)
    if not found.ends:
        return EndWords(None, None, "", job.deadline_at)
    low, likely_low, _median, likely_high, high = found.ends
    return EndWords(
        likely=clip_to_now(likely_low, likely_high, now),
        wide=clip_to_now(low, high, now),
        basis=_format_basis(found.basis) if found.basis else "",
        limit=job.deadline_at,
    )


def _format_basis(basis: RunBasis) -> str:
    runs = basis.runs
    sentences = {
        RunGroup.SAME_JOB: ngettext(
            "Based on %(runs)s earlier run of this user with the same image, type and size.",
            "Based on %(runs)s earlier runs of this user with the same image, type and size.",
            runs,
        ),
        RunGroup.USER_SIZE: ngettext(
            "Based on %(runs)s earlier run of this user with the same size.",
            "Based on %(runs)s earlier runs of this user with the same size.",
            runs,
        ),
        RunGroup.WORKSPACE_SIZE: ngettext(
            "Based on %(runs)s earlier run in this queue with the same size.",
            "Based on %(runs)s earlier runs in this queue with the same size.",
            runs,
        ),
    }
    whole = ngettext(
        "Based on %(runs)s earlier run in this queue.", "Based on %(runs)s earlier runs in this queue.", runs
    )
    return sentences.get(basis.level, whole) % {"runs": formats.format_number(runs)}
