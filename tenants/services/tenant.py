"""Changes of the tenant tree: create, rename, archive, restore."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import new_id
from foundation.sql.versions import require_current
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind
from tenants.models.names import clean_name, clean_slug, slug_of
from tenants.services import tree


@transaction.atomic
def tenant_create(
    *, acting_user: Actor, parent: Tenant | None, kind: TenantKind, slug: str = "", name: str
) -> Tenant:
    """Add a folder or workspace below `parent`; without a parent, the root of the tree.

    An empty `slug` is made from the name.
    Raises: PermissionDenied; Invalid for a name, for a slug that cannot name a namespace, or a parent that
    is a workspace; Conflict when a name is taken, the parent is archived, or the root exists already.
    """
    permissions.require_permission(acting_user, Permission.TENANT_EDIT, parent)
    tree.tree_lock()
    if parent is not None:
        parent = tree.tenant_fresh(parent)
        _require_folder(parent)
        tree.require_live(parent, field="parent")
    name = clean_name(name)
    tenant = Tenant(id=new_id(), parent=parent, kind=kind, slug=clean_slug(slug or slug_of(name)), name=name)
    tenant.path = f"{parent.path if parent else '/'}{tenant.id}/"
    tree.require_free_name(name, parent_id=parent.pk if parent else None)
    try:
        with transaction.atomic():
            tenant.save(force_insert=True)
    except IntegrityError as error:
        message = _("Tenant %(name)s already exists.") % {"name": tenant.slug}
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("slug", "taken", message)]) from error
    after = {"slug": tenant.slug, "name": name, "kind": kind, "parent": parent.slug if parent else None}
    tree.record_change(acting_user, "create", tenant, after=after)
    return tenant


def _require_folder(parent: Tenant) -> None:
    if parent.is_workspace:
        message = _("Workspaces can't contain tenants. Select a folder.")
        raise Invalid(message, errors=[FieldError("parent", "workspace", message)])


@transaction.atomic
def tenant_rename(*, acting_user: Actor, tenant: Tenant, name: str, expected: int | None = None) -> Tenant:
    """Change the display name of a tenant; its slug stays, because addresses and namespaces contain it.

    Raises: PermissionDenied, NotFound; Invalid for the name; Conflict when it is taken or archived;
    PreconditionFailed, as for all of these changes, when `expected` is no longer its version.
    """
    permissions.require_permission(acting_user, Permission.TENANT_EDIT, tenant)
    tree.tree_lock()
    tenant = tree.tenant_fresh(tenant)
    require_current(tenant, expected)
    tree.require_live(tenant)
    name = clean_name(name)
    if name == tenant.name:
        return tenant
    tree.require_free_name(name, parent_id=tenant.parent_id, but=tenant)
    before, tenant.name = tenant.name, name
    tree.save_tenant(tenant, ["name"])
    tree.record_change(acting_user, "rename", tenant, before={"name": before}, after={"name": name})
    return tenant


@transaction.atomic
def tenant_archive(*, acting_user: Actor, tenant: Tenant, expected: int | None = None) -> Tenant:
    """Archive a tenant and all below it: it gets no new jobs and is not listed. Running jobs continue.

    The permission is needed on the tenant's parent, because it decides about its children. Raises:
    PermissionDenied, NotFound; Conflict for the root or when it is archived already.
    """
    permissions.require_permission(acting_user, Permission.TENANT_VIEW, tenant)
    permissions.require_permission(acting_user, Permission.TENANT_EDIT, tenant.parent)
    tree.tree_lock()
    tenant = tree.tenant_fresh(tenant)
    require_current(tenant, expected)
    tree.require_live(tenant)
    if tenant.parent is None:
        raise Conflict(_("The root tenant can't be archived."), code="TENANT_IS_ROOT")
    below = Tenant.unscoped.filter(path__startswith=tenant.path, archived_at__isnull=True)
    slugs = list(below.order_by("path").values_list("slug", flat=True))
    tenant.archived_at, tenant.archived_with = clock.now(), tenant.pk
    below.exclude(pk=tenant.pk).update(archived_at=tenant.archived_at, archived_with=tenant.pk)
    tree.save_tenant(tenant, ["archived_at", "archived_with"])
    tree.record_change(acting_user, "archive", tenant, after={"archived": slugs})
    return tenant


@transaction.atomic
def tenant_restore(*, acting_user: Actor, tenant: Tenant, expected: int | None = None) -> Tenant:
    """Restore an archived tenant, with all that was archived along with it.

    Raises: PermissionDenied, NotFound; Conflict when it is not archived, was archived together with a folder
    above it, or its name has been taken meanwhile.
    """
    permissions.require_permission(acting_user, Permission.TENANT_VIEW, tenant)
    permissions.require_permission(acting_user, Permission.TENANT_EDIT, tenant.parent)
    tree.tree_lock()
    tenant = tree.tenant_fresh(tenant)
    require_current(tenant, expected)
    if not tenant.is_archived:
        raise Conflict(_("%(name)s isn't archived.") % {"name": tenant.name}, code="TENANT_NOT_ARCHIVED")
    if tenant.parent is not None:
        tree.require_live(tenant.parent)
    tree.require_free_name(tenant.name, parent_id=tenant.parent_id, but=tenant)
    along = Tenant.unscoped.filter(path__startswith=tenant.path, archived_with=tenant.archived_with)
    slugs = list(along.order_by("path").values_list("slug", flat=True))
    along.exclude(pk=tenant.pk).update(archived_at=None, archived_with=None)
    tenant.archived_at = tenant.archived_with = None
    tree.save_tenant(tenant, ["archived_at", "archived_with"])
    tree.record_change(acting_user, "restore", tenant, after={"restored": slugs})
    return tenant
