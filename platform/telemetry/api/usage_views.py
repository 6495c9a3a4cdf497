"""Usage reports of a workspace and of the platform, as JSON and as files."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from foundation.core.months import from_ms
from scheduling.metering.node_time import NodeTime
from telemetry.api.usage_serializers import (
    ExportQuery,
    PlatformExportQuery,
    PlatformReportPageQuery,
    ReportPageQuery,
    UsageReportSerializer,
)
from telemetry.usage.export import COLUMNS, MONEY, NODE_COLUMNS, csv_file, xlsx_file
from telemetry.usage.figures import Figures
from telemetry.usage.grouping import GroupBy
from telemetry.usage.report import ReportFilter, UsageReport, report_period, report_tenant, usage_report
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.query import read_query
from tenants.api.responses.schema import problem_responses
from tenants.api.responses.streams import AnyAccept
from tenants.models import Tenant, User

XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_FILES: Final = {
    (200, "text/csv"): OpenApiTypes.STR,
    (200, XLSX): OpenApiTypes.BINARY,
    **problem_responses(400, 404),
}
_RULES: Final = (
    "Exact to the millisecond from allocations as of `read_at`, until which running jobs count: now, or up "
    "to two minutes ago for all tenants and for large workspaces. A slice reserves its share of compute and "
    "is billed for the larger one of its shares of compute and GPU memory. The amount is rounded once per "
    "job and pool; all other amounts are sums of these. Requires `job.view`."
)


def _report(viewer: User, query: dict[str, Any], tenant: Tenant | None, default: GroupBy) -> UsageReport:
    now = clock.now()
    return usage_report(
        viewer,
        report_period(query["month"], query["time_zone"], now=now),
        group_by=GroupBy(query.get("group_by", default)),
        now=now,
        tenant=tenant,
        choice=ReportFilter(
            workspace=query.get("workspace"),
            user=query.get("user"),
            queue=query.get("queue"),
            pool=query.get("pool"),
            job=query.get("job"),
        ),
    )


def figures_body(figures: Figures) -> dict[str, Any]:
    """Return the figures by their names: hours as numbers, money as texts."""
    body: dict[str, Any] = {}
    for column in COLUMNS:
        value = column.value(figures)
        is_money = column.name in MONEY
        body[column.name] = None if value is None else f"{value:f}" if is_money else float(value)
    return body


def row_body(figures: Figures, time: NodeTime) -> dict[str, Any]:
    """Return the figures of a row with its CPU and memory."""
    return figures_body(figures) | {column.name: float(column.value(time)) for column in NODE_COLUMNS}


def report_body(report: UsageReport, *, limit: int, offset: int) -> dict[str, Any]:
    """Return a report with one page of its rows."""
    period, rows = report.period, report.rows[offset : offset + limit]
    following = offset + len(rows)
    return {
        "month": f"{period.month:%Y-%m}",
        "time_zone": period.zone.key,
        "start": from_ms(period.start_ms),
        "end": from_ms(period.end_ms),
        "read_at": report.read_at,
        "measured_until": report.measured_until,
        "currency": report.currency,
        "group_by": report.group_by,
        "total": row_body(report.total, report.total_node_time),
        "days": [{"day": day, **figures_body(figures)} for day, figures in report.days],
        "rows": [
            {"id": row.key, "name": row.name, "belongs_to": row.note, **row_body(row.figures, row.node_time)}
            for row in rows
        ],
        "row_count": len(report.rows),
        "next": following if rows and following < len(report.rows) else None,
    }


def _page(report: UsageReport, query: dict[str, Any]) -> Response:
    body = report_body(report, limit=query["limit"], offset=query["offset"])
    return Response(UsageReportSerializer(body).data)


def _file(report: UsageReport, kind: str) -> HttpResponse:
    content, media = (
        (csv_file(report), "text/csv; charset=utf-8") if kind == "csv" else (xlsx_file(report), XLSX)
    )
    name = f"usage-{report.period.month:%Y-%m}-{report.group_by}.{kind}"
    return HttpResponse(
        content, content_type=media, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


class WorkspaceUsageReportView(WorkspaceView):
    """A month of usage of a workspace."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}

    @extend_schema(
        operation_id="usage_report",
        summary="Usage and cost of a workspace in a month",
        description=_RULES,
        parameters=[ReportPageQuery],
        responses={200: UsageReportSerializer, **problem_responses(400, 404)},
        tags=["usage"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return the report with one page of its rows."""
        query = read_query(request, ReportPageQuery)
        return _page(_report(self.viewer, query, self.workspace, GroupBy.USER), query)


class WorkspaceUsageExportView(WorkspaceView):
    """A month of usage of a workspace as a file."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="usage_export",
        summary="Usage and cost of a workspace as CSV or XLSX",
        parameters=[ExportQuery],
        responses=_FILES,
        tags=["usage"],
    )
    def get(self, request: Request, ws: str) -> HttpResponse:
        """Return the file with all rows."""
        query = read_query(request, ExportQuery)
        return _file(_report(self.viewer, query, self.workspace, GroupBy.USER), query["type"])


class AdminUsageReportView(PlatformView):
    """A month of usage of all tenants in sight."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}

    @extend_schema(
        operation_id="admin_usage_report",
        summary="Usage and cost of all tenants that you can view in a month",
        description=_RULES,
        parameters=[PlatformReportPageQuery],
        responses={200: UsageReportSerializer, **problem_responses(400, 404)},
        tags=["usage"],
    )
    def get(self, request: Request) -> Response:
        """Return the report with one page of its rows."""
        query = read_query(request, PlatformReportPageQuery)
        return _page(_report(self.viewer, query, self._tenant(query), GroupBy.TENANT), query)

    def _tenant(self, query: dict[str, Any]) -> Tenant | None:
        return report_tenant(self.viewer, query["tenant"]) if "tenant" in query else None


class AdminUsageExportView(AdminUsageReportView):
    """A month of usage of all tenants in sight as a file."""

    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="admin_usage_export",
        summary="Usage and cost of all tenants that you can view as CSV or XLSX",
        parameters=[PlatformExportQuery],
        responses=_FILES,
        tags=["usage"],
    )
    def get(self, request: Request) -> HttpResponse:  # type: ignore[override]
        """Return the file with all rows."""
        query = read_query(request, PlatformExportQuery)
        return _file(_report(self.viewer, query, self._tenant(query), GroupBy.TENANT), query["type"])
