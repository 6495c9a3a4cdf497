"""Warnings about a quota change, which may be saved nevertheless."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.quantities import WHOLE_CARD, Resource
from quotas.selectors.limits.tree import TreeRows, build_tree, read_tree_rows
from quotas.selectors.limits.workspace_limits import StoredQuota
from quotas.selectors.pools.pool_size import OF_GPUS, OF_NODES, pool_sizes
from quotas.selectors.tables.node_names import node_names
from quotas.services.quota_plan import QuotaPlan, QuotaTables
from quotas.texts.amounts import resource_label
from quotas.tree import FlavorResource, QuotaTree
from quotas.tree.limits import Amount

NO_JOB_STARTS: Final = "NO_JOB_STARTS"
MORE_THAN_EXISTS: Final = "MORE_THAN_EXISTS"


@dataclass(frozen=True, slots=True)
class QuotaWarning:
    """A warning. `resources` are those that are missing, or of which more quota is assigned than exists."""

    code: str
    node_id: uuid.UUID
    flavor: Flavor
    resources: Sequence[Resource]
    message: str


def plan_warnings(plan: QuotaPlan) -> list[QuotaWarning]:
    """Find nodes where no job with a GPU could start afterwards, and quota beyond the GPUs that exist."""
    rows = _rows_afterwards(plan)
    tree, tables = build_tree(rows), QuotaTables(plan.cell_id, rows)
    changed = {(change.node.pk, change.flavor.pk): change.flavor for change in plan.changes}
    queues = _queues_by_node(tables)
    nodes = {pk for pk, _flavor in changed}
    names = node_names(nodes.union(*(queues[pk] for pk in nodes)))
    found: dict[tuple[uuid.UUID, uuid.UUID], QuotaWarning] = {}
    for (pk, flavor_id), flavor in changed.items():
        lacking = {node: missing for node in queues[pk] if (missing := _missing(tree, node, flavor_id))}
        own = _missing(tree, pk, flavor_id)
        if own and len(lacking) == len(queues[pk]):
            # One warning at the node covers all of its queues. A node without quota may have an unlimited
            # queue: that quota is not the node's to lend.
            lacking = {pk: own}
        for node, missing in lacking.items():
            found[node, flavor_id] = _no_job_starts(node, flavor, missing, names[node])
    return [*found.values(), *_more_than_exists(plan, names)]


def _rows_afterwards(plan: QuotaPlan) -> TreeRows:
    rows = read_tree_rows(plan.cell_id)
    quotas = {node: {quota.key: quota for quota in of} for node, of in rows.quotas.items()}
    for key, limits in plan.rows.items():
        row = StoredQuota(*key, limits.own_nominal, limits.borrowing_limit, limits.lending_limit)
        quotas.setdefault(key.node_id, {})[key] = row
    return replace(rows, quotas={node: list(of.values()) for node, of in quotas.items()})


def _queues_by_node(tables: QuotaTables) -> Mapping[uuid.UUID, list[uuid.UUID]]:
    """Return the quota nodes of the queues below each node."""
    found: defaultdict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
    for pk, node in tables.nodes.items():
        above = tables.parents[pk] if node.is_queue else None
        while above is not None:
            found[above].append(pk)
            above = tables.parents[above]
    return found


def _missing(tree: QuotaTree[FlavorResource], node: uuid.UUID, flavor: uuid.UUID) -> list[Resource]:
    """Return the resources of which a node can never have any, if it can have some GPUs."""
    most: dict[Resource, Amount] = {
        resource: tree.potential(str(node), FlavorResource(str(flavor), resource))
        for resource in (*OF_GPUS, *OF_NODES)
    }
    has = {resource for resource, amount in most.items() if amount is None or amount > 0}
    return [resource for resource in most if resource not in has] if has & set(OF_GPUS) else []


def _no_job_starts(node: uuid.UUID, flavor: Flavor, missing: Sequence[Resource], name: str) -> QuotaWarning:
    message = _("No job can start on %(flavor)s GPUs in %(node)s: quota missing for %(missing)s.")
    words = _(", ").join(resource_label(resource) for resource in missing)
    return QuotaWarning(
        NO_JOB_STARTS,
        node,
        flavor,
        missing,
        message % {"flavor": flavor.name, "node": name, "missing": words},
    )


def _more_than_exists(plan: QuotaPlan, names: Mapping[uuid.UUID, str]) -> Iterator[QuotaWarning]:
    """Find compute quota above that of the healthy GPUs, at the nodes whose quota is raised."""
    raised = [
        change
        for change in plan.changes
        if change.resource is Resource.GPU_CORES
        and change.after.nominal is not None
        and (change.before.nominal is None or change.after.nominal > change.before.nominal)
    ]
    sizes = pool_sizes({change.flavor.pk: change.flavor for change in raised}.values())
    for change in raised:
        exists = sizes[change.flavor.pk].gpus[Resource.GPU_CORES] or 0
        nominal = change.after.nominal or 0
        if nominal > exists:
            message = _("%(node)s would have %(nominal)s GPUs of %(flavor)s; the pool has %(exists)s.") % {
                "node": names[change.node.pk],
                "nominal": f"{nominal / WHOLE_CARD:g}",
                "flavor": change.flavor.name,
                "exists": f"{exists / WHOLE_CARD:g}",
            }
            yield QuotaWarning(MORE_THAN_EXISTS, change.node.pk, change.flavor, [Resource.GPU_CORES], message)
