"""The owner of the alerts at an address: a workspace below `workspaces/{ws}/`, the platform below
`admin/`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.models import Tenant

_WRITES: Final = ("POST", "PATCH", "DELETE")


class OfPlatform(PlatformView):
    """A view of the platform's rows."""

    points: ClassVar[dict[str, Permission]] = {
        "GET": Permission.CLUSTER_VIEW,
        **dict.fromkeys(_WRITES, Permission.CLUSTER_EDIT),
    }

    def get_owner(self) -> Tenant | None:
        """Return the owner of the view's rows; None is the platform."""
        return None


class OfWorkspace(WorkspaceView, OfPlatform):
    """A view of a workspace's own rows, combined with that of the platform's."""

    points: ClassVar[dict[str, Permission]] = {
        "GET": Permission.TENANT_VIEW,
        **dict.fromkeys(_WRITES, Permission.TENANT_EDIT),
    }

    def get_owner(self) -> Tenant | None:
        """Return the owner of the view's rows; None is the platform."""
        return self.workspace
