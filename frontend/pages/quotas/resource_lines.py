"""The quota of one node in all resources: a line per pool and resource, with the measured use."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from django.utils.translation import gettext as _

from clusters.models import Flavor
from frontend.components.capacity import Meter
from frontend.pages.quotas.rows import TITLES, UNITS, format_amount
from frontend.texts import formats
from frontend.texts.allocated_use import MEASURED, AllocatedUse, build_use, explain_use, format_used
from quotas.models import FlavorKey
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota
from telemetry.series import PoolUse

Use = Mapping[uuid.UUID, PoolUse]
"""The measured use now, by flavor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLine:
    """The quota of a node for one resource of a pool, its amounts as text.

    nominal = reserved without borrowed + lent + free. `utilization` is the used part of what is reserved and
    measured. `use_note` is the reason why the use is unknown or known only in part. `available_parts` divides
    what is available into nominal and borrowed. Without a nominal quota there is no `meter`, because its bar
    would look full.
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
    use_note: str
    utilization: str
    borrowed: str
    lent: str
    free: str
    available: str
    available_parts: str
    pending: str


def resource_lines(
    rows: Sequence[QuotaRow],
    use: Use,
    node: NodeQuota | None = None,
    *,
    sees_jobs: bool,
    available: Mapping[FlavorKey, QuotaRow] | None = None,
) -> list[ResourceLine]:
    """Return a line for each row of a node, in their order; `node` has the pending requests.

    `sees_jobs` says whether the reader may see the jobs to which `use` belongs. `available` are the rows of
    the queues whose available amounts are shown; without it these are those of the node itself.
    """
    found, flavor = [], None
    for row in rows:
        pending = node.get_pending(row) if node else None
        is_first = row.flavor.pk != flavor
        line = _line(row, _find_use(row, use, sees_jobs), pending, sees_jobs, is_first=is_first)
        of = row if available is None else available.get((row.flavor.pk, row.resource))
        amount = format_amount(row.resource, of.available if of else 0)
        found.append(replace(line, available=amount, available_parts=_divide_available(of) if of else ""))
        flavor = row.flavor.pk
    return found


def _line(
    row: QuotaRow, use: AllocatedUse | None, pending: int | None, sees_jobs: bool, *, is_first: bool
) -> ResourceLine:
    resource, (word, unit) = row.resource, UNITS[row.resource]
    format_own = partial(format_amount, resource)
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
            used=None if use is None else round(use.used / unit, 1),
            borrowed=row.borrowed / unit,
            lent=row.lent / unit,
            unit=str(word),
            is_partly_measured=use is not None and use.is_partial,
        ),
        nominal=format_amount(resource, row.nominal),
        borrowing_limit=format_amount(resource, row.borrowing_limit),
        lending_limit=format_amount(resource, row.lending_limit),
        reserved=format_amount(resource, row.reserved),
        used=format_used(use, format_own),
        use_note=explain_use(use, resource, format_own, sees_jobs=sees_jobs),
        utilization=formats.format_percent(100 * use.used / use.measured if use and use.measured else None),
        borrowed=format_amount(resource, row.borrowed) if row.borrowed else formats.MISSING,
        lent=format_amount(resource, row.lent) if row.lent else formats.MISSING,
        free=format_amount(resource, row.free),
        available="",
        available_parts="",
        pending=formats.MISSING if pending is None else format_amount(resource, pending),
    )


def _divide_available(row: QuotaRow) -> str:
    if not row.available or row.own_free is None:
        return ""
    amounts = {"own": row.own_free, "borrow": row.borrowable or 0}
    numbers = {name: format_amount(row.resource, amount) for name, amount in amounts.items()}
    return _("%(own)s nominal + %(borrow)s to borrow") % numbers


def _find_use(row: QuotaRow, use: Use, sees_jobs: bool) -> AllocatedUse | None:
    if row.resource not in MEASURED or not sees_jobs:
        return None
    return build_use(use.get(row.flavor.pk), row.resource, row.reserved)
