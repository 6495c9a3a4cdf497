"""The ledger: the quota that jobs of each queue reserve, changed only here, and GPU-hours by month.

Functions are called inside the transaction that changes what is reserved. Amounts are summed first, then rows
are locked in a fixed order, so that two concurrent transactions cannot deadlock, and written together.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from django.db import transaction

from foundation.core.months import month_after, month_of, start_ms, to_ms
from foundation.core.quantities import Resource
from foundation.sql.bulk import update_rows
from foundation.sql.prepared import PreparedQuery
from quotas.models import GpuUse, LedgerEntry, QuotaKey

_METERED: Final = Resource.GPU_CORES.value
_LOCKED: Final = PreparedQuery(
    lambda nodes, flavors, resources: (
        LedgerEntry.unscoped.select_for_update(no_key=True)
        .filter(node__pk__any_of=nodes, flavor__pk__any_of=flavors, resource__any_of=resources)
        .order_by("pk")
        .values_list("pk", "node_id", "flavor_id", "resource", "reserved", "month", "core_ms")
    )
)


@dataclass(slots=True)
class _Entry:
    """A locked row of the ledger."""

    pk: int
    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: str
    reserved: int
    month: date
    core_ms: int


Amounts = Mapping[QuotaKey, int]


class LedgerMismatch(RuntimeError):
    """More would be freed than is reserved: the ledger is inconsistent, and nothing is changed."""


def ledger_reserve(amounts: Amounts, *, now: datetime) -> None:
    """Add what is reserved from `now` on. The caller has checked the tree, under the cell's lock."""
    wanted = {key: amount for key, amount in sorted(amounts.items()) if amount}
    rows = _locked(wanted)
    missing = [key for key in wanted if key not in rows]
    if missing:
        month = month_of(now)
        LedgerEntry.unscoped.bulk_create(
            [
                LedgerEntry(node_id=k.node_id, flavor_id=k.flavor_id, resource=k.resource, month=month)
                for k in missing
            ],
            ignore_conflicts=True,
        )
        # Rows are locked in the order of their keys, and these keys are the last.
        rows |= _locked(missing)
    _change(rows, wanted, now)


def ledger_lock(keys: Iterable[QuotaKey]) -> None:
    """Lock the rows of these keys, for a caller that locks nodes or GPUs before it reserves."""
    _locked(set(keys))


def ledger_free(amounts: Amounts, *, now: datetime) -> None:
    """Subtract what is released at `now`.

    Raises: LedgerMismatch when a row holds less than that; then nothing is subtracted.
    """
    _add({key: -amount for key, amount in amounts.items() if amount}, now)


def months_close(*, now: datetime) -> int:
    """Store the use of past months, for rows that were not changed since; return the number of rows."""
    old = LedgerEntry.unscoped.filter(resource=_METERED, month__lt=month_of(now)).order_by("pk")
    rows = old.values_list("node_id", "flavor_id", "resource")
    keys = [QuotaKey(node_id, flavor_id, Resource(resource)) for node_id, flavor_id, resource in rows]
    for key in keys:
        with transaction.atomic():
            _add({key: 0}, now)
    return len(keys)


def _add(changes: Amounts, now: datetime) -> None:
    """Change each row by its amount. Raises: LedgerMismatch when a row would fall below zero."""
    if changes:
        _change(_locked(changes), changes, now)


def _change(rows: Mapping[QuotaKey, _Entry], changes: Amounts, now: datetime) -> None:
    short = sorted(
        key for key, change in changes.items() if (rows[key].reserved if key in rows else 0) + change < 0
    )
    if short:
        raise LedgerMismatch(f"can't free {-changes[short[0]]} of {short[0]}")
    metered = [row for key, row in rows.items() if key.resource == _METERED]
    if over := [use for row in metered for use in _closed_months(row, now)]:
        GpuUse.unscoped.bulk_create(over)
    for key, row in rows.items():
        row.reserved += changes[key]
    for row in metered:
        # The row counts reserved x (t - start of the month), so a change at `now` subtracts the time before
        # it. This also holds for a `now` shortly before the month of the row: the difference is then
        # negative.
        row.core_ms -= changes[_key(row)] * (to_ms(now) - start_ms(row.month))
    written = [(row.pk, row.reserved, row.month, row.core_ms) for row in rows.values()]
    update_rows(LedgerEntry, ("reserved", "month", "core_ms"), written)


def _locked(keys: Collection[QuotaKey]) -> dict[QuotaKey, _Entry]:
    """Lock the rows of these keys, in a fixed order."""
    if not keys:
        return {}
    nodes, flavors = {key.node_id for key in keys}, {key.flavor_id for key in keys}
    rows = _LOCKED(list(nodes), list(flavors), list({str(key.resource) for key in keys}))
    held = ((_key(row), row) for row in (_Entry(*values) for values in rows))
    return {key: row for key, row in held if key in keys}


def _closed_months(row: _Entry, now: datetime) -> Iterator[GpuUse]:
    """Bring a row into the month of `now`; yields the sum of each month before it."""
    while row.month < month_of(now):
        following = month_after(row.month)
        total = row.core_ms + row.reserved * (start_ms(following) - start_ms(row.month))
        if total:
            yield GpuUse(node_id=row.node_id, flavor_id=row.flavor_id, month=row.month, core_ms=total)
        row.month, row.core_ms = following, 0


def _key(row: _Entry) -> QuotaKey:
    return QuotaKey(row.node_id, row.flavor_id, Resource(row.resource))


def ledger_charges(node_id: uuid.UUID, flavor_id: uuid.UUID, charge: Mapping[str, int]) -> Counter[QuotaKey]:
    """Return the ledger rows that one allocation's charge touches."""
    return Counter({QuotaKey(node_id, flavor_id, Resource(name)): amount for name, amount in charge.items()})
