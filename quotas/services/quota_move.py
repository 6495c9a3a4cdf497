"""Moving what one node keeps to another: every total on the way follows, and the sum of the tree stays."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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
    has, gets = kept[move.source], kept[move.target]
    if has is not None:
        if has < move.amount:
            raise KeepsLess(f"{move.source} keeps {has}, not {move.amount}")
        kept[move.source] = has - move.amount
    if gets is not None:
        kept[move.target] = gets + move.amount
