"""Limits of users in a workspace. The admins of the workspace set them, because they divide its quota."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.quantities import Resource
from foundation.messaging import outbox
from foundation.sql.versions import advance_version
from quotas.models import Queue, UserLimit
from quotas.services.quota_plan import AMOUNT_MAX
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User


@transaction.atomic
def user_limit_create(
    *, acting_user: Actor, workspace: Tenant, username: str, resource: Resource, amount: int | None
) -> UserLimit:
    """Cap what a user's jobs reserve at once; an empty name means every user without a limit of their own.

    None is unlimited, to exempt a user from the limit for all users. Raises: NotFound, PermissionDenied;
    Invalid for a folder, a user who is not a member, or an impossible amount; Conflict if the limit exists.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_EDIT, workspace)
    if not workspace.is_workspace:
        raise Invalid(_("%(tenant)s is a folder. Only workspaces have users.") % {"tenant": workspace})
    user = _member(workspace, username) if username else None
    _check(user, amount)
    if UserLimit.unscoped.filter(workspace=workspace, user=user, resource=resource.value).exists():
        message = _("A user limit already exists. Edit it instead.")
        errors = [FieldError("resource", "EXISTS", message)]
        raise Conflict(message, code="USER_LIMIT_EXISTS", errors=errors)
    limit = UserLimit.unscoped.create(workspace=workspace, user=user, resource=resource.value, amount=amount)
    _done(acting_user, "user-limit.create", limit, before={}, after=_limit_facts(limit))
    return limit


@transaction.atomic
def user_limit_change(
    *, acting_user: Actor, limit: UserLimit, amount: int | None, version: int | None = None
) -> UserLimit:
    """Set another amount. Jobs above it continue; new jobs start only when they fit.

    Raises: NotFound, PermissionDenied; Invalid; PreconditionFailed for another version.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_EDIT, limit.workspace)
    advance_version(limit, expected=version)
    _check(limit.user, amount)
    before, limit.amount = _limit_facts(limit), amount
    limit.save(update_fields=["amount"])
    _done(acting_user, "user-limit.change", limit, before=before, after=_limit_facts(limit))
    return limit


@transaction.atomic
def user_limit_delete(*, acting_user: Actor, limit: UserLimit, version: int | None = None) -> None:
    """Delete a limit.

    Raises: NotFound, PermissionDenied; PreconditionFailed for another version.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_EDIT, limit.workspace)
    advance_version(limit, expected=version)
    _done(acting_user, "user-limit.delete", limit, before=_limit_facts(limit), after={})
    limit.delete()


def _member(workspace: Tenant, username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None or not permissions.has_permission(user, Permission.TENANT_VIEW, workspace):
        message = _("Not a member of this tenant.")
        raise Invalid(message, errors=[FieldError("user", "UNKNOWN", message)])
    return user


def _check(user: User | None, amount: int | None) -> None:
    if amount is None and user is None:
        message = _("Enter an amount, or delete the limit for unlimited use.")
        raise Invalid(message, errors=[FieldError("amount", "REQUIRED", message)])
    if amount is not None and not 0 <= amount <= AMOUNT_MAX:
        message = _("The limit is negative or too large.")
        raise Invalid(message, errors=[FieldError("amount", "RANGE", message)])


def _limit_facts(limit: UserLimit) -> dict[str, Any]:
    name = limit.user.username if limit.user else ""
    return {"user": name, "resource": limit.resource, "amount": limit.amount}


def _done(
    acting_user: Actor, action: str, limit: UserLimit, *, before: dict[str, Any], after: dict[str, Any]
) -> None:
    place = limit.workspace_id
    audit_log.record_action(
        acting_user,
        action,
        entity="user-limit",
        entity_id=limit.pk,
        tenant_id=place,
        before=before,
        after=after,
    )
    for cell_id in sorted(set(Queue.unscoped.filter(workspace=place).values_list("cell_id", flat=True))):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id)
