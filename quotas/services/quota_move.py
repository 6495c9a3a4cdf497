"""Quota that moves between nodes without given amounts: by a loan, or when a tenant is moved without it."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from clusters.models import Flavor
from foundation.core.actor import Actor
from quotas.distribution.division import Amounts, compute_nominals
from quotas.distribution.loans import LoanLedger, Passed
from quotas.models import FlavorKey, QuotaChangeSource, QuotaKey, QuotaRevision
from quotas.services.quota import write_passed, write_plan
from quotas.services.quota_plan import PlannedQuota, QuotaLimits, QuotaPlan, QuotaTables, find_over_quota
from quotas.tree.limits import NodeLimits


def move_lent_quota(
    acting_user: Actor,
    tables: QuotaTables,
    ledgers: Mapping[FlavorKey, LoanLedger],
    *,
    reason: str,
    source: QuotaChangeSource,
) -> QuotaRevision | None:
    """Store the state of the ledgers after a loan started or ended; `tables` are those before.

    The caller has checked the permission and holds the cell's lock. Returns the revision, None when nothing
    changes.
    """
    after = {key: ledger.own_nominal for key, ledger in ledgers.items()}
    plan = plan_own_nominals(tables, after, {key: ledger.passed for key, ledger in ledgers.items()})
    if plan.changes:
        return write_plan(acting_user, plan, reason=reason, source=source)
    write_passed(plan)
    return None


def move_own_quota(
    acting_user: Actor, tables: QuotaTables, nodes: Collection[uuid.UUID], target: uuid.UUID, *, reason: str
) -> QuotaRevision | None:
    """Move the own nominals of `nodes` to `target`, a node above them; their own nominals are 0 afterwards.

    Unlimited own nominals become 0 and add nothing to `target`, because they are no amount. None of the quota
    is lent. The caller has checked the permission and holds the cell's lock; `tables` are fresh. Returns the
    revision, None when nothing changes.
    """
    after: defaultdict[FlavorKey, dict[uuid.UUID, int | None]] = defaultdict(dict)
    for quota in tables.quotas:
        own, key = tables.get_limits(quota).own_nominal, quota.flavor_key
        if quota.node_id in nodes and own != 0:
            after[key][quota.node_id] = 0
            above = after[key].get(target, tables.get_limits(quota._replace(node_id=target)).own_nominal)
            after[key][target] = None if above is None else above + (own or 0)
    passed: dict[FlavorKey, Passed] = {}
    for key, amounts in after.items():
        passed |= tables.compute_passed(key, amounts)
    plan = plan_own_nominals(tables, after, passed)
    return write_plan(acting_user, plan, reason=reason, source=QuotaChangeSource.EDIT) if plan.rows else None


def plan_own_nominals(
    tables: QuotaTables, after: Mapping[FlavorKey, Amounts], passed: Mapping[FlavorKey, Passed]
) -> QuotaPlan:
    """Compute the plan that gives nodes these own nominals; the nominals above them follow."""
    planned: list[PlannedQuota] = []
    rows: dict[QuotaKey, NodeLimits] = {}
    flavors = {f.pk: f for f in Flavor.unscoped.filter(cluster__cell_id=tables.cell_id)}
    for key in sorted(after, key=lambda key: (str(key[0]), key[1])):
        own = tables.get_own_nominals(*key)
        now = own | dict(after[key])
        before, then = compute_nominals(tables.parents, own), compute_nominals(tables.parents, now)
        for node in tables.parents:
            quota = QuotaKey(node, *key)
            was = tables.get_limits(quota)
            if now[node] != own[node]:
                rows[quota] = replace(was, own_nominal=now[node])
            if then[node] != before[node]:
                limits = (QuotaLimits.of_total(total[node], was) for total in (before, then))
                planned.append(PlannedQuota(tables.nodes[node], flavors[key[0]], key[1], *limits))
    return QuotaPlan(tables.cell_id, planned, rows, find_over_quota(planned, tables), passed)
