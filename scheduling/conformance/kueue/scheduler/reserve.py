"""Quota kept free for a head that waits for others although nobody may be asked to leave for it.

Without it a neighbour would borrow, cycle after cycle, what comes free for the waiting job. How much is
kept follows Kueue: of what the job asks for, no more than its queue may still use; inside the nominal
where the job would not borrow. A queue that may always take its nominal back needs nothing kept.
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
"""The role under which kept quota is booked: no task of any job."""


def to_reserve(tree: QuotaTree[FlavorResource], entry: NominatedJob) -> dict[FlavorResource, int]:
    """Return the amounts to reserve of each quota, without zeros."""
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
    """Keep what an entry asks for from those that are processed after it.

    `prioritised`: jobs for which others leave already go first by configuration, so what comes free for
    one of them is kept even where its queue could take it back. `wished` is where its roles in
    topology-aware flavors would run if all tasks placed by topology had left.
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
