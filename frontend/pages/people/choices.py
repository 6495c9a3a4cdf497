"""The names that pickers suggest while the user types: of users, groups, quotas and tenants."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from frontend.shell.page_shell import get_viewer, login_required
from quotas.selectors.tables.node_names import list_typed_names
from tenants.selectors.tenant import list_unique_names, tenant_find
from tenants.selectors.user import find_named_groups, people_find

_TENANTS_MAX: Final = 20


@require_GET
@login_required
def find_people(request: HttpRequest) -> HttpResponse:
    """Return names that contain `?q=`, of users or with `?kind=group` of groups, that the viewer may see."""
    who, text = get_viewer(request), request.GET.get("q", "").strip()[:150]
    if request.GET.get("kind") == "group":
        items = [{"value": name, "note": ""} for name in find_named_groups(viewer=who, text=text)]
    else:
        items = [{"value": one.username, "note": one.email} for one in people_find(viewer=who, text=text)]
    return JsonResponse({"items": items})


@require_GET
@login_required
def find_quotas(request: HttpRequest) -> HttpResponse:
    """Return tenants and queues whose names contain `?q=` and whose quota the viewer may see."""
    text = request.GET.get("q", "").replace("\x00", "").strip()[:150]
    names = list_typed_names(get_viewer(request), text)
    return JsonResponse({"items": [{"value": typed, "note": name} for typed, name in names]})


@require_GET
@login_required
def find_tenants(request: HttpRequest) -> HttpResponse:
    """Return folders and workspaces in sight whose names or IDs contain `?q=`: by their names, or by their
    IDs if a name is not unique.
    """
    text = request.GET.get("q", "").replace("\x00", "").strip()[:150]
    who = get_viewer(request)
    found = tenant_find(viewer=who, text=text, limit=_TENANTS_MAX)
    names = list_unique_names(viewer=who, tenants=found)
    items = [(t.name, t.slug) if t.name in names else (t.slug, t.name) for t in found]
    return JsonResponse({"items": [{"value": value, "note": note} for value, note in items]})
