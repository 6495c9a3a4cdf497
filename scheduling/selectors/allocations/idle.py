"""Reads how long jobs have been idle, and the announced actions."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from foundation.core import clock
from scheduling.models import IdleStretch, Job, JobState


def find_idle_stretch(job: Job) -> IdleStretch | None:
    """Return the idle time of a running job; None while it is in use or unmeasured. The caller has checked
    that the user may see the job."""
    if job.state != JobState.RUNNING:
        return None
    row = IdleStretch.unscoped.filter(job=job, attempt_number=job.attempt_number).first()
    return row if row is not None and row.is_fresh(clock.now()) else None


def find_idle_stretches(jobs: Collection[Job]) -> Mapping[uuid.UUID, IdleStretch]:
    """Return the idle times of the running jobs among these, by job, in one query. The caller has checked
    that the user may see them."""
    running = {job.pk: job for job in jobs if job.state == JobState.RUNNING}
    now = clock.now()
    rows = IdleStretch.unscoped.filter(job__in=list(running)) if running else ()
    return {
        row.job_id: row
        for row in rows
        if row.attempt_number == running[row.job_id].attempt_number and row.is_fresh(now)
    }
