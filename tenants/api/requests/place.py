"""Views below `tenants/{tenant}/`, or below `admin/` for the platform itself."""

from __future__ import annotations

from functools import cached_property

from foundation.core.errors import NotFound
from tenants.access import permissions
from tenants.api.requests.base import PlatformView
from tenants.models import Tenant
from tenants.selectors.tenant import tenant_get


class PlaceView(PlatformView):
    """A view of one tenant, or of the platform where the address names none."""

    @cached_property
    def place(self) -> Tenant | None:
        """Return the tenant of the address, None for the platform.

        Raises: NotFound when it does not exist or the viewer cannot see it.
        """
        tenant_id = self.kwargs.get("tenant")
        return tenant_get(viewer=self.viewer, tenant_id=tenant_id) if tenant_id else None

    @property
    def tenant(self) -> Tenant:
        """Return the tenant of the address. Raises: NotFound."""
        if self.place is None:
            raise NotFound
        return self.place

    def may_see_again(self) -> None:
        """Check that the tenant is still in sight, in addition to the checks of every view."""
        place = self.place
        point = self.points.get(self.request.method or "")
        if point is not None:
            permissions.require_permission(self.viewer, point, place)
