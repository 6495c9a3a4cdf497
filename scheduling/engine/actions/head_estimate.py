"""A job among those of other queues, before it is known what it would get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource, Job, Queue
from scheduling.engine.session.session import FlavorUsage, Session
from scheduling.engine.state.charges import asked_of

Tree = QuotaTree[FlavorResource]
UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadEstimate:
    """A job of a queue. `leaf` is the queue's quota node, `usage` what the job would be charged."""

    job: Job
    leaf: str
    queue: str
    usage: Mapping[FlavorResource, int]
    borrow_level: int = 0


def compute_borrow_level(tree: Tree, leaf: str, usage: Mapping[FlavorResource, int]) -> int:
    """How far up the tree a leaf would have to reach for this much more; 0 inside its own quota."""
    return max((tree.borrow_level(leaf, key, amount) for key, amount in usage.items()), default=0)


def estimate_head(session: Session, tree: Tree, queue: Queue, job: Job) -> HeadEstimate:
    """A job as it would be if it got the first flavor of each group: its first choice."""
    usage, leaf = _first_choice(session, queue, job), queue.quota_node
    level = compute_borrow_level(tree, leaf, usage)
    return HeadEstimate(job=job, leaf=leaf, queue=queue.id, usage=usage, borrow_level=level)


class OwnQuotaFit:
    """Which jobs of one queue stay inside what it owns. Asked of thousands, so what is free there is worked
    out once for each look, and the most that was free at any look is kept."""

    def __init__(self, session: Session, queue: Queue) -> None:
        self._session, self._queue = session, queue
        self._now: dict[FlavorResource, float] = {}
        self._most: dict[FlavorResource, float] = {}
        # What the last job had too little of is mostly what the next one lacks.
        self._scarce: FlavorResource | None = None

    def refresh(self) -> bool:
        """Look at what is free; whether more is than at any look before."""
        more = False
        for key in self._now:
            room = self._now[key] = self._room(key)
            if room > self._most[key]:
                self._most[key], more = room, True
        return more

    def may_ever_hold(self, job: Job) -> bool:
        """Whether a job would have stayed inside with the most that was free at any look."""
        return self._fits(job, self._most)

    def holds_now(self, job: Job) -> bool:
        """Whether it stays inside now."""
        return self._fits(job, self._now)

    def _fits(self, job: Job, rooms: dict[FlavorResource, float]) -> bool:
        usage = _first_choice(self._session, self._queue, job)
        scarce = self._scarce
        if scarce is not None and scarce in usage and usage[scarce] > rooms[scarce]:
            return False
        for key, amount in usage.items():
            if key not in rooms:
                self._now[key] = self._most[key] = self._room(key)
            if amount > rooms[key]:
                self._scarce = key
                return False
        return True

    def _room(self, key: FlavorResource) -> float:
        # What is shown may be another state than at the look before: with those gone that are leaving.
        room = self._session.snapshot.quota.own_room(self._queue.quota_node, key)
        return UNLIMITED if room is None else room


def _first_choice(session: Session, queue: Queue, job: Job) -> FlavorUsage:
    known, key = session.first_choice, (queue.id, session.equivalence.request_class_of(job))
    if key not in known:
        known[key] = _charged_first(session, queue, job)
    return known[key]


def _charged_first(session: Session, queue: Queue, job: Job) -> FlavorUsage:
    usage: dict[FlavorResource, int] = {}
    full = {role.name: max(0, role.replicas - role.ended) for role in job.roles}
    for group in queue.groups:
        known = (session.snapshot.flavors.get(name) for name in group.flavors)
        flavor = next((found for found in known if found is not None), None)
        if flavor is None:
            continue
        for key, amount in asked_of(job, full, flavor).items():
            if not group.resources or key.resource in group.resources:
                usage[key] = usage.get(key, 0) + amount
    return usage
