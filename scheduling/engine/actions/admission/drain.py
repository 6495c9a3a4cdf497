"""Queues that are being emptied: everything that runs there is told to leave."""

from __future__ import annotations

from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.model import Decision, DecisionKind, EvictRule, JobState, StopPolicy
from scheduling.engine.session.session import Session


def drain(session: Session, outlook: Outlook) -> None:
    """Tell the running jobs of each queue on `hold-and-drain` to leave, by id."""
    snapshot = session.snapshot
    for queue in session.sorted_queues():
        if queue.stop_policy is not StopPolicy.HOLD_AND_DRAIN:
            continue
        for job_id in snapshot.holders(queue.id):
            job = snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE:
                continue
            held = tuple(task.id for task in snapshot.held(job_id) if not task.leaving)
            if not held:
                continue
            outlook.add(held)
            session.counters["drained"] += 1
            session.decisions.append(
                Decision(kind=DecisionKind.EVICT, job=job_id, rule=EvictRule.QUEUE_DRAINED, released=held)
            )
