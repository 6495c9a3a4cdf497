"""What a job lacks of one quota, told for the job as a whole, because nothing of it starts before all can."""

from __future__ import annotations

from typing import NamedTuple

from quotas.tree import QuotaTree
from scheduling.engine.model import Charge, FlavorResource, Job, Queue
from scheduling.engine.quota.fit import Terms
from scheduling.engine.quota.verdict import Shortage, exceeding, missing


class Later(NamedTuple):
    """What was asked of a quota up to the role that failed, and what later roles could ask there."""

    asked: int
    later: int


def told(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    terms: Terms,
    key: FlavorResource,
    more: Later,
) -> Shortage:
    """What of one quota is missing, with its numbers and with what would help."""
    limit = terms.ceiling(key)
    charge = Charge(key.flavor, key.resource, more.asked)
    if limit is not None and more.asked > limit:
        return exceeding(tree, queue, job, charge, more.asked, limit, terms.eviction_cap)
    available = terms.available(key)
    # Later roles go elsewhere where they would be beyond the limit together.
    later = more.later if limit is None or more.asked + more.later <= limit else 0
    return missing(
        queue,
        job,
        Charge(key.flavor, key.resource, more.asked + later),
        used=tree.usage(queue.quota_node, key),
        counted=terms.used(key),
        nominal=tree.subtree_quota(queue.quota_node, key),
        available=0 if available is None else available,
        limit=limit,
        eviction_cap=terms.eviction_cap,
    )
