"""Quotas in bulk: a file is checked as a whole, shown as a difference, and applied completely or not."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.core.actor import Actor
from quotas.files import FileFormat, FileProblems, FileRow, PoolRow, Row, read_rows, write_rows
from quotas.models import QuotaChangeSource, QuotaNode, QuotaRevision
from quotas.selectors.pools.pool_size import pool_sizes
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tables.node_names import node_names
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import QuotaTable
from quotas.services.quota import Shrink, quota_change, quota_check
from quotas.services.quota_files.pool_form import pool_amounts, short_of_rows
from quotas.services.quota_plan import NodeAmounts, PlannedQuota, QuotaAmount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """The text of a file and its name."""

    text: str
    kind: FileFormat
    name: str


@dataclass(frozen=True, slots=True)
class QuotaDifference:
    """The changes that a file would make; `names` are those of the nodes."""

    names: Mapping[uuid.UUID, str]
    changes: Sequence[PlannedQuota]


Changes = Mapping[uuid.UUID, Sequence[NodeAmounts]]


def quota_file_check(*, acting_user: Actor, file: QuotaFile, on_top: bool = False) -> QuotaDifference:
    """Read a file and return what it would change; writes nothing.

    Raises: Invalid, Refused that name file, line and field; PermissionDenied.
    """
    planned: list[PlannedQuota] = []
    for cell_id, changes in _changes(acting_user, file).items():
        plan = quota_check(acting_user=acting_user, cell_id=cell_id, changes=changes, on_top=on_top)
        planned += plan.changes
    return QuotaDifference(node_names({change.node.pk for change in planned}), planned)


@transaction.atomic
def quota_file_apply(
    *,
    acting_user: Actor,
    file: QuotaFile,
    reason: str = "",
    shrink: Shrink | None = None,
    on_top: bool = False,
) -> list[QuotaRevision]:
    """Set the limits of a file, one revision per cell; nothing at all when any of it is refused.

    Raises: as `quota_file_check`; BelowUse.
    """
    made = []
    for cell_id, changes in sorted(_changes(acting_user, file).items(), key=lambda item: str(item[0])):
        revision = quota_change(
            acting_user=acting_user,
            cell_id=cell_id,
            changes=changes,
            reason=reason,
            shrink=shrink,
            on_top=on_top,
            source=QuotaChangeSource.IMPORT,
        )
        if revision is not None:
            made.append(revision)
    return made


def quota_file_export(
    *, viewer: Actor, kind: FileFormat, tenant: Tenant | None = None, short: bool = False
) -> str:
    """Return all limits that the viewer may see, of one tenant and all below it when given, as a file.

    With `short`, pools are written in GPUs where that is equivalent; YAML only. Raises: NotFound,
    PermissionDenied.
    """
    visible = quota_tenants(viewer)
    if tenant is not None:
        permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
        visible = visible.filter(path__startswith=tenant.path)
    seen = set(visible.values_list("pk", flat=True))
    rows: list[Row] = []
    for cell in Cell.unscoped.filter(quota_nodes__tenant__in=seen).distinct().order_by("name", "pk"):
        rows += _rows_of(QuotaTable(cell.pk), seen, short=short and kind is FileFormat.YAML)
    return write_rows(rows, kind)


def _rows_of(table: QuotaTable, seen: set[uuid.UUID], *, short: bool) -> list[Row]:
    slugs = dict(Tenant.unscoped.filter(pk__in=seen).values_list("pk", "slug"))
    # Flavors of all cells are counted, because a file is read without knowing the cell.
    names = Counter(Flavor.unscoped.order_by().values_list("name", flat=True))
    sizes = pool_sizes(table.flavors.values()) if short else {}
    shown = [node for node in table.nodes.values() if node.tenant_id in seen and node.pk not in table.closed]
    labels = table.name_nodes([node.pk for node in shown])
    ordered = sorted(
        shown, key=lambda node: (slugs[node.tenant_id], node.is_queue, labels[node.pk], str(node.pk))
    )
    rows: list[Row] = []
    for of in table.read_quotas([node.pk for node in ordered]):
        for flavor, group in groupby(of.assigned_rows, key=lambda row: row.flavor):
            limits = list(group)
            place = {
                "line": 0,
                "tenant": slugs[of.node.tenant_id],
                "queue": of.queue,
                "cluster": flavor.cluster.name if names[flavor.name] > 1 else "",
                "flavor": flavor.name,
            }
            if short:
                fields, limits = short_of_rows(flavor, limits, sizes[flavor.pk])
                rows += [PoolRow(**place, **fields)] if fields else []
            rows += [_file_row(place, row) for row in limits]
    return rows


def _file_row(place: Mapping[str, Any], row: QuotaRow) -> FileRow:
    return FileRow(
        **place,
        resource=row.resource,
        nominal=row.nominal,
        borrowing_limit=row.borrowing_limit,
        lending_limit=row.lending_limit,
    )


def _changes(acting_user: Actor, file: QuotaFile) -> Changes:
    """Return the rows of a file as changes of nodes, by cell."""
    problems = FileProblems(file.name)
    rows = read_rows(file.text, file.kind, file.name)
    tenants = {t.slug: t for t in permissions.visible_tenants(acting_user).select_related("parent")}
    flavors: defaultdict[str, list[Flavor]] = defaultdict(list)
    for flavor in Flavor.unscoped.select_related("cluster").order_by("pk"):
        flavors[flavor.name].append(flavor)
    nodes: dict[tuple[uuid.UUID, str, uuid.UUID], QuotaNode] = {}
    named = QuotaNode.unscoped.exclude(queue__closed_at__isnull=False)
    for node in named.select_related("tenant__parent", "queue"):
        queue = node.queue.name if node.is_queue else ""
        nodes[node.tenant_id, queue, node.cell_id] = node
    amounts: defaultdict[QuotaNode, list[QuotaAmount]] = defaultdict(list)
    pools: list[tuple[QuotaNode, PoolRow, Flavor]] = []
    for row in rows:
        flavor_found = _flavor(row, flavors, problems)
        tenant = _tenant(row, tenants, problems)
        if flavor_found is None or tenant is None:
            continue
        node_found = nodes.get((tenant.pk, row.queue, flavor_found.cluster.cell_id))
        if node_found is None:
            field, message = "tenant", _("%(name)s has no quota in the scheduling domain of this pool.")
            if row.queue:
                field, message = "queue", _("Queue %(name)s not found.")
            problems.add_problem(row.line, field, "UNKNOWN", message % {"name": row.queue or row.tenant})
        elif isinstance(row, PoolRow):
            pools.append((node_found, row, flavor_found))
        else:
            amounts[node_found].append(_amount(row, flavor_found, problems))
    for node, found in pool_amounts(pools, amounts, problems):
        amounts[node] += found
    problems.raise_if_any()
    by_cell: defaultdict[uuid.UUID, list[NodeAmounts]] = defaultdict(list)
    for node, of in amounts.items():
        by_cell[node.cell_id].append(NodeAmounts(node, of))
    return by_cell


def _tenant(row: Row, tenants: Mapping[str, Tenant], problems: FileProblems) -> Tenant | None:
    found = tenants.get(row.tenant)
    if found is None:
        message = _("Tenant %(name)s not found, or you can't view it.") % {"name": row.tenant}
        problems.add_problem(row.line, "tenant", "UNKNOWN", message)
    return found


def _flavor(row: Row, flavors: Mapping[str, Sequence[Flavor]], problems: FileProblems) -> Flavor | None:
    found = [f for f in flavors.get(row.flavor, ()) if row.cluster in ("", f.cluster.name)]
    if len(found) == 1:
        return found[0]
    if found:
        clusters = ", ".join(flavor.cluster.name for flavor in found)
        message = _("The pool exists in several clusters. Specify one of: %(clusters)s.") % {
            "clusters": clusters
        }
        problems.add_problem(row.line, "cluster", "AMBIGUOUS", message)
    else:
        message = _("Pool %(name)s not found.") % {"name": row.flavor}
        problems.add_problem(row.line, "flavor", "UNKNOWN", message)
    return None


def _amount(row: FileRow, flavor: Flavor, problems: FileProblems) -> QuotaAmount:
    return QuotaAmount(
        flavor,
        row.resource,
        row.nominal,
        row.borrowing_limit,
        row.lending_limit,
        place=f"{problems.locate_field(row.line)} ",
    )
