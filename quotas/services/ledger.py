"""The ledger: how much each queue holds, changed only here, and what holding compute adds up to by the month.

Called inside the transaction that changes what is held. Sums are made first and each row is written
once, in a fixed order, so that two transactions that meet cannot deadlock.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import F, QuerySet

from foundation.quantities import Resource
from quotas.models import GpuUse, LedgerEntry
from quotas.months import month_after, month_of, start_ms, to_ms

_METERED: Final = Resource.GPU_CORES.value


@dataclass(frozen=True, slots=True, order=True)
class LedgerKey:
    """One row of the ledger: a queue's quota node, a flavor and a resource."""

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: str


Amounts = Mapping[LedgerKey, int]


class LedgerMismatch(RuntimeError):
    """More was to be freed than is held: the books are wrong, and nothing is changed."""


def ledger_reserve(amounts: Amounts, *, now: datetime) -> None:
    """Add what is taken from `now` on. The caller has checked the tree, under the cell's lock."""
    wanted = {key: amount for key, amount in sorted(amounts.items()) if amount}
    month = month_of(now)
    rows = [
        LedgerEntry(node_id=k.node_id, flavor_id=k.flavor_id, resource=k.resource, month=month)
        for k in wanted
    ]
    LedgerEntry.unscoped.bulk_create(rows, ignore_conflicts=True)
    for key, amount in wanted.items():
        _add(key, amount, now)


def ledger_free(amounts: Amounts, *, now: datetime) -> None:
    """Subtract what is given back at `now`.

    Raises: LedgerMismatch when a row holds less than that.
    """
    for key, amount in sorted(amounts.items()):
        if amount and not _add(key, -amount, now):
            raise LedgerMismatch(f"cannot free {amount} of {key}")


def months_close(*, now: datetime) -> int:
    """Put away the use of months that are over, of rows that nobody touched since; returns how many."""
    old = LedgerEntry.unscoped.filter(resource=_METERED, month__lt=month_of(now)).order_by("pk")
    keys = [LedgerKey(*row) for row in old.values_list("node_id", "flavor_id", "resource")]
    for key in keys:
        with transaction.atomic():
            _close_months(key, now)
    return len(keys)


def _add(key: LedgerKey, amount: int, now: datetime) -> bool:
    """Change one row; False when it holds less than is to be taken away."""
    rows = _row(key) if amount > 0 else _row(key).filter(used__gte=-amount)
    if key.resource != _METERED:
        return bool(rows.update(used=F("used") + amount))
    month = month_of(now)
    return _add_metered(rows, amount, now) or (
        rows.filter(month__lt=month).exists() and _close_months(key, now) and _add_metered(rows, amount, now)
    )


def _add_metered(rows: QuerySet[LedgerEntry], amount: int, now: datetime) -> bool:
    # What is held from now on counts as if it had been held since the month began, less that time. A
    # moment just before the month of the row is no trouble: then it is more, not less.
    month = month_of(now)
    for of in (month, month_after(month)):
        held_before = to_ms(now) - start_ms(of)
        changes = {"used": F("used") + amount, "core_ms": F("core_ms") - amount * held_before}
        if rows.filter(month=of).update(**changes):
            return True
    return False


def _close_months(key: LedgerKey, now: datetime) -> bool:
    """Bring a row into the month of `now`, each month before it put away with its sum."""
    row = _row(key).select_for_update().first()
    if row is None:
        return False
    closed = []
    while row.month < month_of(now):
        following = month_after(row.month)
        total = row.core_ms + row.used * (start_ms(following) - start_ms(row.month))
        if total:
            closed.append(
                GpuUse(node_id=key.node_id, flavor_id=key.flavor_id, month=row.month, core_ms=total)
            )
        row.month, row.core_ms = following, 0
    GpuUse.unscoped.bulk_create(closed)
    row.save(update_fields=["month", "core_ms"])
    return True


def _row(key: LedgerKey) -> QuerySet[LedgerEntry]:
    return LedgerEntry.unscoped.filter(node_id=key.node_id, flavor_id=key.flavor_id, resource=key.resource)


def charges(node_id: uuid.UUID, flavor_id: uuid.UUID, charge: Mapping[str, int]) -> Counter[LedgerKey]:
    """The ledger rows that one allocation's charge touches."""
    return Counter({LedgerKey(node_id, flavor_id, resource): amount for resource, amount in charge.items()})
