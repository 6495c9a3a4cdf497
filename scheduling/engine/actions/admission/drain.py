"""This module drains queues: all their running jobs are evicted."""

from __future__ import annotations

from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.model import Decision, DecisionKind, EvictRule, JobState, StopPolicy
from scheduling.engine.session.session import Session


def drain_queues(session: Session, future_view: FutureView) -> None:
    """Evict the running jobs of each queue with the stop policy `hold-and-drain`, by id."""
    snapshot = session.snapshot
    for queue in session.sorted_queues():
        if queue.stop_policy is not StopPolicy.HOLD_AND_DRAIN:
            continue
        for job_id in snapshot.jobs_charged_to(queue.id):
            job = snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE:
                continue
            held = tuple(task.id for task in snapshot.allocations_of(job_id) if not task.leaving)
            if not held:
                continue
            future_view.mark_terminating(held)
            session.counters["drained"] += 1
            session.decisions.append(
                Decision(kind=DecisionKind.EVICT, job=job_id, rule=EvictRule.QUEUE_DRAINED, released=held)
            )
