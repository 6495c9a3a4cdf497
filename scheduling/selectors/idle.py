"""Reading how long a job has been idle, and what is announced because of it."""

from __future__ import annotations

from foundation.core import clock
from scheduling.models import IdleStretch, Job, JobState


def find_idle_stretch(job: Job) -> IdleStretch | None:
    """Return the idle time of a running job; None while it is in use or unmeasured. The caller may see it."""
    if job.state != JobState.RUNNING:
        return None
    row = IdleStretch.unscoped.filter(job=job, attempt_number=job.attempt_number).first()
    return row if row is not None and row.is_fresh(clock.now()) else None
