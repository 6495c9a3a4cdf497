"""The usage report of a month, for users who may see the jobs of the workspaces in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.sql.plain_rows import read_id, read_plain
from scheduling.metering.node_time import NO_TIME, NodeTime, node_time_rows, sum_node_times
from scheduling.metering.usage_rows import usage_rows
from telemetry.models import MeasuredUse, StoredReport
from telemetry.usage.accounting import DAY_MS, Account, MeasuredDay, account_month
from telemetry.usage.figures import Figures
from telemetry.usage.grouping import GroupBy
from telemetry.usage.names import Names, key_names, row_names
from telemetry.usage.periods import Period, month_period, read_month, read_zone
from telemetry.usage.prices import read_rates
from telemetry.usage.record_measured import measured_until
from telemetry.usage.stored_reports import read_days, read_node_times, read_rows, read_stored_report
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind

ROW_KEYS: Final = {
    GroupBy.TENANT: "workspace_id",
    GroupBy.USER: "user_id",
    GroupBy.QUEUE: "queue_id",
    GroupBy.POOL: "flavor_id",
    GroupBy.JOB: "job_id",
}


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """The conditions of a report: ids of one workspace, user, queue, pool and job, or None."""

    workspace: uuid.UUID | None = None
    user: uuid.UUID | None = None
    queue: uuid.UUID | None = None
    pool: uuid.UUID | None = None
    job: uuid.UUID | None = None

    def build_conditions(self) -> dict[str, list[uuid.UUID]]:
        """Return the conditions on intervals."""
        named = {"user_id": self.user, "queue_id": self.queue, "flavor_id": self.pool, "job_id": self.job}
        return {name: [value] for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row: `key` is an id of its kind, `name` the name for users, `slug` its workspace.

    `note` adds the place: the workspace of a queue or job, the cluster of a pool.
    """

    key: uuid.UUID
    name: str
    figures: Figures
    note: str = ""
    slug: str = ""
    node_time: NodeTime = NO_TIME


@dataclass(frozen=True, slots=True)
class UsageReport:
    """A month of usage as of `read_at`. The amounts of `rows` add up to that of `total` in every
    grouping.
    """

    period: Period
    group_by: GroupBy
    rows: Sequence[ReportRow]
    total: Figures
    days: Sequence[tuple[date, Figures]]
    currency: str
    digits: int
    read_at: datetime
    measured_until: datetime | None
    chosen_names: Mapping[str, str]

    @property
    def total_node_time(self) -> NodeTime:
        """The CPU and memory of all rows."""
        times = [row.node_time for row in self.rows]
        return NodeTime(sum(time.cpu for time in times), sum(time.memory for time in times))


def report_period(month: str, zone: str, *, now: datetime) -> Period:
    """Read the month and the time zone of a report; the defaults are the present month and the settings'.

    Raises: Invalid.
    """
    where = read_zone(zone or settings.ALLOTMENT_REPORT_TIME_ZONE)
    return month_period(read_month(month, today=now.astimezone(where).date()), where)


def report_tenant(viewer: Actor, slug: str) -> Tenant:
    """Return a tenant by its slug. Raises: NotFound if no visible tenant has it; PermissionDenied."""
    found = Tenant.unscoped.filter(slug=slug).select_related("parent").first()
    if found is None:
        raise NotFound(_("Tenant %(name)s not found, or you can't view it.") % {"name": slug})
    permissions.require_permission(viewer, Permission.JOB_VIEW, found)
    return found


def report_tenants(viewer: Actor, tenant: Tenant | None = None) -> QuerySet[Tenant] | None:
    """Return the workspaces whose usage a viewer may read; None for all of the platform.

    Raises: NotFound, PermissionDenied for a `tenant` whose jobs the viewer may not see.
    """
    if tenant is not None:
        permissions.require_permission(viewer, Permission.JOB_VIEW, tenant)
        return Tenant.unscoped.filter(path__startswith=tenant.path)
    if permissions.has_permission(viewer, Permission.JOB_VIEW):
        return None
    return permissions.tenants_with(viewer, Permission.JOB_VIEW)


def usage_report(
    viewer: Actor,
    period: Period,
    *,
    group_by: GroupBy,
    now: datetime,
    tenant: Tenant | None = None,
    choice: ReportFilter = ReportFilter(),
) -> UsageReport:
    """Return a month of the usage that the viewer may see, of a `tenant` with all below it, or of all.

    A fresh stored report is used if there is one. Raises: NotFound, PermissionDenied.
    """
    tenants = report_tenants(viewer, tenant)
    stored = _find_stored(period, group_by, tenants, choice, now=now)
    if stored is not None:
        times = read_node_times(stored)
        if times is None:
            times = load_node_times(period, tenants, choice, group_by, now=now)
        return _restore_report(stored, period, group_by, choice, times)
    found = load_account(period, tenants, choice, now=now)
    lines = found.sum_by(ROW_KEYS[group_by])
    times = load_node_times(period, tenants, choice, group_by, now=now)
    return UsageReport(
        period=period,
        group_by=group_by,
        rows=_rows(
            {key: line.figures for key, line in lines.items()}, row_names(group_by, lines), group_by, times
        ),
        total=found.sum_total(),
        days=list(zip(period.days, found.days, strict=True)),
        currency=settings.ALLOTMENT_CURRENCY,
        digits=settings.ALLOTMENT_CURRENCY_DIGITS,
        read_at=now,
        measured_until=measured_until(),
        chosen_names=_chosen_names(found, choice),
    )


def _chosen_names(found: Account, choice: ReportFilter) -> dict[str, str]:
    """Return the names of the filtered subjects, from the rows found: other names are not revealed."""
    wanted = {
        "workspace": (GroupBy.TENANT, choice.workspace),
        "user": (GroupBy.USER, choice.user),
        "queue": (GroupBy.QUEUE, choice.queue),
        "pool": (GroupBy.POOL, choice.pool),
        "job": (GroupBy.JOB, choice.job),
    }
    first = found.first_line()
    return {
        name: row_names(group_by, {key: first})[key].name
        for name, (group_by, key) in wanted.items()
        if key is not None and first is not None
    }


def load_account(
    period: Period, tenants: QuerySet[Tenant] | None, choice: ReportFilter, *, now: datetime
) -> Account:
    """Read a month and add it up. The caller has checked the viewer's permission."""
    if choice.workspace is not None:
        tenants = (Tenant.unscoped.all() if tenants is None else tenants).filter(pk=choice.workspace)
    rows = usage_rows(
        period.start_ms, period.end_ms, now=now, workspaces=tenants, **choice.build_conditions()
    )
    measured = read_measured(period, tenants, choice)
    digits: int = settings.ALLOTMENT_CURRENCY_DIGITS
    return account_month(period, rows, measured, read_rates(), digits=digits)


def load_node_times(
    period: Period,
    tenants: QuerySet[Tenant] | None,
    choice: ReportFilter,
    group_by: GroupBy,
    *,
    now: datetime,
) -> Mapping[uuid.UUID, NodeTime]:
    """Read the CPU and memory of a month. The caller has checked the viewer's permission."""
    only = choice.build_conditions()
    if choice.workspace is not None:
        only["workspace_id"] = [choice.workspace]
    by = [ROW_KEYS[group_by]]
    return sum_node_times(
        node_time_rows(period.start_ms, period.end_ms, by, now=now, workspaces=tenants, **only)
    )


def read_measured(
    period: Period, tenants: QuerySet[Tenant] | None, choice: ReportFilter
) -> Iterator[MeasuredDay]:
    """Yield the measured use of a month. The caller has checked the viewer's permission."""
    rows = MeasuredUse.unscoped.filter(
        day__gte=period.start_ms // DAY_MS, day__lte=(period.end_ms - 1) // DAY_MS
    )
    if tenants is not None:
        rows = rows.filter(workspace_id__in=tenants.values("pk"))
    if choice.job is not None:
        rows = rows.filter(job_id=choice.job)
    if choice.pool is not None:
        rows = rows.filter(flavor_id=choice.pool)
    columns = rows.order_by().values_list("job_id", "flavor_id", "day", "measured", "used")
    for job, flavor, day, measured, used in read_plain(columns):
        yield MeasuredDay(read_id(job), read_id(flavor), day, bytes(measured), bytes(used))


def _find_stored(
    period: Period,
    group_by: GroupBy,
    tenants: QuerySet[Tenant] | None,
    choice: ReportFilter,
    *,
    now: datetime,
) -> StoredReport | None:
    """Return the stored report of all tenants or of one workspace, if it is fresh and has no other filter."""
    workspace_id = choice.workspace
    if replace(choice, workspace=None) != ReportFilter():
        return None
    if tenants is not None:
        workspaces = tenants.filter(kind=TenantKind.WORKSPACE)
        if workspace_id is not None:
            workspaces = workspaces.filter(pk=workspace_id)
        seen = list(workspaces.order_by().values_list("pk", flat=True)[:2])
        if len(seen) != 1:
            return None
        workspace_id = seen[0]
    return read_stored_report(period, group_by, workspace_id=workspace_id, now=now)


def _restore_report(
    stored: StoredReport,
    period: Period,
    group_by: GroupBy,
    choice: ReportFilter,
    times: Mapping[uuid.UUID, NodeTime],
) -> UsageReport:
    """Return the stored report with the present names."""
    figures, total = read_rows(stored), Figures()
    for one in figures.values():
        total.add_figures(one)
    return UsageReport(
        period=period,
        group_by=group_by,
        rows=_rows(figures, key_names(group_by, figures), group_by, times),
        total=total,
        days=list(zip(period.days, read_days(stored), strict=True)),
        currency=settings.ALLOTMENT_CURRENCY,
        digits=stored.digits,
        read_at=stored.read_at,
        measured_until=stored.measured_until,
        chosen_names=_name_workspace(choice.workspace),
    )


def _name_workspace(workspace_id: uuid.UUID | None) -> dict[str, str]:
    if workspace_id is None:
        return {}
    return {"workspace": key_names(GroupBy.TENANT, [workspace_id])[workspace_id].name}


def _rows(
    figures: Mapping[uuid.UUID, Figures],
    names: Names,
    group_by: GroupBy,
    times: Mapping[uuid.UUID, NodeTime],
) -> list[ReportRow]:
    """Return the rows, including those without GPUs, which held CPU and memory alone."""
    alone = times.keys() - figures.keys()
    named = names | (key_names(group_by, alone) if alone else {})
    every = {**figures, **{key: Figures() for key in alone}}
    found = [
        ReportRow(key, figures=of, node_time=times.get(key, NO_TIME), **named[key]._asdict())
        for key, of in every.items()
    ]
    return sorted(found, key=lambda row: (-row.figures.reserved, row.name, str(row.key)))
