"""Reading limits of users."""

from __future__ import annotations

import uuid

from django.db.models import F, QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from quotas.models import UserLimit
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def user_limit_list(viewer: Actor, workspace: Tenant) -> QuerySet[UserLimit]:
    """Return the limits of a workspace, those that apply to all users first.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    rows = UserLimit.unscoped.filter(workspace=workspace).select_related("workspace", "user")
    return rows.order_by(F("user__username").asc(nulls_first=True), "resource", "pk")


def user_limit_get(viewer: Actor, workspace: Tenant, pk: uuid.UUID) -> UserLimit:
    """Return one limit. Raises: NotFound, PermissionDenied."""
    found = user_limit_list(viewer, workspace).filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Limit not found."))
    return found
