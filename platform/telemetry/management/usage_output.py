"""The output of `allotment usage`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError
from rich.table import Table

from foundation.core import clock
from scheduling.metering.node_time import NodeTime
from telemetry.api.usage_serializers import UsageReportSerializer
from telemetry.api.usage_views import report_body
from telemetry.usage.export import COLUMNS, HEADS, NODE_COLUMNS, csv_file, xlsx_file
from telemetry.usage.figures import Figures
from telemetry.usage.grouping import GroupBy
from telemetry.usage.report import UsageReport, report_period, report_tenant, usage_report
from tenants.management.results import USAGE, acting_user, report_refusals, write_json
from tenants.management.verbs import format_table

_FILES: Final = {"csv": csv_file, "xlsx": xlsx_file}


def write_usage(options: dict[str, Any]) -> str:
    """Write the files that the options name and return what standard output shows.

    Raises: CommandError.
    """
    user, now = acting_user(options["user"]), clock.now()
    with report_refusals(""):
        tenant = report_tenant(user, options["tenant"]) if options["tenant"] else None
        period = report_period(options["month"], options["time_zone"], now=now)
        report = usage_report(user, period, group_by=GroupBy(options["by"]), now=now, tenant=tenant)
    for kind, content in _FILES.items():
        if options[kind]:
            _write(options[kind], content(report))
    limit = max(1, options["limit"])
    if options["json"]:
        write_json(options["json"], UsageReportSerializer(report_body(report, limit=limit, offset=0)).data)
    return "" if options["json"] == "-" else format_table(_table(report, limit))


def _write(target: str, content: bytes) -> None:
    try:
        Path(target).write_bytes(content)
    except OSError as error:
        raise CommandError(f"{target}: {error.strerror}", returncode=USAGE) from error


def _table(report: UsageReport, limit: int) -> Table:
    title = f"{report.period.month:%Y-%m} {report.period.zone.key}, GPU-hours, {report.currency}"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column(str(HEADS[report.group_by]), overflow="fold")
    for column in (*COLUMNS, *NODE_COLUMNS):
        table.add_column(str(column.label), justify="right")
    for row in report.rows[:limit]:
        table.add_row(row.name, *_cells(row.figures, row.node_time))
    table.add_row("", *_cells(report.total, report.total_node_time), style="bold")
    return table


def _cells(figures: Figures, time: NodeTime) -> list[str]:
    values = [(column.name, column.value(figures)) for column in COLUMNS]
    values += [(column.name, column.value(time)) for column in NODE_COLUMNS]
    return [
        "–" if value is None else f"{value:,f}" if name == "amount" else f"{value:,.2f}"
        for name, value in values
    ]
