"""The part of a cell's quota tree that belongs to one cluster, for the engine of that cluster."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence

from clusters.backends.delegation import (
    Cohort,
    ProjectedFlavor,
    ProjectedPriority,
    Projection,
    QueueRules,
    QuotaLimit,
)
from clusters.models import Cluster, Flavor
from foundation.sql import row_scope
from quotas.models import Queue, QueueFlavor, QuotaNode
from quotas.selectors.limits.tree import read_engine_rows
from quotas.selectors.limits.workspace_limits import StoredQuota
from scheduling.models import PriorityClass
from scheduling.snapshots.delegated import delegated_queues


@row_scope.whole()
def projection_of(cluster: Cluster) -> Projection:
    """Return the cluster's flavors, the queues that its engine decides, their cohorts, and all priorities."""
    flavors = list(Flavor.unscoped.filter(cluster=cluster).order_by("pk"))
    ids = list(delegated_queues({cluster.pk}))
    queues = Queue.unscoped.filter(pk__in=ids, closed_at__isnull=True).select_related("workspace", "node")
    rows = read_engine_rows(cluster.cell_id)
    here = {flavor.pk for flavor in flavors}
    limits = {node: _limits(quotas, here) for node, quotas in rows.quotas.items()}
    by_id = {node.pk: node for node in rows.nodes}
    tenants = QuotaNode.unscoped.filter(cell_id=cluster.cell_id).values_list("pk", "tenant__slug")
    slugs = dict(tenants)
    tried = _tried(ids)
    wanted = [_rules(queue, tried[queue.pk], limits) for queue in queues.order_by("pk")]
    above = _above([queue.node_id for queue in queues], by_id)
    return Projection(
        pools=tuple(_pool(flavor) for flavor in flavors),
        cohorts=tuple(
            Cohort(
                id=str(pk),
                name=slugs[pk],
                parent=str(by_id[pk].parent_id) if by_id[pk].parent_id else None,
                weight_milli=by_id[pk].weight,
                limits=limits.get(pk, ()),
            )
            for pk in sorted(above)
        ),
        queues=tuple(wanted),
        priorities=tuple(
            ProjectedPriority(str(item.pk), item.name, item.value)
            for item in PriorityClass.unscoped.order_by("pk")
        ),
    )


def _tried(queues: Sequence[uuid.UUID]) -> dict[uuid.UUID, tuple[str, ...]]:
    flavors: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for row in QueueFlavor.unscoped.filter(queue__in=queues).order_by("queue_id", "position"):
        flavors[row.queue_id].append(str(row.flavor_id))
    return {queue: tuple(found) for queue, found in flavors.items()}


def _above(nodes: Sequence[uuid.UUID], by_id: dict[uuid.UUID, QuotaNode]) -> set[uuid.UUID]:
    """Return all ancestors of these quota nodes."""
    found: set[uuid.UUID] = set()
    for node in nodes:
        parent = by_id[node].parent_id
        while parent is not None and parent not in found:
            found.add(parent)
            parent = by_id[parent].parent_id
    return found


def _pool(flavor: Flavor) -> ProjectedFlavor:
    return ProjectedFlavor(
        id=str(flavor.pk),
        name=flavor.name,
        node_labels=flavor.node_selector,
        taints=flavor.taints,
        tolerations=flavor.tolerations,
        gpu_mode=flavor.gpu_mode,
        card_memory_mib=flavor.card_memory_mib,
    )


def _limits(quotas: Sequence[StoredQuota], here: set[uuid.UUID]) -> tuple[QuotaLimit, ...]:
    return tuple(
        QuotaLimit(str(q.flavor_id), q.resource, q.own_nominal, q.borrowing_limit, q.lending_limit)
        for q in quotas
        if q.flavor_id in here
    )


def _rules(
    queue: Queue, pools: tuple[str, ...], limits: dict[uuid.UUID, tuple[QuotaLimit, ...]]
) -> QueueRules:
    takes = queue.preemption
    own = limits.get(queue.node_id, ())
    if queue.allocation_mode == "static":  # the queue uses its own nominal and never borrows
        own = tuple(QuotaLimit(q.pool, q.resource, q.nominal, 0, q.lending) for q in own)
    return QueueRules(
        id=str(queue.pk),
        name=queue.name,
        parent=str(queue.node.parent_id),
        namespace=queue.workspace.slug,
        workspace=str(queue.workspace_id),
        pools=pools,
        limits=own,
        weight_milli=queue.node.weight,
        strategy=queue.strategy,
        stop_policy=queue.stop_policy,
        within=queue.within_queue if takes else "never",
        reclaim=queue.reclaim if takes else "never",
        while_borrowing=queue.while_borrowing if takes else "never",
        max_priority=queue.max_priority,
        when_can_borrow=queue.when_can_borrow,
        when_can_preempt=queue.when_can_preempt,
        preference=queue.preference,
    )
