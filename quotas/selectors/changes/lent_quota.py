"""The loans of a cell at this moment, and the quota that was passed on."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.loans import Loan, LoanId, Passed
from quotas.models import FlavorKey, OverrideAmount, OverrideState, PassedQuota, QuotaChange


@dataclass(frozen=True, slots=True)
class LentRows:
    """Running loans by their start, and passed on quota, both by flavor and resource."""

    loans: dict[FlavorKey, dict[LoanId, Loan]]
    passed: dict[FlavorKey, Passed]


@row_scope.whole()
def read_lent_rows(cell_id: uuid.UUID) -> LentRows:
    """Read the running loans of a cell, in two queries."""
    loans: defaultdict[FlavorKey, dict[LoanId, Loan]] = defaultdict(dict)
    running = OverrideAmount.unscoped.filter(override__cell=cell_id, override__state=OverrideState.ACTIVE)
    columns = ("flavor_id", "resource", "override_id", "override__lender", "override__borrower", "amount")
    for flavor_id, resource, pk, lender, borrower, amount in running.order_by(
        "override__starts_at", "override", "pk"
    ).values_list(*columns):
        loans[flavor_id, Resource(resource)][pk] = Loan(lender, borrower, amount)
    passed: defaultdict[FlavorKey, Passed] = defaultdict(dict)
    rows = PassedQuota.unscoped.filter(source__cell=cell_id).order_by("pk")
    for flavor_id, resource, source, target, amount in rows.values_list(
        "flavor_id", "resource", "source_id", "target_id", "amount"
    ):
        passed[flavor_id, Resource(resource)][source, target] = amount
    return LentRows(dict(loans), dict(passed))


@row_scope.whole()
def sum_changes_since(loans: Collection[LoanId], key: FlavorKey) -> dict[uuid.UUID, int]:
    """Sum the changes of the nominals of nodes since the first of these loans started."""
    flavor_id, resource = key
    first = OverrideAmount.unscoped.filter(override__in=loans).order_by("override__started_by").first()
    rows = QuotaChange.unscoped.filter(flavor=flavor_id, resource=resource.value)
    if first is not None and first.override.started_by_id is not None:
        rows = rows.filter(revision__pk__gt=first.override.started_by_id)
    found: Counter[uuid.UUID] = Counter()
    for node, before, after in rows.values_list("node_id", "nominal_before", "nominal_after"):
        found[node] += (after or 0) - (before or 0)
    return dict(found)
