"""Moving a tenant, with all below it, to another folder."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import TextField, Value
from django.db.models.functions import Concat, Substr
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid, PermissionDenied
from foundation.sql import row_scope
from foundation.sql.versions import advance_version, require_current
from tenants.access import grants, permissions
from tenants.access.permissions import Permission
from tenants.access.rights import role_points
from tenants.hooks import tree_effects
from tenants.models import CustomRole, Member, Tenant
from tenants.services import tree
from tenants.services.role import role_copy


def tenant_move_check(*, acting_user: Actor, tenant: Tenant, parent: Tenant) -> None:
    """Check that the move is allowed now; `tenant` with its parent, and `parent`, are the present rows.

    The actor needs to edit tenants in every folder that the tenant leaves and in the new one, and needs all
    permissions on it that other users gain and lose: users with roles on a folder have them on all below it.

    Raises: PermissionDenied, with code CANNOT_GRANT for permissions that the actor lacks; NotFound; Conflict
    for the root, for an archived tenant, for a name that is taken there and for a tenant that a loan binds;
    Invalid for a workspace as a parent or for a folder below the tenant itself.
    """
    permissions.require_permission(acting_user, Permission.TENANT_VIEW, tenant)
    permissions.require_permission(acting_user, Permission.TENANT_EDIT, parent)
    permissions.require_permission(acting_user, Permission.TENANT_EDIT, tenant.parent)
    if tenant.parent is None:
        raise Conflict(_("The root tenant can't be moved."), code="TENANT_IS_ROOT")
    _require_over_both(acting_user, tenant, parent)
    tree.require_live(tenant)
    tree.require_live(parent, field="parent")
    if parent.is_workspace:
        raise _wrong("workspace", _("Workspaces can't contain tenants. Select a folder."))
    if tenant.contains_tenant(parent):
        message = _("%(name)s can't be moved into itself.") % {"name": tenant.name}
        raise _wrong("cycle", message)
    if parent.pk != tenant.parent_id:
        tree.require_free_name(tenant.name, parent_id=parent.pk)
        tree_effects.refuse_move(acting_user, tenant, parent)


@row_scope.whole()
def _require_over_both(acting_user: Actor, tenant: Tenant, parent: Tenant) -> None:
    """Check the permissions that the move gives and takes. Roles are read regardless of the actor's sight."""
    old, new = tenant.ancestor_ids()[:-1], parent.ancestor_ids()
    left, joined = [pk for pk in old if pk not in new], [pk for pk in new if pk not in old]
    for top in Tenant.unscoped.filter(pk__in=left[:1]):
        if not permissions.has_permission(acting_user, Permission.TENANT_EDIT, top):
            message = _("%(name)s would leave folders that you don't administer. Contact a parent admin.")
            raise PermissionDenied(message % {"name": tenant.name})
    roles = Member.unscoped.filter(tenant__in=[*left, *joined]).select_related("tenant", "custom_role")
    for member in roles.order_by("pk"):
        # A gained permission is needed on the tenant; a lost one where its role was given.
        place = tenant if str(member.tenant_id) in joined else member.tenant
        permissions.require_cover(acting_user, role_points(member), place)


def _wrong(code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError("parent", code, message)])


@transaction.atomic
def tenant_move(*, acting_user: Actor, tenant: Tenant, parent: Tenant, expected: int | None = None) -> Tenant:
    """Move `tenant` below `parent`, with its members, roles and jobs. Does nothing if it is there already.

    Its quota moves too if the actor divides quota above both folders, and stays with the old parent
    otherwise.

    Raises: as `tenant_move_check`, evaluated under the lock of the tree; PreconditionFailed.
    """
    tree.tree_lock()
    tenant, parent = tree.tenant_fresh(tenant), tree.tenant_fresh(parent)
    require_current(tenant, expected)
    tenant_move_check(acting_user=acting_user, tenant=tenant, parent=parent)
    if parent.pk == tenant.parent_id:
        return tenant
    before = tenant.parent.slug if tenant.parent else None
    old_path = tenant.path
    tenant.parent, tenant.path = parent, f"{parent.path}{tenant.pk}/"
    tree.save_tenant(tenant, ["parent"])
    # One statement replaces the start of each path, whatever the size of the subtree.
    rest = Substr("path", len(old_path) + 1)
    moved = Concat(Value(tenant.path), rest, output_field=TextField())
    Tenant.unscoped.filter(path__startswith=old_path).update(path=moved)
    grants.forget_grants()
    tree.record_change(acting_user, "move", tenant, before={"parent": before}, after={"parent": parent.slug})
    _take_roles_along(acting_user, tenant)
    tree_effects.follow_move(acting_user, tenant)
    return tenant


def _take_roles_along(acting_user: Actor, tenant: Tenant) -> None:
    """Replace custom roles that are no longer above their members by copies on `tenant`.

    Otherwise users who edit members of the old folder could still change these roles, and so the permissions
    of users in the moved tenant.
    """
    members = Member.unscoped.filter(
        tenant__path__startswith=tenant.path, custom_role__tenant__isnull=False
    ).select_related("tenant", "custom_role__tenant")
    copies: dict[uuid.UUID, CustomRole] = {}
    for member in members.order_by("pk"):
        role = member.custom_role
        if role is None or role.tenant is None or member.tenant is None:
            continue
        if role.tenant.contains_tenant(member.tenant):
            continue
        if role.pk not in copies:
            copies[role.pk] = role_copy(acting_user, role, tenant)
        advance_version(member, expected=None)
        member.custom_role = copies[role.pk]
        member.save(update_fields=["custom_role"])
