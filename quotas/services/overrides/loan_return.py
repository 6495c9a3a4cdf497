"""The end of a loan: lent quota returns along the nodes that passed it on.

A borrower may have distributed the lent quota to its neighbors, or lent it on. `quotas.distribution.loans`
records this, so the return takes nothing from nodes that received none, and no node keeps any of it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from foundation.core.quantities import Resource
from quotas.distribution.loans import LoanLedger
from quotas.models import FlavorKey, Override, OverrideAmount
from quotas.services.quota_plan import QuotaTables


@dataclass(frozen=True, slots=True)
class ReturnedLoan:
    """The ledgers after a loan ended, and the other loans that ended with it, in their order."""

    ledgers: dict[FlavorKey, LoanLedger]
    others: list[uuid.UUID]


def return_loan(loan: Override, tables: QuotaTables) -> ReturnedLoan:
    """Compute the end of a loan. If quota of it was lent on and is missing, that other loan ends too, as a
    whole.
    """
    ledgers: dict[FlavorKey, LoanLedger] = {}
    ending = [loan.pk]
    for pk in ending:
        for flavor_id, resource in OverrideAmount.unscoped.filter(override=pk).values_list(
            "flavor_id", "resource"
        ):
            key = flavor_id, Resource(resource)
            ledger = ledgers.setdefault(key, tables.build_loan_ledger(key))
            if pk in ledger.loans:
                ending += [other for other in ledger.end_loan(pk) if other not in ending]
    return ReturnedLoan(ledgers, ending[1:])


def override_amounts(loan: Override) -> list[OverrideAmount]:
    """Return the amounts of a loan, by flavor and resource."""
    rows = OverrideAmount.unscoped.filter(override=loan).select_related("flavor__cluster", "override")
    return list(rows.order_by("flavor__name", "resource", "pk"))
