"""The actions of the asker on a quota request: withdraw it, accept or decline the counter-offer.

The same three actions exist below `workspaces/{ws}/` and below `admin/`, which also has requests of folders.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match
from quotas.api.request_inbox_views import InboxRequestView, show_inbox_request
from quotas.api.request_serializers import EmptySerializer, InboxRequestSerializer, QuotaRequestSerializer
from quotas.api.request_views import show_workspace_request
from quotas.models import QuotaRequest
from quotas.selectors.changes.quota_request import quota_request_get, workspace_request_get
from quotas.services.requests import quota_request as service
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.bodies import read_body
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import IF_MATCH_OPTIONAL, problem_responses

V = TypeVar("V", bound=type[PlatformView])

_WITHDRAW = "Requester and admins of the tenant only."
_ACCEPT = "Requester only. The proposed quota is applied."
_DECLINE = "Requester only. The request is closed."


class AskerView(PlatformView):
    """One action of the asker, at one of the two addresses."""

    points = {"POST": Permission.JOB_SUBMIT}
    # The asker may have lost the permission to ask since, and admins may withdraw requests of others.
    also = (Permission.QUOTA_VIEW,)
    change: ClassVar[Callable[..., QuotaRequest]]

    def post(self, request: Request, quota_request: uuid.UUID, ws: str = "") -> Response:
        """Run the action and return the changed request."""
        read_query(request, NoQuery)
        found = self.get_request(quota_request)
        read_body(EmptySerializer, request)
        type(self).change(acting_user=self.viewer, request=found, version=if_match(request, required=False))
        return self.show_request(quota_request)

    def get_request(self, pk: uuid.UUID) -> QuotaRequest:
        """Return the request that the address names. Raises: NotFound, PermissionDenied."""
        raise NotImplementedError

    def show_request(self, pk: uuid.UUID) -> Response:
        """Return the request."""
        raise NotImplementedError


class WorkspaceAskerView(AskerView, WorkspaceView):
    """An action on a request of a workspace."""

    def get_request(self, pk: uuid.UUID) -> QuotaRequest:
        return workspace_request_get(self.viewer, self.workspace, pk)

    def show_request(self, pk: uuid.UUID) -> Response:
        return show_workspace_request(self, pk)


class InboxAskerView(AskerView, InboxRequestView):
    """An action on a request of any tenant, a folder's among them."""

    def get_request(self, pk: uuid.UUID) -> QuotaRequest:
        return quota_request_get(self.viewer, pk)

    def show_request(self, pk: uuid.UUID) -> Response:
        return show_inbox_request(self, pk)


def _described(operation: str, summary: str, description: str) -> Callable[[V], V]:
    """Decorate a view class with the operation, summary and description of its POST in the schema."""
    inbox = operation.startswith("admin_")
    shown: type[serializers.Serializer[Any]] = InboxRequestSerializer if inbox else QuotaRequestSerializer
    described: Callable[[V], V] = extend_schema_view(
        post=extend_schema(
            operation_id=operation,
            summary=summary,
            description=description,
            parameters=[IF_MATCH_OPTIONAL],
            request=EmptySerializer,
            responses={200: shown, **problem_responses(400, 404, 409, 412, 422)},
            tags=["quota-requests"],
        )
    )
    return described


@_described("quota_request_withdraw", "Take a request back", _WITHDRAW)
class QuotaRequestWithdrawView(WorkspaceAskerView):
    """Withdraws a request of a workspace."""

    change = staticmethod(service.quota_request_withdraw)


@_described("quota_request_accept", "Accept a proposal", _ACCEPT)
class QuotaRequestAcceptView(WorkspaceAskerView):
    """Accepts the counter-offer to a workspace."""

    change = staticmethod(service.quota_request_accept)


@_described("quota_request_decline", "Decline a proposal", _DECLINE)
class QuotaRequestDeclineView(WorkspaceAskerView):
    """Declines the counter-offer to a workspace."""

    change = staticmethod(service.quota_request_decline)


@_described("admin_quota_request_withdraw", "Take a request back, of a folder too", _WITHDRAW)
class AdminRequestWithdrawView(InboxAskerView):
    """Withdraws a request of any tenant."""

    change = staticmethod(service.quota_request_withdraw)


@_described("admin_quota_request_accept", "Accept a proposal, including proposals to a folder", _ACCEPT)
class AdminRequestAcceptView(InboxAskerView):
    """Accepts the counter-offer to any tenant."""

    change = staticmethod(service.quota_request_accept)


@_described("admin_quota_request_decline", "Decline a proposal, including proposals to a folder", _DECLINE)
class AdminRequestDeclineView(InboxAskerView):
    """Declines the counter-offer to any tenant."""

    change = staticmethod(service.quota_request_decline)
