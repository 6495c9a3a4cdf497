"""The usage and cost of all tenants in sight."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from foundation.sql import row_scope
from frontend.pages.usage.report_page import read_query, report_context
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from telemetry.usage.grouping import GroupBy
from tenants.access import permissions
from tenants.access.permissions import Permission

_GROUPS: Final = tuple(GroupBy)


@require_GET
@login_required
@row_scope.read_transaction()
def platform_usage(request: HttpRequest) -> HttpResponse:
    """Show the report of a month, of all tenants whose jobs the viewer may see."""
    set_frame(request, label=_("Usage reports"), trail=_("Operations"))
    query = read_query(request, GroupBy.TENANT, _GROUPS)
    export = reverse("admin-usage-export")
    context = report_context(request, query, tenant=None, groups=_GROUPS, export=export)
    prices = permissions.has_permission(get_viewer(request), Permission.CLUSTER_VIEW)
    return render(request, "frontend/usage/report.html", context | {"prices_shown": prices})
