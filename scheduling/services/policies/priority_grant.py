"""Grants priority classes above 0 to tenants; admins of a tenant's parent may do so."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Invalid, PermissionDenied
from scheduling.models import PriorityClass, PriorityGrant
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@transaction.atomic
def priority_grant(*, acting_user: Actor, tenant: Tenant, priority_class: PriorityClass) -> PriorityGrant:
    """Allow a tenant and its descendants to submit with a class. Granting it again changes nothing.

    Raises: NotFound, PermissionDenied, also for a class that the parent does not have itself; Invalid for a
    class that needs no grant.
    """
    _require(acting_user, tenant)
    if priority_class.value <= 0:
        message = _("Priority class %(name)s needs no grant.") % {"name": priority_class.name}
        raise Invalid(message, code="GRANT_NEEDLESS")
    if not permissions.has_permission(acting_user, Permission.QUEUE_EDIT) and not _has(
        tenant.parent, priority_class
    ):
        message = _("%(tenant)s has no grant for priority class %(name)s.")
        raise PermissionDenied(message % {"tenant": tenant.parent, "name": priority_class.name})
    grant, made = PriorityGrant.unscoped.get_or_create(tenant=tenant, priority_class=priority_class)
    if made:
        _record(acting_user, "priority-grant.create", grant)
    return grant


@transaction.atomic
def priority_revoke(*, acting_user: Actor, grant: PriorityGrant) -> None:
    """Revoke a grant. Jobs that were submitted with the class keep it.

    Raises: NotFound, PermissionDenied.
    """
    _require(acting_user, grant.tenant)
    _record(acting_user, "priority-grant.delete", grant)
    grant.delete()


def _require(acting_user: Actor, tenant: Tenant) -> None:
    """Check the permission on the tenant's parent, so that no admin raises their own tenant's priority."""
    permissions.require_permission(acting_user, Permission.TENANT_VIEW, tenant)
    if not permissions.has_permission(acting_user, Permission.QUEUE_EDIT, tenant.parent):
        message = _("Priority grants of %(tenant)s are managed by a parent admin.")
        raise PermissionDenied(message % {"tenant": tenant})


def _has(tenant: Tenant | None, priority_class: PriorityClass) -> bool:
    grants = PriorityGrant.unscoped.filter(priority_class=priority_class)
    return tenant is not None and grants.filter(tenant_id__in=tenant.ancestor_ids()).exists()


def _record(acting_user: Actor, action: str, grant: PriorityGrant) -> None:
    named = {"tenant": grant.tenant.slug, "priority_class": grant.priority_class.name}
    audit_log.record_action(
        acting_user,
        action,
        entity="priority-grant",
        entity_id=grant.pk,
        tenant_id=grant.tenant_id,
        before=named if action.endswith("delete") else None,
        after=None if action.endswith("delete") else named,
    )
