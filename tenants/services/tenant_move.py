"""Moving a tenant, with all below it, under another folder."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import TextField, Value
from django.db.models.functions import Concat, Substr
from django.utils.translation import gettext as _

from foundation.actor import Actor
from foundation.errors import Conflict, FieldError, Invalid
from foundation.versions import advance, require_current
from tenants import effects, grants, permissions
from tenants.models import CustomRole, Member, Tenant
from tenants.permissions import Permission
from tenants.services import tree
from tenants.services.role import role_copy


def tenant_move_check(*, acting_user: Actor, tenant: Tenant, parent: Tenant) -> None:
    """Check that the move is allowed now; `tenant` with its parent, and `parent`, as they stand.

    Raises: PermissionDenied without the right on the old and on the new parent; NotFound; Conflict for the
    root, for what is archived, for a name that is taken there and for what a loan holds; Invalid for a
    workspace as a parent or for a folder that stands below the tenant itself.
    """
    permissions.require(acting_user, Permission.TENANT_VIEW, tenant)
    permissions.require(acting_user, Permission.TENANT_EDIT, parent)
    permissions.require(acting_user, Permission.TENANT_EDIT, tenant.parent)
    if tenant.parent is None:
        raise Conflict(_("The root of the tree cannot be moved."), code="TENANT_IS_ROOT")
    tree.require_live(tenant)
    tree.require_live(parent, field="parent")
    if parent.is_workspace:
        raise _wrong("workspace", _("A workspace has no tenants below it; choose a folder."))
    if tenant.holds(parent):
        message = _("%(name)s cannot move below itself.") % {"name": tenant.name}
        raise _wrong("cycle", message)
    if parent.pk != tenant.parent_id:
        tree.require_free_name(tenant.name, parent_id=parent.pk)
        effects.refuse_move(acting_user, tenant, parent)


def _wrong(code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError("parent", code, message)])


@transaction.atomic
def tenant_move(*, acting_user: Actor, tenant: Tenant, parent: Tenant, expected: int | None = None) -> Tenant:
    """Put `tenant` below `parent`; members with their roles, and jobs, go along. Nothing if it is there.

    Its quota goes along where whoever moves it divides quota above both folders, and stays with the old one
    otherwise.

    Raises: as `tenant_move_check`, judged under the lock of the tree; PreconditionFailed.
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
    tree.save(tenant, ["parent"])
    # The new start of each path, and its own rest: one statement, whatever the size of the subtree.
    rest = Substr("path", len(old_path) + 1)
    moved = Concat(Value(tenant.path), rest, output_field=TextField())
    Tenant.unscoped.filter(path__startswith=old_path).update(path=moved)
    grants.forget()
    tree.note(acting_user, "move", tenant, before={"parent": before}, after={"parent": parent.slug})
    _take_roles_along(acting_user, tenant)
    effects.follow_move(acting_user, tenant)
    return tenant


def _take_roles_along(acting_user: Actor, tenant: Tenant) -> None:
    """Put copies on `tenant` in the place of custom roles that stand above its old place alone.

    Whoever edits members of the old folder may change its roles at any time, and would go on to decide what
    people may do here.
    """
    members = Member.unscoped.filter(
        tenant__path__startswith=tenant.path, custom_role__tenant__isnull=False
    ).select_related("tenant", "custom_role__tenant")
    copies: dict[uuid.UUID, CustomRole] = {}
    for member in members.order_by("pk"):
        role = member.custom_role
        if role is None or role.tenant is None or member.tenant is None or role.tenant.holds(member.tenant):
            continue
        if role.pk not in copies:
            copies[role.pk] = role_copy(acting_user, role, tenant)
        advance(member, expected=None)
        member.custom_role = copies[role.pk]
        member.save(update_fields=["custom_role"])
