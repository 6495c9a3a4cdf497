"""The end of a loan: where what was lent is by then, and how it comes back.

What a borrower got may have been divided among those below it, and lent on. It returns from where it went:
nobody who had no part in it pays, and nobody keeps any of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from foundation.quantities import Resource
from quotas.loans import gains, take_back
from quotas.models import Override, OverrideAmount, OverrideState
from quotas.services.loan_basis import follow_returned, holdings, nodes_below
from quotas.services.quota_move import Move
from quotas.services.quota_plan import QuotaTables


def return_moves(loan: Override, tables: QuotaTables) -> tuple[list[Move], dict[str, int]]:
    """The moves that bring a loan back, and by `<flavor> <resource>` what comes back where that is less.

    Other loans are told of it: the caller carries the moves out.
    """
    moves, short = [], {}
    for row in amounts_of(loan):
        parts = take_back(loan.borrower_id, row.amount, holdings(row, tables))
        follow_returned(row, tables, parts)
        resource = Resource(row.resource)
        moves += [Move(row.flavor, resource, node, loan.lender_id, part) for node, part in parts.items()]
        if sum(parts.values()) < row.amount:
            short[f"{row.flavor.name} {row.resource}"] = sum(parts.values())
    return moves, short


def lent_on(loan: Override, tables: QuotaTables, ending: Collection[uuid.UUID]) -> Override | None:
    """A loan of what another, which ends now, is short of: it cannot last longer than that one.

    The latest of those that the borrower, or one below it that gained, has lent out; `ending` are left out.
    """
    for row in amounts_of(loan):
        at = holdings(row, tables)
        if sum(take_back(loan.borrower_id, row.amount, at).values()) == row.amount:
            continue
        more = gains(at)
        lenders = [node for node in nodes_below(tables, loan.borrower_id) if more[node] != 0]
        rows = Override.unscoped.filter(
            state=OverrideState.ACTIVE,
            lender__in=[loan.borrower_id, *lenders],
            amounts__flavor=row.flavor_id,
            amounts__resource=row.resource,
        )
        found = rows.exclude(pk__in=ending).order_by("-starts_at", "-pk").first()
        if found is not None:
            return found
    return None


def amounts_of(loan: Override) -> list[OverrideAmount]:
    """What a loan moves, by flavor and resource."""
    rows = OverrideAmount.unscoped.filter(override=loan).select_related("flavor__cluster", "override")
    return list(rows.order_by("flavor__name", "resource", "pk"))
