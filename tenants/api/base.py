"""What every view of the REST API shares: who asks, with which scopes, in which workspace."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.views import APIView

from foundation.errors import NotFound, PermissionDenied
from tenants.models import AccessKey, Tenant, User
from tenants.permissions import Permission
from tenants.selectors.tenant import workspace_get


class PlatformView(APIView):
    """A view that says which point each method needs.

    The services and selectors decide what the user may do; `points` narrows what a key with scopes may
    do on the user's behalf. A method that names no point is closed to such a key.
    """

    points: ClassVar[dict[str, Permission]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if any("\x00" in str(value) for value in kwargs.values()):
            raise NotFound  # no row has such a name, and a database may refuse to look for it
        key = request.auth
        if not isinstance(key, AccessKey) or not key.scopes:
            return
        point = self.points.get("GET" if request.method == "HEAD" else request.method or "")
        if request.method != "OPTIONS" and (point is None or point.value not in key.scopes):
            raise PermissionDenied(
                _("The scopes of this access key do not cover this."), code="SCOPE_MISSING"
            )

    @property
    def viewer(self) -> User:
        """Who asks; the permission classes have refused anonymous requests by now."""
        user = self.request.user
        if not isinstance(user, User):
            raise PermissionDenied
        return user


class WorkspaceView(PlatformView):
    """A view below `workspaces/{ws}/`."""

    @property
    def workspace(self) -> Tenant:
        """The workspace of the address.

        Raises: NotFound when the viewer cannot see it, which answers the same as when there is none.
        """
        return workspace_get(viewer=self.viewer, slug=self.kwargs["ws"])
