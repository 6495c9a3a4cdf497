"""The ledger: how much each queue holds, changed only here.

Called inside the transaction that changes what is held. Sums are made first and each row is written
once, in a fixed order, so that two transactions that meet cannot deadlock.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import F, QuerySet

from quotas.models import LedgerEntry


@dataclass(frozen=True, slots=True, order=True)
class LedgerKey:
    """One row of the ledger: a queue's quota node, a flavor and a resource."""

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: str


Amounts = Mapping[LedgerKey, int]


class LedgerMismatch(RuntimeError):
    """More was to be freed than is held: the books are wrong, and nothing is changed."""


def ledger_reserve(amounts: Amounts) -> None:
    """Add what is taken. The caller has checked the tree, under the cell's lock."""
    wanted = {key: amount for key, amount in sorted(amounts.items()) if amount}
    rows = [LedgerEntry(node_id=k.node_id, flavor_id=k.flavor_id, resource=k.resource) for k in wanted]
    LedgerEntry.unscoped.bulk_create(rows, ignore_conflicts=True)
    for key, amount in wanted.items():
        _row(key).update(used=F("used") + amount)


def ledger_free(amounts: Amounts) -> None:
    """Subtract what is given back.

    Raises: LedgerMismatch when a row holds less than that.
    """
    for key, amount in sorted(amounts.items()):
        if amount and not _row(key).filter(used__gte=amount).update(used=F("used") - amount):
            raise LedgerMismatch(f"cannot free {amount} of {key}")


def _row(key: LedgerKey) -> QuerySet[LedgerEntry]:
    return LedgerEntry.unscoped.filter(node_id=key.node_id, flavor_id=key.flavor_id, resource=key.resource)


def charges(node_id: uuid.UUID, flavor_id: uuid.UUID, charge: Mapping[str, int]) -> Counter[LedgerKey]:
    """The ledger rows that one allocation's charge touches."""
    return Counter({LedgerKey(node_id, flavor_id, resource): amount for resource, amount in charge.items()})
