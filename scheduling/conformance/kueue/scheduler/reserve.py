"""Reserves quota for a head that is pending and can't preempt.

Otherwise another queue would borrow the quota that is released for the pending job, cycle after cycle. The
amount follows Kueue: the job's request, but no more than its queue may still use, and within nominal quota if
the job would not borrow. A queue that can always reclaim its nominal quota needs no reservation.
"""

from __future__ import annotations

from collections.abc import Mapping

from quotas.tree import Amount, QuotaTree
from quotas.tree.limits import add_amounts, min_amount
from scheduling.conformance.kueue.topology_aware.places import TopologyAssignments, allocations_of
from scheduling.engine import Snapshot
from scheduling.engine.extension import NominatedJob
from scheduling.engine.model import Allocation, Charge, FlavorResource, PreemptOthers

RESERVED = "(kept)"
"""The role of allocations that reserve quota; no task of a job has it."""


def to_reserve(tree: QuotaTree[FlavorResource], entry: NominatedJob) -> dict[FlavorResource, int]:
    """Return the amounts to reserve, by quota, without zeros."""
    leaf, borrows = entry.queue.quota_node, entry.assignment.borrow_level > 0
    reserved: dict[FlavorResource, int] = {}
    for key, asked in entry.assignment.usage.items():
        limits, used = tree.limits(leaf, key), tree.usage(leaf, key)
        bound: Amount = None if limits.own_nominal is None else limits.own_nominal - used
        if borrows:
            bound = add_amounts(bound, limits.borrowing_limit)
        amount = min_amount(asked, bound)
        if amount is not None and amount > 0:
            reserved[key] = amount
    return reserved


def reserve_quota(
    snapshot: Snapshot, entry: NominatedJob, wished: TopologyAssignments, *, prioritised: bool
) -> None:
    """Reserve the request of an entry, so that heads processed after it do not take it.

    `prioritised`: preemptors with terminating victims go first by configuration, so the quota for them is
    reserved even if their queue could reclaim it. `wished` are the domains of the entry's roles in
    topology-aware flavors if no tasks were placed by topology.
    """
    certain = entry.queue.preemption.reclaim is PreemptOthers.ANY
    if certain and not (prioritised and entry.job.preempting):
        return
    amounts = to_reserve(snapshot.quota, entry)
    if amounts:
        snapshot.add_allocation(_booking(entry, amounts))
    for places in allocations_of(entry.queue, entry.job, wished, prefix=f"{RESERVED} "):
        snapshot.add_allocation(places)


def _booking(entry: NominatedJob, amounts: Mapping[FlavorResource, int]) -> Allocation:
    charges = tuple(sorted(Charge(key.flavor, key.resource, amount) for key, amount in amounts.items()))
    return Allocation(
        job=entry.job.id, queue=entry.queue.id, role=RESERVED, index=0, flavor="", node="", charges=charges
    )
