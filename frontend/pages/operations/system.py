"""The platform itself: the state of its parts, its database, its deliveries, and its versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from clusters.selectors.cell import cell_list
from foundation.monitoring.health import CheckResult
from foundation.monitoring.system_report import SystemReport, describe_system
from frontend.pages.operations.branding import change_branding, make_form
from frontend.pages.setup.clusters import HEALTH
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from frontend.texts import formats
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_BYTES_PER_MIB: Final = 1 << 20
_PARTS: Final[dict[str, str | Promise]] = {
    "database": gettext_lazy("Database"),
    "migrations": gettext_lazy("Database schema"),
    "broker": gettext_lazy("Message broker"),
    "relay": gettext_lazy("Message relay"),
    "worker": gettext_lazy("Worker"),
    "cycle": gettext_lazy("Scheduling cycles"),
    "installation": gettext_lazy("Setup"),
    "audit": gettext_lazy("Audit log"),
}


@dataclass(frozen=True, slots=True)
class PartLine:
    """One part of the platform. `last_work` is the time of its last finished work, where that is recorded."""

    key: str
    title: str
    check: CheckResult
    last_work: datetime | None


@operator_required
def show_system(request: HttpRequest) -> HttpResponse:
    """Render the page; POST sets the name and logo of the installation."""
    who, refused = get_viewer(request), None
    if request.method == "POST":
        permissions.require_permission(who, Permission.CLUSTER_EDIT)
        refused = change_branding(request)
        if refused is None:
            return redirect("frontend:ops-system")
    set_frame(request, label=_("System"), trail=_("Operations"))
    may_edit = permissions.has_permission(who, Permission.CLUSTER_EDIT)
    page = {**_facts(who), "branding_form": (refused or make_form()) if may_edit else None}
    return render(request, "frontend/operations/system.html", page, status=400 if refused else 200)


@require_GET
@operator_required
def system_live(request: HttpRequest) -> HttpResponse:
    """Show the content alone."""
    return render(request, "frontend/operations/system_live.html", _facts(get_viewer(request)))


def _facts(who: User) -> dict[str, Any]:
    report = describe_system()
    unreachable = _("Unreachable"), "failed"
    failed = sum(not check.ok for check in report.checks)
    return {
        "report": report,
        "parts": [_part(check, report) for check in report.checks],
        "failed": failed,
        "passed": len(report.checks) - failed,
        "cells": [
            (cell, [(one, *HEALTH.get(one.health, unreachable)) for one in cell.clusters.all()])
            for cell in cell_list(viewer=who)
        ],
        "size": formats.format_memory(report.database.size / _BYTES_PER_MIB),
        "sign_on": bool(settings.SOCIALACCOUNT_PROVIDERS),
        "mail": settings.EMAIL_HOST,
        "metrics": bool(settings.ALLOTMENT_METRICS_TOKEN) or bool(settings.ALLOTMENT_EMBEDDED),
    }


def _part(check: CheckResult, report: SystemReport) -> PartLine:
    title = _PARTS.get(check.name, check.name)
    return PartLine(check.name, str(title), check, report.last_work.get(check.name))
