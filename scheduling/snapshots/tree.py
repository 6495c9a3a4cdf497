"""Converts rows of the quota tree and the queues of a cell to the engine's."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from foundation.core.quantities import Resource
from foundation.sql.prepared import PreparedQuery
from quotas.models import AllocationMode, Queue, QueueFlavor
from quotas.selectors.limits.tree import read_engine_rows
from scheduling.engine import model as em

_QUEUES: Final = PreparedQuery(lambda cell: Queue.unscoped.filter(cell_id=cell).order_by("id"))
_QUEUE_FLAVORS: Final = PreparedQuery(
    lambda cell: (
        QueueFlavor.unscoped.filter(queue__cell_id=cell)
        .order_by("queue_id", "position")
        .values_list("queue_id", "flavor_id")
    )
)


def engine_quota_nodes(cell_id: uuid.UUID) -> list[em.QuotaNode]:
    """Return the quota tree of a cell with its usage."""
    rows = read_engine_rows(cell_id)
    return [
        em.QuotaNode(
            id=str(node.pk),
            parent=str(node.parent_id) if node.parent_id else None,
            quotas=tuple(
                em.Quota(
                    flavor=str(q.flavor_id),
                    resource=Resource(q.resource),
                    own_nominal=q.own_nominal,
                    borrowing_limit=q.borrowing_limit,
                    lending_limit=q.lending_limit,
                )
                for q in rows.quotas.get(node.pk, ())
            ),
            usage=tuple(
                em.Charge(str(entry.flavor_id), Resource(entry.resource), entry.reserved)
                for entry in rows.reserved.get(node.pk, ())
            ),
            weight_milli=node.weight,
        )
        for node in rows.nodes
    ]


def engine_queues(cell_id: uuid.UUID) -> list[em.Queue]:
    """Return the queues of a cell with their flavors in order."""
    queues = _QUEUES(cell_id)
    flavors: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for queue_id, flavor_id in _QUEUE_FLAVORS(cell_id):
        flavors[queue_id].append(str(flavor_id))
    return [engine_queue(queue, flavors[queue.pk]) for queue in queues]


def engine_queue(queue: Queue, flavors: Sequence[str]) -> em.Queue:
    """Return the engine's queue of a row; `flavors` are in order."""
    return em.Queue(
        id=str(queue.pk),
        quota_node=str(queue.node_id),
        flavors=tuple(flavors),
        strategy=em.Strategy(queue.strategy),
        stop_policy=em.StopPolicy(queue.stop_policy),
        allocation_mode=em.AllocationMode(AllocationMode(queue.allocation_mode).value),
        preemption=_preemption(queue),
        fungibility=em.Fungibility(
            when_can_borrow=em.WhenCan(queue.when_can_borrow),
            when_can_preempt=em.WhenCan(queue.when_can_preempt),
            preference=em.Preference(queue.preference),
        ),
        backfill=queue.backfill,
        user_shares=queue.user_shares,
    )


def _preemption(queue: Queue) -> em.PreemptionPolicy:
    if not queue.preemption:
        return em.PreemptionPolicy()
    return em.PreemptionPolicy(
        within_queue=em.PreemptWithin(queue.within_queue),
        reclaim=em.PreemptOthers(queue.reclaim),
        while_borrowing=em.PreemptOthers(queue.while_borrowing),
        max_priority=queue.max_priority,
    )
