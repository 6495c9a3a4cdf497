"""The cost of an hour of GPUs at the present prices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.months import to_ms
from scheduling.metering.intervals import WHOLE_GPU, billed_percent
from scheduling.services.jobs.job_preview import PreviewedTask
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
    rates, at, total = read_rates(flavors), to_ms(now), Decimal(0)
    for task in tasks:
        if not task.percent:
            continue
        known = [rate for rate in rates.get(task.flavor_id, ()) if rate.since_ms <= at]
        if not known:
            return None
        memory_mib = flavors[task.flavor_id].card_memory_mib
        billed = billed_percent(task.charge, sliced=task.sliced, card_memory_mib=memory_mib)
        total += (known[-1].slice if task.sliced else known[-1].whole) * billed / WHOLE_GPU
    return total if flavors else None
