"""Adds up slow reports ahead of requests: see `StoredReport`."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from scheduling.metering.node_time import NodeTimeRow, node_time_rows, sum_node_times
from scheduling.metering.usage_rows import UsageRow, usage_rows
from telemetry.models import StoredReport
from telemetry.usage.accounting import Account, MeasuredDay, account_month
from telemetry.usage.grouping import GroupBy
from telemetry.usage.periods import Period, month_period, read_zone
from telemetry.usage.prices import read_rates
from telemetry.usage.record_measured import measured_until
from telemetry.usage.report import ROW_KEYS, ReportFilter, read_measured
from telemetry.usage.stored_reports import MIN_INTERVALS, STORED, to_numbers


def store_reports(*, now: datetime) -> int:
    """Store the reports of this month and the last one in the time zone of reports; return how many.

    Each is added up again, so it includes late metrics and runs, and deleted jobs, like a report that is read
    now. Safe to run concurrently: either result is right as of its time.
    """
    zone = read_zone(settings.ALLOTMENT_REPORT_TIME_ZONE)
    this = now.astimezone(zone).date().replace(day=1)
    months = ((this - timedelta(days=1)).replace(day=1), this)
    reports = [report for month in months for report in _add_up(month_period(month, zone), now)]
    with transaction.atomic():
        StoredReport.unscoped.all().delete()
        StoredReport.unscoped.bulk_create(reports, batch_size=100)
    return len(reports)


def _add_up(period: Period, now: datetime) -> Iterator[StoredReport]:
    until = measured_until()
    times: defaultdict[uuid.UUID | None, list[NodeTimeRow]] = defaultdict(list)
    keys = [ROW_KEYS[group_by] for group_by in STORED]
    for row in node_time_rows(period.start_ms, period.end_ms, keys, now=now):
        times[None].append(row)
        times[row.keys[STORED.index(GroupBy.TENANT)]].append(row)
    for workspace_id, account in _accounts(period, now):
        here = times[workspace_id]
        for at, group_by in enumerate(STORED):
            lines = account.sum_by(ROW_KEYS[group_by])
            yield StoredReport(
                workspace_id=workspace_id,
                month=period.month,
                time_zone=period.zone.key,
                group_by=group_by,
                digits=account.digits,
                read_at=now,
                measured_until=until,
                rows={str(key): to_numbers(line.figures, account.digits) for key, line in lines.items()},
                days=[to_numbers(figures, account.digits) for figures in account.days],
                node_times={str(key): time for key, time in sum_node_times(here, at).items()},
            )


def _accounts(period: Period, now: datetime) -> Iterator[tuple[uuid.UUID | None, Account]]:
    """Yield the account of the platform, without an id, and those of large workspaces."""
    rows = list(usage_rows(period.start_ms, period.end_ms, now=now))
    measured = list(read_measured(period, None, ReportFilter()))
    rates, digits = read_rates(), settings.ALLOTMENT_CURRENCY_DIGITS
    yield None, account_month(period, rows, measured, rates, digits=digits)
    by_workspace: defaultdict[uuid.UUID, list[UsageRow]] = defaultdict(list)
    for row in rows:
        by_workspace[row.workspace_id].append(row)
    workspaces = {row.job_id: row.workspace_id for row in rows}
    measured_in: defaultdict[uuid.UUID | None, list[MeasuredDay]] = defaultdict(list)
    for one in measured:
        measured_in[workspaces.get(one.job_id)].append(one)
    for workspace_id, of_workspace in by_workspace.items():
        if len(of_workspace) >= MIN_INTERVALS:
            of_jobs = measured_in[workspace_id]
            yield workspace_id, account_month(period, of_workspace, of_jobs, rates, digits=digits)
