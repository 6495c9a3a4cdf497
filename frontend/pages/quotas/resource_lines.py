"""The quota of one node in all resources: a line per pool and resource, with what is measured to be used."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.quantities import Resource
from frontend.components.capacity import Meter
from frontend.pages.quotas.rows import TITLES, UNITS, format_amount
from frontend.pages.quotas.tree_use import MEASURED, explain_missing_use, use_of
from frontend.texts import formats
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota
from telemetry.series import PoolUse

Use = Mapping[uuid.UUID, PoolUse]
"""What is measured now, by flavor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLine:
    """The quota of a node for one resource of a pool, its amounts in words.

    nominal = reserved without borrowed + lent + free. `utilization` is of what is reserved and measured.
    `no_use` says why it is not known what is used. Without a nominal quota there is no `meter`: its bar would
    look full.
    """

    flavor: Flavor
    is_first: bool
    resource: str
    unit: str
    meter: Meter | None
    nominal: str
    borrowing_limit: str
    lending_limit: str
    reserved: str
    used: str
    no_use: str
    utilization: str
    borrowed: str
    lent: str
    free: str
    available: str
    pending: str


def resource_lines(rows: Sequence[QuotaRow], use: Use, node: NodeQuota | None = None) -> list[ResourceLine]:
    """Return a line for each row of a node, in their order; `node` knows what is pending."""
    found, flavor = [], None
    for row in rows:
        pending = node.get_pending(row) if node else None
        found.append(_line(row, use, pending, is_first=row.flavor.pk != flavor))
        flavor = row.flavor.pk
    return found


def _line(row: QuotaRow, use: Use, pending: int | None, *, is_first: bool) -> ResourceLine:
    resource, (word, unit) = row.resource, UNITS[row.resource]
    used, measured = _measured(row, use)
    return ResourceLine(
        flavor=row.flavor,
        is_first=is_first,
        resource=str(TITLES[resource]),
        unit=str(word),
        meter=None
        if row.nominal is None
        else Meter(
            nominal=row.nominal / unit,
            allocated=row.reserved / unit,
            used=None if used is None else round(used / unit, 1),
            borrowed=row.borrowed / unit,
            lent=row.lent / unit,
            unit=str(word),
        ),
        nominal=format_amount(resource, row.nominal),
        borrowing_limit=format_amount(resource, row.borrowing_limit),
        lending_limit=format_amount(resource, row.lending_limit),
        reserved=format_amount(resource, row.reserved),
        used=formats.MISSING if used is None else formats.format_number(used / unit, 1).removesuffix(".0"),
        no_use=explain_missing_use(resource) if used is None else "",
        utilization=formats.format_percent(100 * used / measured if used is not None and measured else None),
        borrowed=format_amount(resource, row.borrowed) if row.borrowed else formats.MISSING,
        lent=format_amount(resource, row.lent) if row.lent else formats.MISSING,
        free=format_amount(resource, row.free),
        available=format_amount(resource, row.available),
        pending=formats.MISSING if pending is None else format_amount(resource, pending),
    )


def _measured(row: QuotaRow, use: Use) -> tuple[float | None, int]:
    """Return what is measured to be used, and of how much; None for a resource that isn't measured, and
    without a reading."""
    if row.resource not in MEASURED:
        return None, 0
    if row.flavor.pk not in use:
        return (None if row.reserved else 0.0), 0
    one = use[row.flavor.pk]
    measured = one.cores_allocated if row.resource is Resource.GPU_CORES else one.memory_allocated_mib
    return use_of(one, row.resource), measured
