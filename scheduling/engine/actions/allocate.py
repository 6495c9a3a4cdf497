"""The action that starts jobs where quota and room are free.

Each queue offers one head at a time. The heads of all queues are ordered and tried one by one
against the same state; an admitted head is followed by the next of its queue. Nothing is ever taken
away here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.engine.actions.gang import FullRooms, GangTry, Refusal
from scheduling.engine.actions.standing import lasting_refusal
from scheduling.engine.actions.turn import Turn
from scheduling.engine.model import (
    Allocation,
    Charge,
    Decision,
    DecisionKind,
    FlavorResource,
    Job,
    Outcome,
    OutcomeStatus,
    Queue,
    StopPolicy,
)
from scheduling.engine.placement.shape import resolve
from scheduling.engine.plugins.protocols import Candidate
from scheduling.engine.quota.charges import summed, task_charges, times
from scheduling.engine.quota.verdict import borrow_level

if TYPE_CHECKING:
    from scheduling.engine.session import Session


class Allocate:
    """Starts what fits, queue by queue, and gives every job that had its turn a reason."""

    name = "allocate"

    def run(self, session: Session) -> None:
        """Rounds over the heads of all open queues until no queue has one left."""
        turns = {
            queue.id: Turn(session, queue)
            for queue in session.queues()
            if queue.stop_policy is StopPolicy.NONE
        }
        full = FullRooms()
        while True:
            heads = [
                Candidate(turn.head, self._borrow_level(session, turn.queue, turn.head))
                for turn in turns.values()
                if turn.head is not None
            ]
            if not heads:
                return
            for candidate in session.in_order(heads):
                self._take_turn(session, turns[candidate.job.queue], candidate.job, full)

    def _take_turn(self, session: Session, turn: Turn, job: Job, full: FullRooms) -> None:
        session.counters["tried"] += 1
        outcome = lasting_refusal(session, turn.queue, job)
        if outcome is None:
            outcome = self._start(session, turn.queue, job, full)
        session.record(outcome)
        if outcome.status is OutcomeStatus.ADMITTED:
            turn.admitted()
        else:
            turn.failed(outcome)

    def _start(self, session: Session, queue: Queue, job: Job, full: FullRooms) -> Outcome:
        with session.snapshot.statement() as statement:
            before = _borrowed(session, queue)
            placed = GangTry(session.snapshot, session.placer, queue, job, full).start(statement)
            if isinstance(placed, Refusal):
                return Outcome(
                    job=job.id,
                    status=OutcomeStatus.WAITING,
                    reason=placed.reason,
                    numbers=placed.numbers,
                    help=placed.help,
                )
            statement.commit()
        session.counters["admitted"] += 1
        session.counters["placed_tasks"] += len(placed)
        session.decisions.append(
            Decision(
                kind=DecisionKind.ADMIT,
                job=job.id,
                allocations=placed,
                borrowed=_newly_borrowed(session, queue, placed, before),
            )
        )
        return Outcome(job=job.id, status=OutcomeStatus.ADMITTED, numbers={"tasks": len(placed)})

    def _borrow_level(self, session: Session, queue: Queue, job: Job) -> int:
        """The level at the queue's first flavor: what the job would take if it got its first choice."""
        known = (session.snapshot.flavors.get(flavor) for flavor in queue.flavors)
        first = next((flavor for flavor in known if flavor is not None), None)
        if first is None:
            return 0
        charges = (
            charge
            for role in job.roles
            for charge in times(task_charges(resolve(role.request, job.rules, first)), role.replicas)
        )
        total = tuple(Charge(key.flavor, key.resource, amount) for key, amount in summed(charges).items())
        return borrow_level(session.snapshot.quota, queue, total)


def _borrowed(session: Session, queue: Queue) -> dict[FlavorResource, int]:
    tree = session.snapshot.quota
    above = {}
    for key, used in tree.usages(queue.quota_node).items():
        nominal = tree.subtree_quota(queue.quota_node, key)
        if nominal is not None and used > nominal:
            above[key] = used - nominal
    return above


def _newly_borrowed(
    session: Session, queue: Queue, placed: tuple[Allocation, ...], before: dict[FlavorResource, int]
) -> tuple[Charge, ...]:
    after = _borrowed(session, queue)
    keys = {charge.key for allocation in placed for charge in allocation.charges}
    return tuple(
        sorted(
            Charge(key.flavor, key.resource, after[key] - before.get(key, 0))
            for key in keys
            if after.get(key, 0) > before.get(key, 0)
        )
    )
