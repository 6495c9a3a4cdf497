"""The means to get an amount of one resource of one flavor: free quota, borrowing, or preemption.

Source of the rules: Kueue's flavor assignment (fitsResourceQuota), with one rule of Allotment: a job that may
not borrow is limited to its queue's nominal throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from quotas.tree import QuotaTree
from quotas.tree.limits import min_amount
from scheduling.engine.model import FlavorResource, Job, PreemptOthers, Queue, Reason
from scheduling.engine.quota.assignment import AssignmentMode, Refusal
from scheduling.engine.quota.shortage import is_eviction_capped, may_borrow
from scheduling.engine.state.charges import add_totals
from scheduling.engine.state.snapshot import Snapshot

Oracle = Callable[[Queue, Job, FlavorResource, int], tuple[AssignmentMode, int]]
"""A simulated preemption for an amount of a quota; it returns the mode, never FIT, and the borrow level
afterwards."""


class Fit(NamedTuple):
    """The mode of a request, the level of the tree from which it borrows, and why it does not fit at once."""

    mode: AssignmentMode
    borrow_level: int
    refusal: Refusal | None


FREE = Fit(AssignmentMode.FIT, 0, None)


def fixed_usage(snapshot: Snapshot, queue: Queue, eviction_cap: int | None) -> dict[FlavorResource, int]:
    """Return the charges of the jobs of a queue that cannot be evicted, including those at their cap."""
    jobs = (snapshot.jobs.get(name) for name in snapshot.jobs_charged_to(queue.id))
    fixed = (
        job
        for job in jobs
        if job is not None and not (job.preemptible and not is_eviction_capped(job, eviction_cap))
    )
    return add_totals(snapshot.charges_of(job.id) for job in fixed)


class QuotaTerms:
    """The terms on which a job may use the quota of its queue.

    `fixed` is the usage that counts against the nominal of a job that may not borrow; None is all usage.
    """

    def __init__(
        self,
        tree: QuotaTree[FlavorResource],
        queue: Queue,
        job: Job,
        *,
        oracle: Oracle | None,
        fair: bool,
        eviction_cap: int | None,
        fixed: Mapping[FlavorResource, int] | None = None,
    ) -> None:
        self._tree = tree
        self._queue = queue
        self._job = job
        self._oracle = oracle
        self._borrows = may_borrow(queue, job, eviction_cap)
        self._fixed = fixed
        self.eviction_cap = eviction_cap
        policy = queue.preemption
        self._preempts_while_borrowing = policy.while_borrowing is not PreemptOthers.NEVER or (
            fair and (policy.within_while_borrowing or policy.reclaim is not PreemptOthers.NEVER)
        )

    def compute_fit(self, key: FlavorResource, own: int, amount: int) -> Fit:
        """Return the means to get `amount` beside `own`, which this search assigned to the job already."""
        tree, leaf, total = self._tree, self._queue.quota_node, own + amount
        if self._borrows:
            available, level = tree.available_and_level(leaf, key, total)
        else:
            available, level = self.available_amount(key), tree.borrow_level(leaf, key, total)
        if available is None or total <= max(0, available):
            return Fit(AssignmentMode.FIT, level, None) if level else FREE
        limit = self.max_amount(key)
        if limit is not None and total > limit:
            return Fit(
                AssignmentMode.NO_FIT, 0, self._refuse(key, Reason.EXCEEDS_MAX_QUOTA, total, limit, limit)
            )
        refusal = self._refuse(key, Reason.WAITING_FOR_QUOTA, total, available, limit)
        level, reclaims = tree.reach(leaf, key, total)
        nominal = tree.subtree_quota(leaf, key)
        within = nominal is None or total <= nominal
        if not (within or reclaims or self._preempts_while_borrowing):
            return Fit(AssignmentMode.NO_FIT, level, refusal)
        if self._oracle is None:
            return Fit(AssignmentMode.NO_CANDIDATES, level, refusal)
        mode, after = self._oracle(self._queue, self._job, key, total)
        return Fit(mode, after, refusal)

    def available_amount(self, key: FlavorResource) -> int | None:
        """Return what is available now; negative if other queues use more than their nominal."""
        leaf = self._queue.quota_node
        available = self._tree.available(leaf, key)
        if self._borrows:
            return available
        nominal = self._tree.subtree_quota(leaf, key)
        return min_amount(available, None if nominal is None else nominal - self.counted_usage(key))

    def counted_usage(self, key: FlavorResource) -> int:
        """Return the usage that counts against the nominal."""
        if self._borrows or self._fixed is None:
            return self._tree.usage(self._queue.quota_node, key)
        return self._fixed.get(key, 0)

    def max_amount(self, key: FlavorResource) -> int | None:
        """Return the amount that would be available without any usage."""
        potential = self._tree.potential(self._queue.quota_node, key)
        if self._borrows:
            return potential
        return min_amount(potential, self._tree.subtree_quota(self._queue.quota_node, key))

    def _refuse(
        self, key: FlavorResource, reason: Reason, asked: int, available: int, limit: int | None
    ) -> Refusal:
        numbers: dict[str, int | str] = {
            "flavor": key.flavor,
            "resource": key.resource,
            "asked": asked,
            "available": max(0, available),
            "short": asked - available,
        }
        if limit is not None:
            numbers["limit"] = limit
        return Refusal(reason, numbers)
