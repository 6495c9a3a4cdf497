"""Reading loans."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from django.db.models import Prefetch, Q, QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from quotas.distribution.loans import Flow
from quotas.models import Override, OverrideAmount, OverrideState, QuotaNode
from quotas.selectors.sight import quota_tenants


def _with_sides(loans: QuerySet[Override]) -> QuerySet[Override]:
    related = ("cell", "lender__tenant", "lender__queue", "borrower__tenant", "borrower__queue")
    return loans.select_related(*related).order_by("-starts_at", "-pk")


def _with_pools(amounts: QuerySet[OverrideAmount]) -> QuerySet[OverrideAmount]:
    return amounts.select_related("flavor__cluster").order_by(
        "flavor__name", "flavor__cluster__name", "resource"
    )


_LOANS: Final = PreparedQuery(lambda keys: _with_sides(Override.unscoped.filter(pk__any_of=keys)))
_AMOUNTS: Final = PreparedQuery(
    lambda keys: _with_pools(OverrideAmount.unscoped.filter(override__pk__any_of=keys))
)


@row_scope.whole()
def loan_flows(node_id: uuid.UUID, flavor_id: uuid.UUID, resource: Resource) -> list[Flow]:
    """Return the changes of a node's own nominal by the loans that are planned or run."""
    rows = OverrideAmount.unscoped.filter(
        Q(override__lender=node_id) | Q(override__borrower=node_id),
        flavor=flavor_id,
        resource=resource.value,
        override__state__in=(OverrideState.PLANNED, OverrideState.ACTIVE),
    )
    flows = []
    for row in rows.select_related("override"):
        loan, sign = row.override, -1 if row.override.lender_id == node_id else 1
        if loan.state == OverrideState.PLANNED:
            flows.append(Flow(loan.starts_at, sign * row.amount))
        flows.append(Flow(loan.ends_at, -sign * row.amount))
    return flows


def override_keys(viewer: Actor) -> QuerySet[Override, uuid.UUID]:
    """Return the keys of the loans of which the viewer may see the quota of the lender or of the borrower,
    the latest first; `read_overrides` reads them.
    """
    # Filtered by the nodes in sight, not by a join to both: the row policies hide the other side's node.
    seen = QuotaNode.unscoped.filter(tenant__in=quota_tenants(viewer)).values("pk")
    rows = Override.unscoped.filter(Q(lender__in=seen) | Q(borrower__in=seen))
    return rows.order_by("-starts_at", "-pk").values_list("pk", flat=True)


@contextmanager
def overrides_in_sight(viewer: Actor) -> Iterator[QuerySet[Override]]:
    """Yield the loans of `override_keys`, the latest first, to be narrowed and read within the block: both
    sides of a loan are readable there, as in `read_overrides`.
    """
    seen = list(override_keys(viewer))
    with row_scope.whole():
        yield _both_sides(seen)


def read_overrides(loans: Iterable[uuid.UUID]) -> list[Override]:
    """Read loans, the latest first.

    The caller has checked that the viewer may see one side of each loan. The name of the other side is read
    here too, because the row policies hide it later.
    """
    seen = list(loans)  # a query of keys runs here, under the policies on rows
    with row_scope.whole():
        found, amounts = _LOANS.for_any(seen), defaultdict[uuid.UUID, list[OverrideAmount]](list)
        for amount in _AMOUNTS.for_any(seen):
            amounts[amount.override_id].append(amount)
    for loan in found:
        loan.have_amounts(amounts[loan.pk])
    return found


def _both_sides(loans: Sequence[uuid.UUID]) -> QuerySet[Override]:
    amounts = Prefetch("amounts", queryset=_with_pools(OverrideAmount.unscoped.all()))
    return _with_sides(Override.unscoped.filter(pk__in=loans)).prefetch_related(amounts)


def override_get(viewer: Actor, pk: uuid.UUID) -> Override:
    """Return one loan. Raises: NotFound, also for a loan between tenants out of sight."""
    found = read_overrides(override_keys(viewer).filter(pk=pk))
    if not found:
        raise NotFound(_("Temporary quota not found."))
    return found[0]
