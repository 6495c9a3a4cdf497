"""The check for a first job of the platform, for pages that guide users to it."""

from __future__ import annotations

from foundation.core.actor import Actor
from scheduling.models import Attempt
from tenants.access import permissions
from tenants.access.permissions import Permission


def has_started_job(viewer: Actor) -> bool:
    """Return whether any job of the platform was ever admitted. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return Attempt.unscoped.exists()
