"""Finished runs of the past, as rows, from which predictions learn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from foundation.core import clock
from quotas.models import Queue
from scheduling.models import Attempt, Job, JobState
from tenants.models import User
from tests.builders import jobs


def finished_runs(
    queue: Queue, user: User, seconds: Sequence[int], *, ago: timedelta = timedelta(days=2), cards: int = 1
) -> list[Job]:
    """One finished job per run time, each submitted a minute after the one before, and started at once."""
    made = []
    for number, run_s in enumerate(seconds):
        at = clock.now() - ago + timedelta(minutes=number)
        ended = at + timedelta(seconds=run_s)
        job = jobs.job(
            queue,
            user,
            roles=[jobs.RoleOf(cards=cards)],
            state=JobState.SUCCEEDED,
            submitted_at=at,
            admitted_at=at,
            started_at=at,
            finished_at=ended,
            attempt_number=1,
        )
        Attempt.unscoped.create(job=job, number=1, epoch=1, admitted_at=at, started_at=at, ended_at=ended)
        made.append(job)
    return made
