"""The base of all changes of the tenant tree: serialized, with unique names among siblings, none on archived
tenants.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError
from tenants.models import Tenant
from tenants.models.names import same_name


def tree_lock() -> None:
    """Lock the tree, so that changes are serialized: two concurrent moves could create a cycle."""
    list(Tenant.unscoped.select_for_update().filter(parent__isnull=True).values_list("pk"))


def tenant_fresh(tenant: Tenant) -> Tenant:
    """Return the present row of a tenant, under the lock of the tree. Raises: Tenant.DoesNotExist."""
    return Tenant.unscoped.select_related("parent").get(pk=tenant.pk)


def require_live(tenant: Tenant, *, field: str = "") -> None:
    """Refuse to change an archived tenant; `field` is the request's field that names it, if any.

    Raises: Conflict with code TENANT_ARCHIVED.
    """
    if tenant.is_archived:
        message = _("%(name)s is archived. Restore the tenant first.") % {"name": tenant.name}
        errors = [FieldError(field, "archived", message)] if field else []
        raise Conflict(message, code="TENANT_ARCHIVED", errors=errors)


def require_free_name(name: str, *, parent_id: uuid.UUID | None, but: Tenant | None = None) -> None:
    """Refuse a name that a sibling has already, in any case.

    Raises: Conflict with code NAME_TAKEN.
    """
    siblings = Tenant.unscoped.filter(parent_id=parent_id, archived_at__isnull=True)
    if but is not None:
        siblings = siblings.exclude(pk=but.pk)
    if any(same_name(name, other) for other in siblings.values_list("name", flat=True)):
        raise name_taken(name)


def name_taken(name: str) -> Conflict:
    """Return the error for a name that is taken."""
    message = _("Tenant %(name)s already exists.") % {"name": name}
    return Conflict(message, code="NAME_TAKEN", errors=[FieldError("name", "taken", message)])


def save_tenant(tenant: Tenant, fields: list[str]) -> None:
    """Write some columns and a new version.

    Raises: Conflict with code NAME_TAKEN where the database constraint refuses the name.
    """
    tenant.version += 1
    try:
        with transaction.atomic():
            tenant.save(update_fields=[*fields, "version"])
    except IntegrityError as error:
        raise name_taken(tenant.name) from error


def record_change(actor: Actor, verb: str, tenant: Tenant, **change: Any) -> None:
    """Record a change of `tenant` in the audit."""
    audit_log.record_action(
        actor, f"tenant.{verb}", entity="tenant", entity_id=tenant.pk, tenant_id=tenant.pk, **change
    )
