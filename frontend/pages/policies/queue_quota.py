"""The quota of a queue: a row per pool and resource, with the numbers of the quota pages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.quantities import Resource
from frontend.components.capacity import Meter
from frontend.pages.quotas.rows import TITLES, UNITS, format_amount
from frontend.texts import formats
from quotas.models import Queue
from quotas.selectors.tables.quota import queue_quota
from quotas.selectors.tables.quota_row import QuotaRow
from scheduling.selectors.jobs.queue_jobs import queue_admitted_ids
from telemetry.series import jobs_use_by_pool
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

Use = Mapping[uuid.UUID, tuple[float, int]]
"""By flavor the measured compute in percent points of a GPU, and the GPU memory in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuotaLine:
    """The quota of a queue for one resource of a pool, its amounts in words."""

    flavor: Flavor
    is_first: bool
    resource: str
    unit: str
    meter: Meter
    nominal: str
    borrowing_limit: str
    lending_limit: str
    reserved: str
    used: str
    borrowed: str
    lent: str
    free: str
    available: str


def describe_quota(viewer: User, queue: Queue) -> list[QueueQuotaLine]:
    """Return the quota of a queue, the pools in its order of preference first.

    What its jobs use is for those who may see these jobs. Raises: NotFound, PermissionDenied.
    """
    places = {row.flavor_id: place for place, row in enumerate(queue.queue_flavors.all())}
    rows = [row for row in queue_quota(viewer, queue) if row.is_assigned or row.flavor.pk in places]
    titles = list(TITLES)

    def order_of(row: QuotaRow) -> tuple[int, str, str, int]:
        place = places.get(row.flavor.pk, len(places))
        return place, row.flavor.name, str(row.flavor.pk), titles.index(row.resource)

    rows.sort(key=order_of)
    use: Use = {}
    if permissions.has_permission(viewer, Permission.JOB_VIEW, queue.workspace):
        use = jobs_use_by_pool(viewer, queue_admitted_ids(viewer=viewer, queue=queue))
    return _lines(rows, use)


def _lines(rows: Sequence[QuotaRow], use: Use) -> list[QueueQuotaLine]:
    found, flavor = [], None
    for row in rows:
        found.append(_line(row, use, is_first=row.flavor.pk != flavor))
        flavor = row.flavor.pk
    return found


def _line(row: QuotaRow, use: Use, *, is_first: bool) -> QueueQuotaLine:
    resource, (word, unit) = row.resource, UNITS[row.resource]
    used = _measured(row, use)
    return QueueQuotaLine(
        flavor=row.flavor,
        is_first=is_first,
        resource=str(TITLES[resource]),
        unit=str(word),
        meter=Meter(
            nominal=(row.nominal or 0) / unit,
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
        borrowed=format_amount(resource, row.borrowed) if row.borrowed else formats.MISSING,
        lent=format_amount(resource, row.lent) if row.lent else formats.MISSING,
        free=format_amount(resource, row.free),
        available=format_amount(resource, row.available),
    )


def _measured(row: QuotaRow, use: Use) -> float | None:
    """Return what is measured to be used; None for a resource that isn't measured, and without a reading."""
    if row.resource not in (Resource.GPU_CORES, Resource.GPU_MEMORY):
        return None
    if row.flavor.pk not in use:
        return None if row.reserved else 0.0
    cores, memory = use[row.flavor.pk]
    return cores if row.resource is Resource.GPU_CORES else float(memory)
