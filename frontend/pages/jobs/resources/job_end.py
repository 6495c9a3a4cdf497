"""The expected end of a running job as text: its ranges, their basis, and its run-time limit."""

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
    """The panel. `likely` and `wide` are what remains of the two ranges, None without an estimate.

    `limit` is the time at which the run-time limit ends the job, if there is one.
    """

    likely: Range | None
    wide: Range | None
    basis: str
    limit: datetime | None


def describe_expected_end(viewer: User, job: Job) -> EndWords | None:
    """Return the expected end of a job; None for a job that does not run."""
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
