"""Queues that hold all quota of their workspace follow a change of it.

The quota of a team with a single queue is the queue's. Otherwise a lower quota of such a team would be
refused until its queue is lowered as well, and additional quota would not become the queue's own.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from foundation.core.quantities import Resource
from quotas.distribution.division import Keep
from quotas.models import Quota, QuotaKey, QuotaNode
from quotas.services.quota_plan import NodeAmounts


def extend_to_queues(changes: Sequence[NodeAmounts]) -> list[NodeAmounts]:
    """Return the changes with those of the queues that follow; queues that are in `changes` do not follow."""
    named = {change.node.pk for change in changes}
    wanted = [change.node.pk for change in changes if not change.node.is_queue]
    rows = QuotaNode.unscoped.filter(parent__in=wanted).exclude(queue__closed_at__isnull=False)
    children: defaultdict[uuid.UUID, list[QuotaNode]] = defaultdict(list)
    for child in rows.select_related("tenant__parent", "cell", "queue"):
        if child.parent_id is not None:
            children[child.parent_id].append(child)
    followers = {
        node: of[0]
        for node, of in children.items()
        if len(of) == 1 and of[0].is_queue and of[0].pk not in named
    }
    stored = Quota.unscoped.filter(node__in=followers).exclude(own_nominal=0)
    own_nominals = {QuotaKey(row.node_id, row.flavor_id, Resource(row.resource)) for row in stored}
    found = list(changes)
    for change in changes:
        queue = followers.get(change.node.pk)
        amounts = [
            replace(amount, borrowing_limit=Keep.AS_IS, lending_limit=Keep.AS_IS)
            for amount in change.amounts
            if not isinstance(amount.nominal, Keep)
            and QuotaKey(change.node.pk, amount.flavor.pk, amount.resource) not in own_nominals
        ]
        if queue is not None and amounts:
            found.append(NodeAmounts(queue, amounts))
    return found
