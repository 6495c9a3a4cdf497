"""The shortage of one quota for a whole job, because no role of a job starts before all can."""

from __future__ import annotations

from typing import NamedTuple

from quotas.tree import QuotaTree
from scheduling.engine.model import Charge, FlavorResource, Job, Queue
from scheduling.engine.quota.fit import QuotaTerms
from scheduling.engine.quota.shortage import Shortage, describe_excess, describe_shortage


class RequestedAmounts(NamedTuple):
    """The amount of a quota requested up to the role that failed, and what later roles may request."""

    asked: int
    later: int


def explain_shortage(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    terms: QuotaTerms,
    key: FlavorResource,
    more: RequestedAmounts,
) -> Shortage:
    """Return the shortage of one quota, with its numbers and with the changes that would help."""
    limit = terms.max_amount(key)
    charge = Charge(key.flavor, key.resource, more.asked)
    if limit is not None and more.asked > limit:
        return describe_excess(tree, queue, job, charge, more.asked, limit, terms.eviction_cap)
    available = terms.available_amount(key)
    # Later roles use another flavor if together they would exceed the limit.
    later = more.later if limit is None or more.asked + more.later <= limit else 0
    return describe_shortage(
        queue,
        job,
        Charge(key.flavor, key.resource, more.asked + later),
        used=tree.usage(queue.quota_node, key),
        counted=terms.counted_usage(key),
        nominal=tree.subtree_quota(queue.quota_node, key),
        available=0 if available is None else available,
        limit=limit,
        eviction_cap=terms.eviction_cap,
    )
