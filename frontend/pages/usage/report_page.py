"""A usage report as a page: the request of the address, the numbers as text, and the links to details."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.core.months import month_after
from frontend.charts.bars import Bars, daily_bars
from frontend.charts.model import Chart
from frontend.components.time_zones import zone_options
from frontend.shell.page_shell import get_viewer
from frontend.texts import formats
from frontend.texts.gpu_hours import format_gpu_hours, format_hours, format_money
from scheduling.metering.node_time import NodeTime
from telemetry.usage.figures import Figures, to_core_hours, to_gib_hours, to_hours
from telemetry.usage.grouping import GroupBy
from telemetry.usage.report import ReportFilter, ReportRow, UsageReport, report_period, usage_report
from tenants.models import Tenant

PER_PAGE: Final = 50
TITLES: Final[dict[GroupBy, str | Promise]] = {
    GroupBy.TENANT: gettext_lazy("Tenant"),
    GroupBy.USER: gettext_lazy("User"),
    GroupBy.QUEUE: gettext_lazy("Queue"),
    GroupBy.POOL: gettext_lazy("Pool"),
    GroupBy.JOB: gettext_lazy("Job"),
}
_CHOICES: Final = {
    GroupBy.TENANT: "workspace",
    GroupBy.USER: "user",
    GroupBy.QUEUE: "queue",
    GroupBy.POOL: "pool",
    GroupBy.JOB: "job",
}
_BELOW: Final = {
    GroupBy.TENANT: GroupBy.USER,
    GroupBy.USER: GroupBy.JOB,
    GroupBy.QUEUE: GroupBy.JOB,
    GroupBy.POOL: GroupBy.JOB,
}


@dataclass(frozen=True, slots=True)
class ReportTableRow:
    """One line of the table; `url` links to its parts."""

    name: str
    note: str
    url: str
    figures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the report, with the address without it."""

    label: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Query:
    """The report that the address asks for; values that cannot be read are ignored."""

    month: str
    zone: str
    group_by: GroupBy
    chosen: dict[str, uuid.UUID]

    def build_address(self, **changes: str) -> str:
        """Return the query of another report; an empty value removes a parameter."""
        parts = {"month": self.month, "time_zone": self.zone, "by": self.group_by.value}
        parts |= {name: str(value) for name, value in self.chosen.items()}
        parts |= changes
        return "?" + urlencode({name: value for name, value in parts.items() if value})


def read_query(request: HttpRequest, default: GroupBy, allowed: Sequence[GroupBy]) -> Query:
    """Read the address; invalid ids and groupings are ignored."""
    text = request.GET.get
    group_by = next((one for one in allowed if one.value == text("by")), default)
    chosen = {}
    for name in _CHOICES.values():
        try:
            chosen[name] = uuid.UUID(text(name, ""))
        except ValueError:
            continue
    return Query(text("month", "")[:7], text("time_zone", "")[:60], group_by, chosen)


def report_context(
    request: HttpRequest, query: Query, *, tenant: Tenant | None, groups: Sequence[GroupBy], export: str
) -> dict[str, Any]:
    """Return everything that a report's page shows. Raises: NotFound, PermissionDenied."""
    now, who, problem = clock.now(), get_viewer(request), ""
    try:
        period = report_period(query.month, query.zone, now=now)
    except Invalid as error:
        problem, query = error.detail, Query("", "", query.group_by, query.chosen)
        period = report_period("", "", now=now)
    query = Query(f"{period.month:%Y-%m}", period.zone.key, query.group_by, query.chosen)
    report = usage_report(
        who, period, group_by=query.group_by, now=now, tenant=tenant, choice=ReportFilter(**query.chosen)
    )
    page = Paginator(report.rows, PER_PAGE).get_page(request.GET.get("page"))
    file = {"month": query.month, "time_zone": query.zone, "group_by": query.group_by.value}
    file |= {name: str(value) for name, value in query.chosen.items()}
    chart = _chart(report)
    return {
        "query": query,
        "problem_text": problem,
        "report": report,
        "page": page,
        "rows": [_row(query, row, report) for row in page.object_list],
        "total": _figures(report.total, report.total_node_time, report),
        "chart": chart if report.total.reserved else None,
        "head": TITLES[query.group_by],
        "groups": [(TITLES[one], query.build_address(by=one.value), one == query.group_by) for one in groups],
        "filters": _filters(query, report),
        "earlier": query.build_address(month=f"{period.month - timedelta(days=1):%Y-%m}"),
        "later": _later(query, period.month, now.astimezone(period.zone).date()),
        "zones": zone_options(),
        "csv": f"{export}?{urlencode(file | {'type': 'csv'})}",
        "xlsx": f"{export}?{urlencode(file | {'type': 'xlsx'})}",
        "unpriced": report.total.unpriced > 0,
        "share": _shares(report.total),
    }


def _later(query: Query, month: date, today: date) -> str:
    following = month_after(month)
    return query.build_address(month=f"{following:%Y-%m}") if following <= today else ""


def _row(query: Query, row: ReportRow, report: UsageReport) -> ReportTableRow:
    if report.group_by == GroupBy.JOB:
        url = reverse("frontend:job-detail", args=[row.slug, row.key]) if row.slug else ""
    else:
        chosen = {_CHOICES[report.group_by]: str(row.key)}
        url = query.build_address(by=_BELOW[report.group_by].value, **chosen)
    return ReportTableRow(row.name, row.note, url, _figures(row.figures, row.node_time, report))


def _figures(figures: Figures, time: NodeTime, report: UsageReport) -> dict[str, str]:
    """Return the figures as text; unknown ones are a dash."""
    known = bool(figures.measured) or not figures.reserved
    return {
        "reserved": format_gpu_hours(figures.reserved),
        "used": format_gpu_hours(figures.used) if known else formats.MISSING,
        "idle": format_gpu_hours(figures.idle) if known else formats.MISSING,
        "unmeasured": format_gpu_hours(figures.unmeasured),
        "borrowed": format_gpu_hours(figures.borrowed),
        "lost": format_gpu_hours(figures.lost),
        "billed": format_gpu_hours(figures.billed),
        "rate": format_money(figures.cost_per_gpu_hour, report.digits),
        "amount": format_money(figures.amount, report.digits),
        "cpu": format_hours(to_core_hours(time.cpu)),
        "memory": format_hours(to_gib_hours(time.memory)),
    }


def _shares(total: Figures) -> dict[str, str]:
    """Return percentages of the reserved time, and for use of the measured time."""

    def format_share(part: int, whole: int) -> str:
        return formats.format_percent(100 * part / whole, 1) if whole else formats.MISSING

    return {
        "used": format_share(total.used, total.measured),
        "idle": format_share(total.idle, total.measured),
        "unmeasured": format_share(total.unmeasured, total.reserved),
        "borrowed": format_share(total.borrowed, total.reserved),
        "lost": format_share(total.lost, total.reserved),
    }


def _chart(report: UsageReport) -> Chart:
    days = [day for day, _figures_of_day in report.days]
    figures = [of_day for _day, of_day in report.days]

    def list_values(name: str, *, measured: bool) -> list[float | None]:
        return [
            float(to_hours(getattr(one, name))) if one.reserved and (one.measured or not measured) else None
            for one in figures
        ]

    parts = [
        Bars(name=_("Used"), values=list_values("used", measured=True), color="used"),
        Bars(name=_("Unused"), values=list_values("idle", measured=True), color="allocated"),
        Bars(name=_("Unmeasured"), values=list_values("unmeasured", measured=False), color="series-8"),
    ]
    return daily_bars("usage-days", days, parts, unit=_("GPU-hours"), title=_("Reserved GPU-hours per day"))


def _filters(query: Query, report: UsageReport) -> list[Filter]:
    """Return the filters with names from the report's rows, which contain only what is in sight."""
    return [
        Filter(str(TITLES[group_by]), report.chosen_names.get(name, str(query.chosen[name])[:8]),
               query.build_address(**{name: "", "by": group_by.value}))
        for group_by, name in _CHOICES.items()
        if name in query.chosen
    ]  # fmt: skip
