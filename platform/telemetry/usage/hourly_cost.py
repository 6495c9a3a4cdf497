"""The price of a GPU-hour, and the cost of an hour of tasks, at the present prices."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from clusters.models import Flavor, GpuMode
from foundation.core.actor import Actor
from foundation.core.months import to_ms
from scheduling.metering.intervals import WHOLE_GPU, billed_percent
from scheduling.services.jobs.job_preview import PreviewedTask
from telemetry.usage.accounting import Rate
from telemetry.usage.prices import read_rates
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def hourly_cost(
    viewer: Actor, workspace: Tenant, tasks: Sequence[PreviewedTask], *, now: datetime
) -> Decimal | None:
    """Return what tasks of a workspace would cost per hour, not rounded; None without GPUs or a price.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    flavors = Flavor.unscoped.in_bulk({task.flavor_id for task in tasks if task.percent})
    rates, total = _current_rates(flavors, now), Decimal(0)
    for task in tasks:
        if not task.percent:
            continue
        if task.flavor_id not in rates:
            return None
        rate, memory_mib = rates[task.flavor_id], flavors[task.flavor_id].card_memory_mib
        billed = billed_percent(task.charge, sliced=task.sliced, card_memory_mib=memory_mib)
        total += (rate.slice if task.sliced else rate.whole) * billed / WHOLE_GPU
    return total if flavors else None


def pool_prices(
    viewer: Actor, workspace: Tenant, flavors: Collection[Flavor], *, now: datetime
) -> dict[uuid.UUID, Decimal]:
    """Return the price of a GPU-hour by pool of a workspace; pools without a price are absent.

    For pools of slices and MIG instances it is the price of these.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    rates = _current_rates([flavor.pk for flavor in flavors], now)
    sliced = {flavor.pk for flavor in flavors if flavor.gpu_mode in (GpuMode.SLICE, GpuMode.MIG)}
    return {pk: rate.slice if pk in sliced else rate.whole for pk, rate in rates.items()}


def _current_rates(flavors: Iterable[uuid.UUID], now: datetime) -> dict[uuid.UUID, Rate]:
    at = to_ms(now)
    past = {pk: [rate for rate in rates if rate.since_ms <= at] for pk, rates in read_rates(flavors).items()}
    return {pk: rates[-1] for pk, rates in past.items() if rates}
