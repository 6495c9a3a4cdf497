"""Reading tenants on behalf of a viewer."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from django.db.models import Q
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.hooks import tree_effects
from tenants.hooks.tree_effects import Effect
from tenants.models import Tenant, TenantKind


class TenantChoice(NamedTuple):
    """A tenant as a form offers it."""

    pk: uuid.UUID
    name: str
    parent_id: uuid.UUID | None


class _InTree(Protocol):
    @property
    def pk(self) -> uuid.UUID: ...
    @property
    def parent_id(self) -> uuid.UUID | None: ...


T = TypeVar("T", bound=_InTree)
_WORKSPACE: Final = PreparedQuery(
    lambda slug: (
        Tenant.unscoped.filter(kind=TenantKind.WORKSPACE, slug=slug).order_by().select_related("parent")
    )
)


def workspace_list(*, viewer: Actor, limit: int | None = None) -> list[Tenant]:
    """Return the workspaces in sight that are not archived, with their folder, by name."""
    return list(permissions.visible_workspaces(viewer).select_related("parent")[:limit])


def workspace_find(*, viewer: Actor, text: str, limit: int) -> list[Tenant]:
    """Return the workspaces of `workspace_list` whose name or slug contains the text."""
    named = Q(name__icontains=text) | Q(slug__icontains=text)
    return list(permissions.visible_workspaces(viewer).filter(named).select_related("parent")[:limit])


def tenant_find(*, viewer: Actor, text: str, limit: int) -> list[Tenant]:
    """Return folders and workspaces in sight whose name or slug contains the text, by name."""
    named = Q(name__icontains=text) | Q(slug__icontains=text)
    seen = permissions.visible_tenants(viewer).filter(named, archived_at__isnull=True)
    return list(seen.order_by("name", "id")[:limit])


def tenants_named(*, viewer: Actor, text: str) -> list[Tenant]:
    """Return the tenant in sight with this slug, or else all with this name in any case."""
    seen = permissions.visible_tenants(viewer)
    return list(seen.filter(slug=text)) or list(seen.filter(name__iexact=text).order_by("pk"))


def list_unique_names(*, viewer: Actor, tenants: Collection[Tenant]) -> set[str]:
    """Return the names of tenants for which `tenants_named` returns a single tenant."""
    wanted = Q(pk__in=[])
    for tenant in tenants:
        wanted |= Q(name__iexact=tenant.name) | Q(slug=tenant.name)
    found = permissions.visible_tenants(viewer).filter(wanted).values_list("pk", "name", "slug")
    return {
        tenant.name
        for tenant in tenants
        if {
            pk
            for pk, name, slug in found
            if tenant.name in (slug, name) or name.lower() == tenant.name.lower()
        }
        == {tenant.pk}
    }


def workspace_get(*, viewer: Actor, slug: str) -> Tenant:
    """Return one workspace by slug; an archived one too, whose past stays readable.

    Raises: NotFound when there is none in the viewer's sight.
    """
    workspace = _in_sight(viewer, slug)
    if workspace is None:
        raise NotFound(_("Workspace %(name)s not found.") % {"name": slug})
    return workspace


def workspace_find_live(*, viewer: Actor, slug: str) -> Tenant | None:
    """Return one workspace by slug; None when it is archived, or there is none in the viewer's sight."""
    workspace = _in_sight(viewer, slug)
    return None if workspace is None or workspace.is_archived else workspace


def _in_sight(viewer: Actor, slug: str) -> Tenant | None:
    workspace = _WORKSPACE.fetch_first(slug)
    if workspace is None or not permissions.has_permission(viewer, Permission.TENANT_VIEW, workspace):
        return None
    return workspace


def tenant_get(*, viewer: Actor, tenant_id: uuid.UUID) -> Tenant:
    """Return one folder or workspace by id, with its parent.

    Raises: NotFound when there is none in the viewer's sight.
    """
    tenant = Tenant.unscoped.select_related("parent").filter(pk=tenant_id).first()
    if tenant is None or not permissions.has_permission(viewer, Permission.TENANT_VIEW, tenant):
        raise NotFound(_("Tenant not found."))
    return tenant


def tenant_list(*, viewer: Actor, archived: bool = False) -> list[Tenant]:
    """Return every tenant that the viewer may see, parents before children, siblings by name.

    With `archived`, archived tenants are included. The `parent` of each is prefetched.
    """
    visible = permissions.visible_tenants(viewer)
    if not archived:
        visible = visible.filter(archived_at__isnull=True)
    tenants = list(visible.order_by("name", "id"))
    _link_parents(tenants)
    return _order_tree(tenants)


def tenant_choices(*, viewer: Actor) -> list[TenantChoice]:
    """Return the tenants of `tenant_list` without archived ones, in the same order."""
    visible = permissions.visible_tenants(viewer).filter(archived_at__isnull=True)
    rows = visible.order_by("name", "id").values_list(*TenantChoice._fields)
    return _order_tree(map(TenantChoice._make, rows))


def _order_tree(tenants: Iterable[T]) -> list[T]:
    """Put parents before children and leave siblings in their order."""
    by_id = {tenant.pk: tenant for tenant in tenants}
    by_parent: dict[object, list[T]] = {}
    for tenant in by_id.values():
        by_parent.setdefault(tenant.parent_id if tenant.parent_id in by_id else None, []).append(tenant)
    ordered: list[T] = []
    stack = list(reversed(by_parent.get(None, [])))
    while stack:
        tenant = stack.pop()
        ordered.append(tenant)
        stack.extend(reversed(by_parent.get(tenant.pk, [])))
    return ordered


def _link_parents(tenants: Sequence[Tenant]) -> None:
    """Let children of one tenant share its model: a join would create one model for each child."""
    known: dict[uuid.UUID | None, Tenant] = {tenant.pk: tenant for tenant in tenants}
    missing = {tenant.parent_id for tenant in tenants if tenant.parent_id is not None} - known.keys()
    if missing:
        known |= Tenant.unscoped.in_bulk(missing)
    parent = Tenant._meta.get_field("parent")
    for tenant in tenants:
        parent.set_cached_value(tenant, known.get(tenant.parent_id))


def tenant_paths(tenants: Collection[uuid.UUID]) -> dict[uuid.UUID | None, str]:
    """Return the paths of tenants by id, without a check of permissions."""
    return dict(Tenant.unscoped.filter(pk__in=tenants).values_list("pk", "path")) if tenants else {}


def tenant_topmost(*, viewer: Actor) -> Tenant | None:
    """Return the first of `tenant_list`, None where the viewer sees no tenant."""
    seen = permissions.visible_tenants(viewer).filter(archived_at__isnull=True)
    below = seen.filter(parent__in=seen.values("pk")).values("pk")
    return seen.exclude(pk__in=below).order_by("name", "id").first()


@row_scope.whole()
def has_root_tenant() -> bool:
    """Return whether the installation has a root tenant, whether or not the user may see it."""
    return Tenant.unscoped.filter(parent=None).exists()


def tenants_above(*, viewer: Actor, tenant: Tenant) -> list[Tenant]:
    """Return the tenants above one that the viewer may see, archived ones too, starting at the root."""
    above = permissions.visible_tenants(viewer).filter(pk__in=tenant.path.strip("/").split("/")[:-1])
    return sorted(above, key=lambda one: len(one.path))


def tenant_archive_preview(*, viewer: Actor, tenant: Tenant) -> list[Effect]:
    """Return the activities in a tenant that archiving would not end.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.TENANT_VIEW, tenant)
    permissions.require_permission(viewer, Permission.TENANT_EDIT, tenant.parent)
    return tree_effects.preview_archive(viewer, tenant)
