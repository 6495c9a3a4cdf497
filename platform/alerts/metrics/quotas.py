"""Metrics of quotas and budgets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from alerts.metrics.base import Observation
from alerts.metrics.budget_history import share_of
from alerts.metrics.subject_names import make_quota_label
from clusters.models import Cell
from foundation.core.quantities import Resource
from quotas.models import Budget
from quotas.selectors.tables.quota_table import QuotaTable
from quotas.selectors.tenants.budget import budget_uses
from tenants.models import Tenant

_RESOURCES: Final = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY)


def read_quota_shares(now: datetime) -> list[Observation]:
    """Compute the reserved share of each tenant's nominal GPU quota, in percent, for each pool.

    The share above 100 is borrowed. A quota of 0 and an unlimited one have no share.
    """
    found = [row for cell in Cell.unscoped.order_by("pk") for row in _read_cell(cell)]
    return sorted(found, key=lambda row: row.subject)


def _read_cell(cell: Cell) -> Iterator[Observation]:
    table = QuotaTable(cell.pk)
    tenants = Tenant.unscoped.filter(archived_at__isnull=True).in_bulk(
        {node.tenant_id for node in table.nodes.values() if not node.is_queue}
    )
    nodes = {pk: "" for pk, node in table.nodes.items() if not node.is_queue and node.tenant_id in tenants}
    for pk, rows in table.compute_rows(nodes).items():
        tenant = tenants[table.nodes[pk].tenant_id]
        for row in rows:
            if row.resource in _RESOURCES and row.nominal:
                yield Observation(
                    subject=f"{tenant.pk}/{row.flavor.pk}/{row.resource}",
                    label=make_quota_label(tenant.name, row.flavor.name, Resource(row.resource)),
                    value=100 * row.reserved / row.nominal,
                    cluster_id=row.flavor.cluster_id,
                    tenant_id=tenant.pk,
                    tenant_path=tenant.path,
                    path=f"/w/{tenant.slug}/quota" if tenant.kind == "workspace" else "/ops/quotas",
                )


def read_budget_shares(now: datetime) -> list[Observation]:
    """Compute the share of each budget that was used in this calendar month (UTC), in percent."""
    budgets = Budget.unscoped.filter(tenant__archived_at__isnull=True).select_related("tenant", "flavor")
    return [
        Observation(
            subject=str(use.budget.pk),
            label=f"{use.budget.tenant.name}, {use.budget.flavor.name}"
            if use.budget.flavor
            else use.budget.tenant.name,
            value=share_of(use, use.core_ms),
            tenant_id=use.budget.tenant_id,
            tenant_path=use.budget.tenant.path,
            path=f"/w/{use.budget.tenant.slug}/quota"
            if use.budget.tenant.kind == "workspace"
            else "/ops/budgets",
        )
        for use in budget_uses(budgets.order_by("pk"), now=now)
    ]
