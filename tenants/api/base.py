"""What every view of the REST API shares: who asks, with which scopes, in which workspace."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.views import APIView

from foundation.errors import NotFound, PermissionDenied
from tenants.models import Tenant, User
from tenants.permissions import Permission
from tenants.selectors.tenant import workspace_get


class PlatformView(APIView):
    """A view that says which point each of its methods needs of a key with scopes."""

    points: ClassVar[dict[str, Permission]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if any("\x00" in str(value) for value in kwargs.values()):
            raise NotFound  # no row has such a name, and a database may refuse to look for it

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
