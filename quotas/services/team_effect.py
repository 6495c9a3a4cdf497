"""The limits with which the effect of a new team on other jobs is computed, without the team's own nodes.

A team without jobs affects others only by what it does not lend: its nominal quota above its lending limit is
missing at its parent.
"""

from __future__ import annotations

from dataclasses import replace

from quotas.models import QuotaKey, QuotaNode
from quotas.services.quota_plan import QuotaPlan
from quotas.tree import NodeLimits
from tenants.models import Tenant


def effect_rows(plan: QuotaPlan, parent: QuotaNode, workspace: Tenant) -> dict[QuotaKey, NodeLimits]:
    """Compute the limits of the parent that have the effect of the plan; empty where there is none."""
    found: dict[QuotaKey, NodeLimits] = {}
    for change in plan.changes:
        if change.node.tenant_id != workspace.pk or change.node.is_queue:
            continue
        key = QuotaKey(parent.pk, change.flavor.pk, change.resource)
        nominal, lending = change.after.nominal, change.after.lending_limit
        row = plan.rows.get(key)
        if row is None or row.own_nominal is None or not nominal or lending is None or lending >= nominal:
            continue
        found[key] = replace(row, own_nominal=row.own_nominal + lending)
    return found
