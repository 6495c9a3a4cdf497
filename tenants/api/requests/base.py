"""The base of every view of the REST API: user, scopes, workspace, dry runs, idempotency and sparse
responses.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, ClassVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from foundation.core.errors import FieldError, Invalid, NotFound, PermissionDenied
from foundation.sql import row_scope
from foundation.web.problems import exception_handler
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.access.row_scope import act_for
from tenants.api.requests.writes import UNSAFE, carry_out
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get


class PlatformView(APIView):
    """A view that declares which permission each of its methods needs of a key with scopes.

    `reads_together`: responses to safe methods are read in one transaction, which also sets the row policies
    once; false for responses that wait for something other than the database. `handles_dry_run`: its dry run
    writes nothing by itself, so that nothing has to be rolled back. `secret_fields`: the fields of its
    responses that are shown once and never stored. `also`: permissions of which one suffices in place of that
    in `points`, for some of the requests.
    """

    points: ClassVar[dict[str, Permission]] = {}
    reads_together: bool = True
    handles_dry_run: bool = False
    secret_fields: tuple[str, ...] = ()
    also: ClassVar[tuple[Permission, ...]] = ()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Handle a request; reads run in one transaction, except a stream, which begins after it."""
        if not self.reads_together or request.method not in SAFE_METHODS:
            return super().dispatch(request, *args, **kwargs)
        with row_scope.read_transaction():
            return super().dispatch(request, *args, **kwargs)

    @row_scope.read_transaction()
    def perform_authentication(self, request: Request) -> None:
        """Authenticate the user, and narrow the rows to theirs from here on."""
        super().perform_authentication(request)
        act_for(request.user)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if any("\x00" in str(value) for value in kwargs.values()):
            raise NotFound  # no row has such a name, and PostgreSQL refuses it in a query
        handler = getattr(self, (request.method or "").lower(), None)
        if request.method in UNSAFE and handler is not None:
            # The instance serves this one request, so its handler may be wrapped in place.
            setattr(self, request.method.lower(), partial(carry_out, self, handler))

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Remove the fields that `fields` does not name."""
        # A stream is no Response, and an error before there was a Request is not handled here.
        if isinstance(request, Request) and request.method == "GET" and isinstance(response, Response):
            wanted = request.query_params.get("fields")
            if wanted is not None and response.status_code == 200:
                try:
                    response.data = _sparse(response.data, wanted)
                except Invalid as error:
                    response = exception_handler(error, {"view": self, "request": request}) or response
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def viewer(self) -> User:
        """Return the user; the permission classes have refused anonymous requests by now."""
        user = self.request.user
        if not isinstance(user, User):
            raise PermissionDenied
        return user

    def before_body(self) -> None:
        """Refuse a body of a user without the permission, before it is read.

        Without a tenant in the address, any user with the permission somewhere may send a body; the service
        checks the tenant. Raises: PermissionDenied, NotFound.
        """
        self._require_one(permissions.permissions_anywhere(self.viewer))

    def _require_one(self, has: frozenset[Permission], tenant: Tenant | None = None) -> None:
        point = self.points.get(self.request.method or "")
        if point is not None and has.isdisjoint({point, *self.also}):
            raise permissions.missing_permission(self.viewer, point, tenant)

    def may_see_again(self) -> None:
        """Check that the caller may still see a stored response. Raises: PermissionDenied, NotFound."""
        point = self.points.get(self.request.method or "")
        if point is not None:
            permissions.require_permission(self.viewer, point)


class WorkspaceView(PlatformView):
    """A view below `workspaces/{ws}/`."""

    @cached_property
    def workspace(self) -> Tenant:
        """Return the workspace of the address.

        Raises: NotFound when it does not exist or the viewer cannot see it.
        """
        return workspace_get(viewer=self.viewer, slug=self.kwargs["ws"])

    def before_body(self) -> None:
        """Check the permission on the workspace before the body is read."""
        self._require_one(permissions.permissions_on(self.viewer, self.workspace), self.workspace)

    def may_see_again(self) -> None:
        """Check that the workspace is still in sight, in addition to the checks of every view."""
        workspace = self.workspace
        point = self.points.get(self.request.method or "")
        if point is not None:
            permissions.require_permission(self.viewer, point, workspace)


def _sparse(body: Any, wanted: str) -> Any:
    """Return the body, or each item of a list, with the wanted fields alone."""
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if not isinstance(body, dict):
        return body
    listing = isinstance(body.get("items"), list) and "next" in body
    samples = body["items"][:1] if listing else [body]
    for sample in samples:
        unknown = [name for name in names if name not in sample]
        if unknown or not names:
            message = _("Unknown field. Valid: %(known)s") % {"known": ", ".join(sample)}
            raise Invalid(message, errors=[FieldError("fields", "UNKNOWN", message)])
    if listing:
        return {**body, "items": [{name: item[name] for name in names} for item in body["items"]]}
    return {name: body[name] for name in names}
