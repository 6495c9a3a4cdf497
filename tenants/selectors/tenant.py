"""Reading tenants on behalf of a viewer."""

from __future__ import annotations

from django.utils.translation import gettext as _

from foundation.actor import Actor
from foundation.errors import NotFound
from tenants import permissions
from tenants.models import Tenant, TenantKind
from tenants.permissions import Permission


def workspace_list(*, viewer: Actor) -> list[Tenant]:
    """Workspaces the viewer may see, with their folder, by name."""
    return list(permissions.visible_workspaces(viewer).select_related("parent"))


def workspace_get(*, viewer: Actor, slug: str) -> Tenant:
    """One workspace by slug.

    Raises: NotFound when there is none in the viewer's sight.
    """
    workspaces = Tenant.unscoped.filter(kind=TenantKind.WORKSPACE).select_related("parent")
    workspace = workspaces.filter(slug=slug).first()
    if workspace is None or not permissions.may(viewer, Permission.TENANT_VIEW, workspace):
        raise NotFound(_("There is no workspace named %(name)s.") % {"name": slug})
    return workspace


def tenant_list(*, viewer: Actor) -> list[Tenant]:
    """Every tenant the viewer may see, parents before children, siblings by name."""
    tenants = list(permissions.visible_tenants(viewer).order_by("name", "id"))
    by_parent: dict[object, list[Tenant]] = {}
    seen = {tenant.pk for tenant in tenants}
    for tenant in tenants:
        by_parent.setdefault(tenant.parent_id if tenant.parent_id in seen else None, []).append(tenant)
    ordered: list[Tenant] = []
    stack = list(reversed(by_parent.get(None, [])))
    while stack:
        tenant = stack.pop()
        ordered.append(tenant)
        stack.extend(reversed(by_parent.get(tenant.pk, [])))
    return ordered
