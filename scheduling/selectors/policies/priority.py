"""The priority classes that a workspace may use."""

from __future__ import annotations

from django.db.models import Q

from foundation.core.actor import Actor
from scheduling.models import PriorityClass
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def priority_class_list(*, viewer: Actor, workspace: Tenant | None) -> list[PriorityClass]:
    """Return the enabled classes that need no grant or are granted to the workspace or an ancestor, highest
    first.

    Without a workspace, return all enabled classes; their names are not secret.
    Raises: NotFound, PermissionDenied.
    """
    if workspace is None:
        return list(PriorityClass.unscoped.filter(retired_at__isnull=True).order_by("-value", "name"))
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    allowed = Q(value__lte=0) | Q(grants__tenant_id__in=workspace.ancestor_ids())
    return list(
        PriorityClass.unscoped.filter(allowed, retired_at__isnull=True).distinct().order_by("-value", "name")
    )
