"""Quota that goes from node to node without anybody naming amounts: by a loan, or when a tenant leaves it."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from clusters.models import Flavor
from foundation.core.actor import Actor
from quotas.distribution.division import Amounts, totals
from quotas.distribution.loans import LoanBook, Passed
from quotas.hooks.job_effects import RowKey
from quotas.models import QuotaRevision, Source
from quotas.selectors.lent_quota import Key
from quotas.services.quota import plan_write, write_passed
from quotas.services.quota_plan import Planned, QuotaPlan, QuotaTables, overhangs
from quotas.tree.limits import Limits


def quota_lent(
    acting_user: Actor,
    tables: QuotaTables,
    books: Mapping[Key, LoanBook],
    *,
    reason: str,
    source: Source,
) -> QuotaRevision | None:
    """Store what the books say after a loan started or ended; `tables` are those before.

    The caller has checked the permission and holds the cell's lock. Returns the revision, None when nothing
    changes.
    """
    after = {key: book.kept for key, book in books.items()}
    plan = kept_plan(tables, after, {key: book.passed for key, book in books.items()})
    if plan.changes:
        return plan_write(acting_user, plan, reason=reason, source=source)
    write_passed(plan)
    return None


def quota_leave(
    acting_user: Actor, tables: QuotaTables, nodes: Collection[uuid.UUID], target: uuid.UUID, *, reason: str
) -> QuotaRevision | None:
    """Have `target`, which stands above `nodes`, keep all that these keep; they have nothing then.

    What is unlimited ends, and `target` gains nothing by it: it is no amount. None of it is lent. The caller
    has checked the permission and holds the cell's lock; `tables` are fresh. Returns the revision, None when
    nothing changes.
    """
    after: defaultdict[Key, dict[uuid.UUID, int | None]] = defaultdict(dict)
    for node, flavor_id, resource in tables.quotas:
        key = flavor_id, resource
        kept = tables.limits((node, *key)).nominal
        if node in nodes and kept != 0:
            after[key][node] = 0
            above = after[key].get(target, tables.limits((target, *key)).nominal)
            after[key][target] = None if above is None else above + (kept or 0)
    passed: dict[Key, Passed] = {}
    for key, amounts in after.items():
        passed |= tables.decided(key, amounts)
    plan = kept_plan(tables, after, passed)
    return plan_write(acting_user, plan, reason=reason, source=Source.EDIT) if plan.rows else None


def kept_plan(tables: QuotaTables, after: Mapping[Key, Amounts], passed: Mapping[Key, Passed]) -> QuotaPlan:
    """The plan by which nodes keep so much; the totals above them follow."""
    planned: list[Planned] = []
    rows: dict[RowKey, Limits] = {}
    flavors = {f.pk: f for f in Flavor.unscoped.filter(cluster__cell_id=tables.cell_id)}
    for key in sorted(after, key=lambda key: (str(key[0]), key[1])):
        kept = tables.kept(*key)
        now = kept | dict(after[key])
        before, then = totals(tables.parents, kept), totals(tables.parents, now)
        for node in tables.parents:
            was = tables.limits((node, *key))
            if now[node] != kept[node]:
                rows[node, key[0], key[1]] = replace(was, nominal=now[node])
            if then[node] != before[node]:
                limits = replace(was, nominal=before[node]), replace(was, nominal=then[node])
                planned.append(Planned(tables.nodes[node], flavors[key[0]], key[1], *limits))
    return QuotaPlan(tables.cell_id, planned, rows, overhangs(planned, tables), passed)
