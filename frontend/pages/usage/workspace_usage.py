"""The usage and cost of one workspace."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from foundation.sql import row_scope
from frontend.pages.usage.report_page import read_query, report_context
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from telemetry.usage.grouping import GroupBy
from tenants.selectors.tenant import workspace_get

_GROUPS: Final = (GroupBy.USER, GroupBy.QUEUE, GroupBy.POOL, GroupBy.JOB)


@require_GET
@login_required
@row_scope.read_transaction()
def workspace_usage(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the report of a month."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    query = read_query(request, GroupBy.USER, _GROUPS)
    query.chosen.pop("workspace", None)
    export = reverse("usage-export", args=[place.slug])
    context = report_context(request, query, tenant=place, groups=_GROUPS, export=export)
    return render(request, "frontend/usage/report.html", context | {"place": place})
