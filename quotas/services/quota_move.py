"""Moving what one node keeps to another: every total on the way follows, and the sum of the tree stays."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from clusters.models import Flavor
from foundation.actor import Actor
from foundation.quantities import Resource
from quotas.distribution import totals
from quotas.effect import RowKey
from quotas.models import QuotaRevision, Source
from quotas.services.quota import plan_write
from quotas.services.quota_plan import Planned, QuotaPlan, QuotaTables, overhangs
from quotas.tree.limits import Limits


@dataclass(frozen=True, slots=True)
class Move:
    """So much of what `source` keeps, in the resource's unit, goes to `target`; both are quota nodes."""

    flavor: Flavor
    resource: Resource
    source: uuid.UUID
    target: uuid.UUID
    amount: int


class KeepsLess(ValueError):
    """A node keeps less than is to be moved away; the caller looked before and says what it means."""


def quota_move(
    acting_user: Actor, tables: QuotaTables, moves: Sequence[Move], *, reason: str, source: Source
) -> QuotaRevision | None:
    """Carry out moves whose permission the caller has checked, under the cell's lock; `tables` are fresh.

    What is unlimited neither loses nor gains. Returns the revision, None when nothing changes.
    Raises: KeepsLess.
    """
    plan = _plan(tables, moves)
    return plan_write(acting_user, plan, reason=reason, source=source) if plan.changes else None


def quota_leave(
    acting_user: Actor, tables: QuotaTables, nodes: Collection[uuid.UUID], target: uuid.UUID, *, reason: str
) -> QuotaRevision | None:
    """Have `target`, which stands above `nodes`, keep all that these keep; they have nothing then.

    What is unlimited ends, and `target` gains nothing by it: it is no amount. The caller has checked the
    permission and holds the cell's lock; `tables` are fresh. Returns the revision, None when nothing changes.
    """
    planned: list[Planned] = []
    rows: dict[RowKey, Limits] = {}
    flavors = {f.pk: f for f in Flavor.unscoped.filter(cluster__cell_id=tables.cell_id)}
    keys = {(flavor_id, resource) for node, flavor_id, resource in tables.quotas if node in nodes}
    for flavor_id, resource in sorted(keys, key=lambda key: (str(key[0]), key[1])):
        before = totals(tables.parents, tables.kept(flavor_id, resource))
        freed = 0
        for node in nodes:
            was = tables.limits((node, flavor_id, resource))
            now = replace(was, nominal=0)
            freed += was.nominal or 0
            if now != was:
                rows[node, flavor_id, resource] = now
            if before[node] != 0:
                then = replace(was, nominal=before[node])
                planned.append(Planned(tables.nodes[node], flavors[flavor_id], resource, then, now))
        above = tables.limits((target, flavor_id, resource))
        if freed and above.nominal is not None:
            rows[target, flavor_id, resource] = replace(above, nominal=above.nominal + freed)
    plan = QuotaPlan(tables.cell_id, planned, rows, overhangs(planned, tables))
    return plan_write(acting_user, plan, reason=reason, source=Source.EDIT) if planned else None


def _plan(tables: QuotaTables, moves: Sequence[Move]) -> QuotaPlan:
    by_key: defaultdict[tuple[uuid.UUID, Resource], list[Move]] = defaultdict(list)
    for move in moves:
        by_key[move.flavor.pk, move.resource].append(move)
    planned: list[Planned] = []
    rows: dict[RowKey, Limits] = {}
    for (flavor_id, resource), of in sorted(by_key.items(), key=lambda item: (str(item[0][0]), item[0][1])):
        kept = tables.kept(flavor_id, resource)
        after = dict(kept)
        for move in of:
            _shift(after, move)
        before, then = totals(tables.parents, kept), totals(tables.parents, after)
        for node in tables.parents:
            was = tables.limits((node, flavor_id, resource))
            borders = was.borrowing_limit, was.lending_limit
            if after[node] != kept[node]:
                rows[node, flavor_id, resource] = Limits(after[node], *borders)
            if then[node] != before[node]:
                limits = Limits(before[node], *borders), Limits(then[node], *borders)
                planned.append(Planned(tables.nodes[node], of[0].flavor, resource, *limits))
    return QuotaPlan(tables.cell_id, planned, rows, overhangs(planned, tables))


def _shift(kept: dict[uuid.UUID, int | None], move: Move) -> None:
    has = kept[move.source]
    if has is not None:
        if has < move.amount:
            raise KeepsLess(f"{move.source} keeps {has}, not {move.amount}")
        kept[move.source] = has - move.amount
    # Read after the other is written: a lender below the borrower may have been given its own back already.
    gets = kept[move.target]
    if gets is not None:
        kept[move.target] = gets + move.amount
