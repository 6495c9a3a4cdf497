"""How one resource of one flavor could be had: free, by borrowing, or only if others give way.

Source of the rules: Kueue's flavor assignment, with Allotment's own on top: a job that may not borrow is
held to its queue's own nominal throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from quotas.tree import QuotaTree
from quotas.tree.limits import min_amount
from scheduling.engine.model import FlavorResource, Job, PreemptOthers, Queue, Reason
from scheduling.engine.quota.assignment import Mode, Refusal
from scheduling.engine.quota.verdict import capped, may_borrow
from scheduling.engine.state.charges import add_totals
from scheduling.engine.state.snapshot import Snapshot

Oracle = Callable[[Queue, Job, FlavorResource, int], tuple[Mode, int]]
"""A simulated preemption: by which means so much of a quota could be had (never FREE: it is asked only
where others would have to give way), and the borrow level afterwards."""


class Fit(NamedTuple):
    """How a request could be met, from how far up the tree, and why not at once."""

    mode: Mode
    borrow_level: int
    refusal: Refusal | None


def fixed_usage(snapshot: Snapshot, queue: Queue, eviction_cap: int | None) -> dict[FlavorResource, int]:
    """What the jobs of a queue hold that nobody can make give way, those at their cap among them."""
    jobs = (snapshot.jobs.get(name) for name in snapshot.jobs_charged_to(queue.id))
    fixed = (
        job for job in jobs if job is not None and not (job.preemptible and not capped(job, eviction_cap))
    )
    return add_totals(snapshot.charges_of(job.id) for job in fixed)


class Terms:
    """On what terms a job draws on the quota of its queue.

    `fixed` is what counts against the nominal of a job that may not borrow; None is all that is used.
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

    def fit(self, key: FlavorResource, own: int, amount: int) -> Fit:
        """How `amount` could be had on top of `own`, which the job was given in this search."""
        tree, leaf, total = self._tree, self._queue.quota_node, own + amount
        available = self.available(key)
        if available is None or total <= max(0, available):
            return Fit(Mode.FIT, tree.borrow_level(leaf, key, total), None)
        limit = self.ceiling(key)
        if limit is not None and total > limit:
            return Fit(Mode.NO_FIT, 0, self._refused(key, Reason.EXCEEDS_MAX_QUOTA, total, limit, limit))
        refusal = self._refused(key, Reason.WAITING_FOR_QUOTA, total, available, limit)
        level, reclaims = tree.reach(leaf, key, total)
        nominal = tree.subtree_quota(leaf, key)
        within = nominal is None or total <= nominal
        if not (within or reclaims or self._preempts_while_borrowing):
            return Fit(Mode.NO_FIT, level, refusal)
        if self._oracle is None:
            return Fit(Mode.NO_CANDIDATES, level, refusal)
        mode, after = self._oracle(self._queue, self._job, key, total)
        return Fit(mode, after, refusal)

    def available(self, key: FlavorResource) -> int | None:
        """What could be had now; negative where others use more than they own."""
        leaf = self._queue.quota_node
        available = self._tree.available(leaf, key)
        if self._borrows:
            return available
        nominal = self._tree.subtree_quota(leaf, key)
        return min_amount(available, None if nominal is None else nominal - self.used(key))

    def used(self, key: FlavorResource) -> int:
        """What counts against the nominal."""
        if self._borrows or self._fixed is None:
            return self._tree.usage(self._queue.quota_node, key)
        return self._fixed.get(key, 0)

    def ceiling(self, key: FlavorResource) -> int | None:
        """The most that could be had if nobody used anything."""
        potential = self._tree.potential(self._queue.quota_node, key)
        if self._borrows:
            return potential
        return min_amount(potential, self._tree.subtree_quota(self._queue.quota_node, key))

    def _refused(
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
