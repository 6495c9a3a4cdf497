"""This module estimates, to order the heads of queues, the quota that a job needs before it is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource, Job, Queue
from scheduling.engine.session.session import FlavorUsage, Session
from scheduling.engine.state.charges import compute_job_demand

Tree = QuotaTree[FlavorResource]
UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadEstimate:
    """A job at the head of a queue: `leaf` is the queue's quota node, `usage` what it would be charged."""

    job: Job
    leaf: str
    queue: str
    usage: Mapping[FlavorResource, int]
    borrow_level: int = 0


def compute_borrow_level(tree: Tree, leaf: str, usage: Mapping[FlavorResource, int]) -> int:
    """Return how many levels above a leaf this usage would borrow from; 0 is inside the leaf's own quota."""
    return max((tree.borrow_level(leaf, key, amount) for key, amount in usage.items()), default=0)


def estimate_head(session: Session, tree: Tree, queue: Queue, job: Job) -> HeadEstimate:
    """Return the estimate of a job that gets the first flavor of each resource group."""
    usage, leaf = first_choice(session, queue, job), queue.quota_node
    level = compute_borrow_level(tree, leaf, usage)
    return HeadEstimate(job=job, leaf=leaf, queue=queue.id, usage=usage, borrow_level=level)


class OwnQuotaFit:
    """Decides which jobs of one queue fit in its own quota, without borrowing.

    It is asked about thousands of jobs, so the free quota is read once per `refresh`, and the maximum over
    all of them is kept.
    """

    def __init__(self, session: Session, queue: Queue) -> None:
        self._session, self._queue = session, queue
        self._now: dict[FlavorResource, float] = {}
        self._max: dict[FlavorResource, float] = {}

    def refresh(self) -> bool:
        """Read the free quota, and return whether it is more than at any time before."""
        more = False
        for key in self._now:
            free_amount = self._now[key] = self._free_amount(key)
            if free_amount > self._max[key]:
                self._max[key], more = free_amount, True
        return more

    def may_ever_fit(self, job: Job) -> bool:
        """Return whether the job fits in the maximum that was free at any time."""
        return self._fits(job, self._max)

    def fits_now(self, job: Job) -> bool:
        """Return whether the job fits in what is free now."""
        return self._fits(job, self._now)

    def _fits(self, job: Job, free_amounts: dict[FlavorResource, float]) -> bool:
        usage = first_choice(self._session, self._queue, job)
        for key, amount in usage.items():
            if key not in free_amounts:
                self._now[key] = self._max[key] = self._free_amount(key)
            if amount > free_amounts[key]:
                return False
        return True

    def _free_amount(self, key: FlavorResource) -> float:
        # The snapshot may show the future view now and have shown the present state at the last refresh.
        free_amount = self._session.snapshot.quota.own_room(self._queue.quota_node, key)
        return UNLIMITED if free_amount is None else free_amount


def first_choice(session: Session, queue: Queue, job: Job) -> FlavorUsage:
    """Return the usage of a job that gets the first flavor of each resource group."""
    known, key = session.first_choice, (queue.id, session.equivalence.request_class_of(job))
    if key not in known:
        known[key] = _compute_first_choice(session, queue, job)
    return known[key]


def _compute_first_choice(session: Session, queue: Queue, job: Job) -> FlavorUsage:
    usage: dict[FlavorResource, int] = {}
    full = {role.name: max(0, role.replicas - role.ended) for role in job.roles}
    for group in queue.effective_groups:
        known = (session.snapshot.flavors.get(name) for name in group.flavors)
        flavor = next((found for found in known if found is not None), None)
        if flavor is None:
            continue
        for key, amount in compute_job_demand(job, full, flavor).items():
            if not group.resources or key.resource in group.resources:
                usage[key] = usage.get(key, 0) + amount
    return usage
