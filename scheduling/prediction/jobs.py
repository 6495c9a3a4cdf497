"""Converts jobs of the past to jobs of a future."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine.model import Instant, Job, JobState


def rename_job(job: Job, name: str, at: float) -> Job:
    """Return the job as a new one that is submitted at an instant, without its history."""
    return replace(
        job,
        id=name,
        submitted_at=Instant(at),
        state=JobState.QUEUED,
        admitted_at=None,
        running_since=None,
        evictions=0,
        evicted_at=None,
        backoff_until=None,
        preempting=False,
        preempts_after=None,
        idle_since=None,
        drained=False,
        drained_until=None,
        grow_after=None,
        allowances=(),
        roles=tuple(replace(role, ended=0) for role in job.roles),
        rules=replace(job.rules, group=name) if job.rules.group else job.rules,
    )
