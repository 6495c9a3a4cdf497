"""This module changes the memory of slices to what their measured use wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from foundation.core.quantities import Resource
from quotas.tree import is_at_least
from scheduling.engine.actions.eviction import evict_tasks
from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.model import (
    Allocation,
    AllocationMode,
    Charge,
    Decision,
    DecisionKind,
    EvictRule,
    FlavorResource,
    Job,
    JobState,
)
from scheduling.engine.session.session import Session
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement

MAX_CHANGES_PER_CYCLE = 32
MAX_CANDIDATES = 32


class EvictableJob(NamedTuple):
    """A job and its tasks that could end; `owns` means that it is inside the quota of another queue."""

    job: Job
    tasks: tuple[Allocation, ...]
    owns: bool


class SliceResize:
    """Takes memory off slices that do not use it, and gives it back to those that need it again.

    A slice that lent memory gets it back before anything else starts. Where there is no room, tasks that
    were started after it lent are evicted: on its cards, or charged to the quota that it needs. Jobs that
    borrow quota and those of the same queue go first, then lower priorities, then the youngest. A job inside
    the quota of another queue is evicted only if it can be placed elsewhere at once; jobs that are not
    preemptible, and those that ran before, stay. No job is evicted where that does not suffice.
    """

    name = "resize"

    def run(self, session: Session) -> None:
        """Change the slices that want another memory, at most `MAX_CHANGES_PER_CYCLE` of them."""
        found = [task for task in session.snapshot.allocations.values() if _wants_change(session, task)]
        for task in sorted(found, key=lambda task: task.id)[:MAX_CHANGES_PER_CYCLE]:
            wanted = task.wanted_memory or 0
            if wanted < task.slices[0].memory:
                _decide(session, task, resized_allocation(task, wanted))
            else:
                _return_memory(session, task, wanted)


def _wants_change(session: Session, task: Allocation) -> bool:
    if task.wanted_memory is None or task.leaving or not task.slices:
        return False
    job = session.snapshot.jobs.get(task.job)
    live = job is not None and job.state is JobState.LIVE
    return live and task.wanted_memory != task.slices[0].memory


def resized_allocation(task: Allocation, memory: int) -> Allocation:
    """Return the allocation with so much memory of each card, charged accordingly."""
    more = sum(memory - part.memory for part in task.slices)
    charges = tuple(
        Charge(charge.flavor, charge.resource, charge.amount + more)
        if charge.resource == Resource.GPU_MEMORY
        else charge
        for charge in task.charges
    )
    slices = tuple(part._replace(memory=memory) for part in task.slices)
    return replace(task, slices=slices, charges=charges, wanted_memory=None)


def _decide(session: Session, task: Allocation, resized: Allocation) -> None:
    numbers: dict[str, int | str] = {"from": task.slices[0].memory, "to": resized.slices[0].memory}
    session.counters["resized"] += 1
    session.decisions.append(
        Decision(kind=DecisionKind.RESIZE, job=task.job, allocations=(resized,), numbers=numbers)
    )


def _return_memory(session: Session, task: Allocation, wanted: int) -> None:
    snapshot = session.snapshot
    more = wanted - task.slices[0].memory
    resized = resized_allocation(task, wanted)
    if _has_room(snapshot, task, more):
        _decide(session, task, resized)
    elif not _has_room_without(snapshot, task, more, ()):
        victims = _find_victims(session, task, more, resized)
        for victim in victims:
            evict_tasks(session, victim.job, victim.tasks, EvictRule.SLICE_RETURNED, beneficiary=task.job)
        if not victims:
            return
    # What those that are terminating still hold is not promised again in this cycle.
    with snapshot.statement() as statement:
        statement.release(task.id)
        statement.allocate(resized)
        statement.commit()


def _has_room(snapshot: Snapshot, task: Allocation, more: int) -> bool:
    """Return whether each card of a task, and its quota, has so much more memory."""
    row = snapshot.fleet.row.get(task.node)
    if row is None:
        return False
    cards = {card.uuid: card.memory - card.used_memory for card in snapshot.fleet.export_node(row).devices}
    if any(cards.get(part.device, 0) < more for part in task.slices):
        return False
    queue, job = snapshot.queues[task.queue], snapshot.jobs[task.job]
    key, asked = FlavorResource(task.flavor, Resource.GPU_MEMORY), more * len(task.slices)
    if not is_at_least(snapshot.quota.available(queue.quota_node, key), asked):
        return False
    borrows = queue.allocation_mode is AllocationMode.DYNAMIC and job.preemptible
    return borrows or is_at_least(snapshot.quota.own_room(queue.quota_node, key), asked)


def _has_room_without(
    snapshot: Snapshot, task: Allocation, more: int, released: Sequence[EvictableJob]
) -> bool:
    """Return whether there is room once terminating tasks, and those of `released`, have ended."""
    with snapshot.statement() as statement:
        _release_ended(snapshot, statement, released)
        return _has_room(snapshot, task, more)


def _release_ended(snapshot: Snapshot, statement: Statement, released: Sequence[EvictableJob]) -> None:
    for one in snapshot.leaving_allocations():
        statement.release(one)
    for victim in released:
        for other in victim.tasks:
            if other.id in snapshot.allocations:
                statement.release(other.id)


def _find_victims(session: Session, task: Allocation, more: int, resized: Allocation) -> list[EvictableJob]:
    """Return the jobs to evict tasks of, each of them needed; none where all together do not suffice."""
    candidates = _list_candidates(session, task)
    while candidates:
        chosen = _choose_victims(session.snapshot, task, more, candidates)
        stuck = _find_stuck(session, task, resized, chosen)
        if stuck is None:
            return chosen
        candidates.remove(stuck)
    return []


def _choose_victims(
    snapshot: Snapshot, task: Allocation, more: int, candidates: Sequence[EvictableJob]
) -> list[EvictableJob]:
    chosen = list[EvictableJob]()
    for candidate in candidates:
        chosen.append(candidate)
        if _has_room_without(snapshot, task, more, chosen):
            break
    else:
        return []
    for candidate in list(chosen):
        rest = [one for one in chosen if one is not candidate]
        if _has_room_without(snapshot, task, more, rest):
            chosen = rest
    return chosen


def _find_stuck(
    session: Session, task: Allocation, resized: Allocation, chosen: Sequence[EvictableJob]
) -> EvictableJob | None:
    """Return a victim inside its own quota for which there is no other place; None if all have one."""
    snapshot = session.snapshot
    attempt = StartAttempt(snapshot, session.placer, session.config.preemption.eviction_cap)
    with snapshot.statement() as statement:
        _release_ended(snapshot, statement, chosen)
        statement.release(task.id)
        statement.allocate(resized)
        for victim in chosen:
            queue = snapshot.queues[victim.job.queue]
            if victim.owns and attempt.place_again(statement, queue, victim.job, victim.tasks) is None:
                return victim
    return None


def _list_candidates(session: Session, task: Allocation) -> list[EvictableJob]:
    """Return preemptible jobs that were started after the task lent memory, with their tasks that matter."""
    snapshot, lent_at = session.snapshot, task.lent_at
    if lent_at is None:
        return []
    key, devices = FlavorResource(task.flavor, Resource.GPU_MEMORY), {part.device for part in task.slices}
    by_job: dict[str, list[Allocation]] = {}
    for other in snapshot.allocations.values():
        here = other.node == task.node and any(part.device in devices for part in other.slices)
        pays = any(charge.key == key for charge in other.charges)
        if other.job != task.job and not other.leaving and (here or pays):
            by_job.setdefault(other.job, []).append(other)
    found = []
    for job_id, tasks in by_job.items():
        job = snapshot.jobs.get(job_id)
        if job is None or job.state is not JobState.LIVE or not job.preemptible:
            continue
        if job.admitted_at is None or job.admitted_at < lent_at:
            continue
        borrows = snapshot.quota.borrows(snapshot.queues[job.queue].quota_node, key)
        owns = not borrows and job.queue != task.queue
        found.append(EvictableJob(job, snapshot.allocations_of(job_id) if owns else tuple(tasks), owns))
    return sorted(found, key=_eviction_order)[:MAX_CANDIDATES]


def _eviction_order(victim: EvictableJob) -> tuple[bool, int, float, str]:
    job = victim.job
    return (victim.owns, job.priority, -(job.admitted_at or 0.0), job.id)
