"""What those below a borrower had when a loan started, kept true while others change the tree.

Whatever they have more by then was given on to them, and returns. Quota that was created for them meanwhile,
or came with a tenant that moved there, was not.

All of it is the platform's own sum over the whole tree: what a loan comes to does not depend on what whoever
acts may see.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from foundation import row_scope
from foundation.quantities import Resource
from quotas.loans import Holdings, gains, own_totals
from quotas.models import Override, OverrideAmount, OverrideState, QuotaChange
from quotas.services.quota_plan import QuotaTables
from quotas.tree.limits import Amount


@row_scope.whole()
def note_start(loan: Override, tables: QuotaTables) -> None:
    """Store what those below the borrower have at the start of a loan; `tables` are those after it."""
    for row in OverrideAmount.unscoped.filter(override=loan):
        now = _own(row, tables)
        below = nodes_below(tables, loan.borrower_id)
        row.started = {str(node): now[node] for node in below if now[node] != 0}
        row.save(update_fields=["started"])


def nodes_below(tables: QuotaTables, node: uuid.UUID) -> list[uuid.UUID]:
    """All nodes below one, in no order."""
    children = defaultdict(list)
    for each, parent in tables.parents.items():
        children[parent].append(each)
    found = list(children[node])
    for each in found:
        found.extend(children[each])
    return found


def way_up(tables: QuotaTables, node: uuid.UUID) -> list[uuid.UUID]:
    """A node, what is above it, and so on to the root."""
    way = [node]
    while (above := tables.parents[way[-1]]) is not None:
        way.append(above)
    return way


@row_scope.whole()
def follow_created(tables: QuotaTables, created: Mapping[tuple[uuid.UUID, uuid.UUID, Resource], int]) -> None:
    """Note quota that was created, or destroyed, below borrowers: it is none of what was lent.

    `created` by node, flavor and resource; `tables` are those before.
    """
    for row in _running(tables.cell_id):
        for (node, flavor_id, resource), amount in created.items():
            if (flavor_id, resource) == (row.flavor_id, row.resource):
                _add(row, _way_below(tables, node, row.override.borrower_id), amount)
        row.save(update_fields=["started"])


@row_scope.whole()
def follow_moved(before: QuotaTables, after: QuotaTables, node: uuid.UUID) -> None:
    """Note that a node stands elsewhere now, with its own quota and all that is below it."""
    for row in _running(before.cell_id):
        borrower = row.override.borrower_id
        own = _own(row, after)
        old, new = (_way_below(tables, node, borrower)[1:] for tables in (before, after))
        stays = borrower in way_up(before, node)[1:]
        if borrower in way_up(after, node)[1:] and not stays and row.started is not None:
            row.started |= {str(each): own[each] for each in (node, *nodes_below(after, node))}
        moved = own[node]
        if stays and row.started is not None:
            # What it had and did not take along stays with the folder that it left.
            for each in (node, *nodes_below(after, node)):
                row.started[str(each)] = _lesser(row.started.get(str(each), 0), own[each])
            moved = row.started[str(node)]
        if moved is not None:
            _add(row, old, -moved)
            _add(row, new, moved)
        row.save(update_fields=["started"])


@row_scope.whole()
def follow_returned(loan: OverrideAmount, tables: QuotaTables, parts: Mapping[uuid.UUID, int]) -> None:
    """Note what a loan takes back from nodes that had gained it before another loan started.

    To that other it is as if they had never had it: else a part of what they gained since would seem to be
    their own. `tables` are those before.
    """
    for row in _running(tables.cell_id):
        same = (row.flavor_id, row.resource) == (loan.flavor_id, loan.resource)
        if row.pk == loan.pk or not same or row.started is None or loan.started is None:
            continue
        taken: defaultdict[uuid.UUID, int] = defaultdict(int)
        for node, part in parts.items():
            below = _way_below(tables, node, loan.override.borrower_id)
            for each in _way_below(tables, node, row.override.borrower_id):
                taken[each] += part if each in below else 0
        for node, part in taken.items():
            had, later = loan.started.get(str(node), 0), row.started.get(str(node), 0)
            if had is not None and later is not None:
                row.started[str(node)] = later - min(part, max(0, later - had))
        row.save(update_fields=["started"])


@row_scope.whole()
def holds_lent(tables: QuotaTables, node: uuid.UUID, target: uuid.UUID | None) -> bool:
    """Whether moving a node below `target` would take away what a borrower above it has passed on."""
    above, stay = way_up(tables, node)[1:], way_up(tables, target) if target else []
    return any(
        row.override.borrower_id in above
        and row.override.borrower_id not in stay
        and gains(holdings(row, tables))[node] != 0
        for row in _running(tables.cell_id)
    )


def _running(cell_id: uuid.UUID) -> Iterator[OverrideAmount]:
    rows = OverrideAmount.unscoped.filter(override__cell=cell_id, override__state=OverrideState.ACTIVE)
    return rows.select_related("override").order_by("pk").iterator()


def _lesser(one: Amount, other: Amount) -> Amount:
    return one if other is None else other if one is None else min(one, other)


def _way_below(tables: QuotaTables, node: uuid.UUID, top: uuid.UUID) -> list[uuid.UUID]:
    """A node and what is above it, up to below `top`; empty where it does not stand below that."""
    way = way_up(tables, node)
    return way[: way.index(top)] if top in way else []


def _add(row: OverrideAmount, nodes: Collection[uuid.UUID], amount: int) -> None:
    if row.started is None:
        return
    for node in nodes:
        had = row.started.get(str(node), 0)
        if had is not None:
            row.started[str(node)] = max(0, had + amount)


# Reading


@row_scope.whole()
def holdings(row: OverrideAmount, tables: QuotaTables) -> Holdings:
    kept = tables.kept(row.flavor_id, Resource(row.resource))
    lent = _lent(row)
    started = _history(row, tables) if row.started is None else _by_node(row.started)
    return Holdings(tables.parents, kept, lent, started)


def _own(row: OverrideAmount, tables: QuotaTables) -> dict[uuid.UUID, Amount]:
    return own_totals(tables.parents, tables.kept(row.flavor_id, Resource(row.resource)), _lent(row))


def _lent(row: OverrideAmount) -> dict[uuid.UUID, int]:
    """What each node has lent out by the other loans that run, less what it was lent."""
    others = OverrideAmount.unscoped.filter(
        flavor=row.flavor_id, resource=row.resource, override__state=OverrideState.ACTIVE
    ).exclude(override=row.override_id)
    found: defaultdict[uuid.UUID, int] = defaultdict(int)
    for lender, borrower, amount in others.values_list("override__lender", "override__borrower", "amount"):
        found[lender] += amount
        found[borrower] -= amount
    return dict(found)


def _by_node(started: Mapping[str, int | None]) -> dict[uuid.UUID, Amount]:
    return {uuid.UUID(node): amount for node, amount in started.items()}


def _history(row: OverrideAmount, tables: QuotaTables) -> dict[uuid.UUID, Amount]:
    """As `started`, out of the history, for a loan that began before this was stored."""
    resource = Resource(row.resource)
    own = _own(row, tables)
    first: dict[uuid.UUID, Amount] = {}
    changes = QuotaChange.unscoped.filter(
        flavor=row.flavor_id, resource=row.resource, revision__pk__gt=row.override.started_by_id or row.pk
    )
    for node, before in changes.order_by("pk").values_list("node_id", "nominal_before"):
        first.setdefault(node, before)
    found = dict(own)
    for node, before in first.items():
        has, owns = tables.total(node, row.flavor_id, resource), own[node]
        if has is not None and before is not None and owns is not None:
            found[node] = owns - max(0, has - before)
    return found
