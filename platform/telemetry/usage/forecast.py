"""The time at which a tenant's quota will be full, if its reserved GPUs keep growing as before.

The growth is the median of the slopes between all pairs of past means (Theil 1950, Sen 1968), which single
outliers do not affect. It is given only if most pairs agree on the direction (Kendall's tau).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import Final

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.months import to_ms
from quotas.selectors.tenants.usage import TenantUsage, tenant_pools, tenant_usage
from scheduling.metering.usage_rows import usage_rows
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
DAYS: Final = 14
"""The number of past days considered; with fewer than five days, the hours of two days."""
LEAST: Final = 5
"""The least number of past means."""
HORIZON: Final = timedelta(days=90)
_HOURS: Final = 48
_AGREEING: Final = 0.4


class QuotaTrend(StrEnum):
    """The trend of a quota. `short`: too little history; `steady`: no clear growth."""

    FULL = "full"
    FILLS = "fills"
    LATER = "later"
    STEADY = "steady"
    SHORT = "short"
    UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class QuotaForecast:
    """One workspace on one pool, in percent points of a GPU. `fills_at` is set if the quota is full within 90
    days; `growth_per_day` if there is a clear growth."""

    tenant: Tenant
    flavor: Flavor
    nominal: int | None
    reserved: int
    trend: QuotaTrend
    fills_at: datetime | None = None
    growth_per_day: float | None = None


def quota_forecasts(
    viewer: Actor, *, now: datetime, cluster_id: uuid.UUID | None = None
) -> list[QuotaForecast]:
    """Return a forecast for each pool with quota of each visible workspace; the first to fill first."""
    usages = [usage for usage in tenant_usage(viewer=viewer) if usage.tenant.kind == TenantKind.WORKSPACE]
    return _forecasts(usages, now, cluster_id)


def workspace_forecasts(viewer: Actor, workspace: Tenant, *, now: datetime) -> list[QuotaForecast]:
    """Return the forecast of each pool in which one workspace has quota; the first to fill first.

    Raises: PermissionDenied without `quota.view` on the workspace; NotFound if it is not visible.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    usage = TenantUsage(workspace, 0, tenant_pools(viewer=viewer, tenant=workspace))
    return _forecasts([usage], now, None)


def _forecasts(
    usages: Sequence[TenantUsage], now: datetime, cluster_id: uuid.UUID | None
) -> list[QuotaForecast]:
    start_ms = to_ms(now) - DAYS * DAY_MS
    past = _read_past(usages, start_ms, now)
    found = [
        _forecast(usage.tenant, part.flavor, part.nominal, part.reserved, past, now)
        for usage in usages
        for part in usage.flavors
        if part.nominal != 0 and cluster_id in (None, part.flavor.cluster_id)
    ]
    order = list(QuotaTrend)
    far = now + 2 * HORIZON
    return sorted(
        found,
        key=lambda one: (order.index(one.trend), one.fills_at or far, one.tenant.name, one.flavor.name),
    )


Holds = dict[tuple[uuid.UUID, uuid.UUID], list[tuple[int, int, int]]]
"""Begin, end and percent points of holds, by workspace and flavor."""


def _read_past(usages: Sequence[TenantUsage], start_ms: int, now: datetime) -> Holds:
    workspaces = Tenant.unscoped.filter(pk__in=[usage.tenant.pk for usage in usages])
    found: defaultdict[tuple[uuid.UUID, uuid.UUID], list[tuple[int, int, int]]] = defaultdict(list)
    for row in usage_rows(start_ms, to_ms(now), now=now, workspaces=workspaces):
        found[row.workspace_id, row.flavor_id].append((row.begin_ms, row.end_ms, row.cores))
    return dict(found)


def _forecast(
    tenant: Tenant, flavor: Flavor, nominal: int | None, reserved: int, past: Holds, now: datetime
) -> QuotaForecast:
    if nominal is None:
        return QuotaForecast(tenant, flavor, None, reserved, QuotaTrend.UNLIMITED)
    means, step_ms = past_means(past.get((tenant.pk, flavor.pk), []), to_ms(now))
    growth = find_growth(means)
    per_day = None if growth is None else growth[0] * DAY_MS / step_ms
    if reserved >= nominal:
        return QuotaForecast(tenant, flavor, nominal, reserved, QuotaTrend.FULL, growth_per_day=per_day)
    if len(means) < LEAST:
        return QuotaForecast(tenant, flavor, nominal, reserved, QuotaTrend.SHORT)
    if growth is None or per_day is None or growth[0] <= 0:
        return QuotaForecast(tenant, flavor, nominal, reserved, QuotaTrend.STEADY, growth_per_day=per_day)
    slope, level = growth
    fills_at = now + max(0.0, (nominal - level) / slope) * timedelta(milliseconds=step_ms)
    if fills_at > now + HORIZON:
        return QuotaForecast(tenant, flavor, nominal, reserved, QuotaTrend.LATER, growth_per_day=per_day)
    return QuotaForecast(tenant, flavor, nominal, reserved, QuotaTrend.FILLS, fills_at, per_day)


def past_means(holds: Sequence[tuple[int, int, int]], now_ms: int) -> tuple[list[float], int]:
    """Return the mean of each past day, oldest first, or of each hour; and its length in ms.

    The time before the first hold, and the part of a day or hour in which it begins, do not count.
    """
    if not holds:
        return [], DAY_MS
    first_ms = min(begin for begin, _, _ in holds)
    step_ms, most = (DAY_MS, DAYS) if now_ms - first_ms >= LEAST * DAY_MS else (HOUR_MS, _HOURS)
    count = min(most, (now_ms - first_ms) // step_ms)
    start_ms = now_ms - count * step_ms
    sums = [0] * count
    for begin, end, cores in holds:
        at, end = max(begin, start_ms), min(end, now_ms)
        while at < end:
            number = (at - start_ms) // step_ms
            until = min(end, start_ms + (number + 1) * step_ms)
            sums[number] += (until - at) * cores
            at = until
    return [held / step_ms for held in sums], step_ms


def find_growth(means: Sequence[float]) -> tuple[float, float] | None:
    """Return the growth per mean and the level after the last one; None without a clear direction."""
    count = len(means)
    if count < LEAST:
        return None
    pairs = [
        (means[later] - means[earlier], later - earlier)
        for earlier in range(count)
        for later in range(earlier + 1, count)
    ]
    agreement = sum((rise > 0) - (rise < 0) for rise, _ in pairs) / len(pairs)
    if abs(agreement) < _AGREEING:
        return None
    slope = median(rise / length for rise, length in pairs)
    # A mean applies to the middle of its time; the level is that at the end of the last one.
    middle = median(mean - slope * number for number, mean in enumerate(means))
    return slope, middle + slope * (count - 0.5)
