"""The quota of a tenant with its children, for admins who divide it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Cell, Flavor
from foundation.core.errors import NotFound
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from frontend.components import view_models
from frontend.pages.quotas.form import Typed, form_of
from frontend.pages.quotas.history import history_entry
from frontend.pages.quotas.rows import TITLES, Links, pool_tables
from frontend.pages.quotas.tree_use import TableUse
from frontend.pages.setup.uninitialized import show_uninitialized
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import QuotaNode
from quotas.selectors.changes.quota_history import quota_history
from quotas.selectors.limits.pool_limits import PoolLimits, pool_limits
from quotas.selectors.pools.flavor import list_flavors
from quotas.selectors.tables.quota_table import NodeQuota, quota_nodes, tenant_get, tenant_quota_table
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import tenant_topmost, tenants_above

PER_PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class Open:
    """The form that is open below its table."""

    limits: PoolLimits
    typed: Typed

    @property
    def node(self) -> QuotaNode:
        """The node whose limits are edited."""
        return self.limits.node

    @property
    def flavor(self) -> Flavor:
        """The pool."""
        return self.limits.flavor


@require_GET
@login_required
@row_scope.read_transaction()
def ops_quotas(request: HttpRequest) -> HttpResponse:
    """Show a tenant's quota with its children; `?tenant=` names it, by default the topmost one in sight."""
    who = get_viewer(request)
    slug = request.GET.get("tenant", "").replace("\x00", "")
    topmost = None if slug else tenant_topmost(viewer=who)
    if not slug and topmost is None:
        if page := show_uninitialized(request, _("Quotas"), _("Operations")):
            return page
        raise NotFound
    return render_page(request, tenant_get(who, topmost.slug if topmost else slug))


def render_page(
    request: HttpRequest, tenant: Tenant, opened: Open | None = None, refusal: str = "", status: int = 200
) -> HttpResponse:
    """Render the page with a refused form, or without a form unless the address opens one."""
    set_frame(request, label=_("Quotas"), trail=tenant.name)
    nodes = read_nodes(request, tenant, [resource_of(request)])
    found = quota_context(request, tenant, nodes, opened, refusal, ops=True)
    return render(request, "frontend/quotas/quotas.html", found, status=status)


def resource_of(request: HttpRequest) -> Resource:
    """Return the resource that `?resource=` names; compute for any other text."""
    word = request.GET.get("resource", "")
    return Resource(word) if word in {item.value for item in TITLES} else Resource.GPU_CORES


def resource_word(resource: Resource) -> str:
    """Return the resource as a value of the address; empty for compute, which is the default."""
    return "" if resource is Resource.GPU_CORES else resource.value


def read_nodes(request: HttpRequest, tenant: Tenant, resources: Collection[Resource]) -> list[NodeQuota]:
    """Return the tenant and its children in the cell that `?cell=` names, by default in its first one."""
    who = get_viewer(request)
    cells = _cells(who, tenant)
    cell = next((c for c in cells if c.name == request.GET.get("cell")), cells[0] if cells else None)
    return tenant_quota_table(who, tenant, cell, resources) if cell else []


def quota_context(
    request: HttpRequest,
    tenant: Tenant,
    nodes: Sequence[NodeQuota],
    opened: Open | None = None,
    refusal: str = "",
    *,
    ops: bool,
) -> dict[str, Any]:
    """Return the tables of one resource with the open form, and the change history."""
    who, resource = get_viewer(request), resource_of(request)
    form = opened or (_asked(request, nodes) if ops else None)
    # The tenant's own quota is decided above it, that of its children by its own admins.
    above, divides = (
        permissions.has_permission(who, Permission.QUOTA_EDIT, of) for of in (tenant.parent, tenant)
    )

    def may_edit(node: NodeQuota) -> bool:
        return ops and (above if node.node.tenant_id == tenant.pk and not node.queue else divides)

    links = Links(
        open=lambda node: "" if node.queue else _address(ops, node.node.tenant, resource),
        edit=lambda node, flavor: _edit_address(tenant, node, flavor, resource) if may_edit(node) else "",
    )
    editing = (form.node.pk, form.flavor.pk) if form else None
    history = Paginator(quota_history(who, tenant), PER_PAGE).get_page(request.GET.get("page"))
    return {
        "tenant": tenant,
        "workspace": tenant,
        "ops": ops,
        "crumbs": _crumbs(who, tenant, resource) if ops else (),
        "chips": [
            view_models.Chip(label=str(title), value=resource_word(item)) for item, title in TITLES.items()
        ],
        "resource": resource_word(resource),
        "pools": pool_tables(nodes, resource, links, TableUse(who, tenant, resource), editing),
        "form": form,
        "refusal": refusal,
        "page": history,
        "revisions": [history_entry(who, revision) for revision in history],
        "limits_locked": bool(form and form.node.is_queue and not above),
        "gpu_pool": bool(form and form.flavor.card_model),
        "back": {"next": _address(ops, tenant, resource)},
    }


def _cells(who: User, tenant: Tenant) -> list[Cell]:
    return list({node.cell_id: node.cell for node in quota_nodes(who, tenant)}.values())


def _asked(request: HttpRequest, nodes: Sequence[NodeQuota]) -> Open | None:
    """Return the form that `?edit=<node>&flavor=<id>` opens, if both are on the page."""
    for node in nodes:
        if str(node.node.pk) != request.GET.get("edit"):
            continue
        for flavor in list_flavors([node.node.cell_id]):
            if str(flavor.pk) == request.GET.get("flavor"):
                found = pool_limits(get_viewer(request), node.node, flavor)
                return Open(found, form_of(found))
    return None


def _address(ops: bool, tenant: Tenant, resource: Resource) -> str:
    if not ops:
        return ""
    query = urlencode({"tenant": tenant.slug, "resource": resource_word(resource)})
    return f"{reverse('frontend:ops-quotas')}?{query}"


def _edit_address(shown_tenant: Tenant, node: NodeQuota, flavor: Flavor, resource: Resource) -> str:
    query = {
        "tenant": shown_tenant.slug,
        "resource": resource_word(resource),
        "edit": node.node.pk,
        "flavor": flavor.pk,
    }
    return f"{reverse('frontend:ops-quotas')}?{urlencode(query)}#quota-form"


def _crumbs(who: User, tenant: Tenant, resource: Resource) -> list[view_models.Crumb]:
    above = [t for t in tenants_above(viewer=who, tenant=tenant) if t.archived_at is None]
    return [view_models.Crumb(label=t.name, url=_address(True, t, resource)) for t in above]
