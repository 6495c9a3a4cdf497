"""The GPUs that a workspace held in the last days: means by pool, and GPU time by user."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from foundation.core.actor import Actor
from foundation.core.months import from_ms, to_ms
from scheduling.metering.usage_rows import usage_rows
from telemetry.usage.accounting import Account, account_month
from telemetry.usage.grouping import GroupBy
from telemetry.usage.names import key_names
from telemetry.usage.periods import Period
from telemetry.usage.report import ReportFilter, read_measured
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

RANGES: Final = (timedelta(hours=24), timedelta(days=7), timedelta(days=30))
"""The ranges of the means; the last one is also that of the GPU time of users."""
_ZONE: Final = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class RecentMean:
    """The mean of a range: `allocated` in percent points of a GPU, `utilization` in percent of the measured
    GPU time; None without measurements."""

    allocated: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class UserUse:
    """A user with the compute that their jobs hold now, in percent points of a GPU, and their GPU time in
    percent points times milliseconds."""

    name: str
    held: int
    core_ms: int


@dataclass(frozen=True, slots=True)
class RecentUse:
    """The recent use of a workspace. `means` has one per `RANGES` by flavor, since the workspace exists;
    `users` are ordered by their GPU time. `since` is the begin of the longest range if the workspace is
    younger."""

    means: Mapping[uuid.UUID, Sequence[RecentMean]]
    users: Sequence[UserUse]
    core_ms: int
    since: datetime | None


def recent_use(viewer: Actor, workspace: Tenant, *, now: datetime) -> RecentUse:
    """Return the recent use of a workspace, from two reads. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    here = Tenant.unscoped.filter(pk=workspace.pk)
    longest = _period(now, RANGES[-1])
    rows = list(usage_rows(longest.start_ms, longest.end_ms, now=now, workspaces=here))
    measured = list(read_measured(longest, here, ReportFilter()))
    accounts = [account_month(_period(now, length), rows, measured, {}, digits=0) for length in RANGES]
    users = accounts[-1].sum_by("user_id")
    held: Counter[uuid.UUID] = Counter()
    for row in rows:
        if row.end_ms >= longest.end_ms:
            held[row.user_id] += row.cores
    names = key_names(GroupBy.USER, users)
    # Use before the workspace existed is unknown, and not 0.
    begin_ms = min([to_ms(workspace.created_at), *(row.begin_ms for row in rows)])
    found = [UserUse(names[key].name, held[key], line.figures.reserved) for key, line in users.items()]
    return RecentUse(
        means=_means(accounts, begin_ms),
        users=sorted(found, key=lambda one: (-one.core_ms, one.name)),
        core_ms=accounts[-1].sum_total().reserved,
        since=from_ms(begin_ms) if begin_ms > longest.start_ms else None,
    )


def _period(now: datetime, length: timedelta) -> Period:
    end_ms = to_ms(now)
    start_ms = end_ms - round(length / timedelta(milliseconds=1))
    return Period(now.astimezone(UTC).date(), _ZONE, (start_ms, end_ms))


def _means(accounts: Sequence[Account], begin_ms: int) -> dict[uuid.UUID, list[RecentMean]]:
    sums = [account.sum_by("flavor_id") for account in accounts]
    found: dict[uuid.UUID, list[RecentMean]] = {}
    for flavor in sums[-1]:
        means = found[flavor] = []
        for account, lines in zip(accounts, sums, strict=True):
            length = max(1, account.period.end_ms - max(account.period.start_ms, begin_ms))
            figures = lines[flavor].figures if flavor in lines else None
            share = None if figures is None or not figures.measured else figures.used / figures.measured
            means.append(
                RecentMean(
                    allocated=0.0 if figures is None else figures.reserved / length,
                    utilization=None if share is None else 100 * share,
                )
            )
    return found
