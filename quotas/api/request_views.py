"""Requests of quota below `workspaces/{ws}/`: what a workspace asks for."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import FieldError, Invalid
from foundation.sql.versions import if_match, version_header
from foundation.web.listing import Column, ColumnKind
from quotas.api.request_serializers import (
    EmptySerializer,
    QuotaRequestCreateSerializer,
    QuotaRequestSerializer,
    read_body,
)
from quotas.models import QuotaNode, QuotaRequest
from quotas.selectors.quota_request import (
    request_nodes,
    workspace_request_get,
    workspace_requests,
)
from quotas.services.requests import quota_request as service
from tenants.access.permissions import Permission
from tenants.api.base import WorkspaceView
from tenants.api.pages import list_of, listed_by
from tenants.api.query import ListQuery, NoQuery, read_query
from tenants.api.schema import IF_MATCH_OPTIONAL, problems

_P = Permission


class RequestsQuery(ListQuery):
    columns: ClassVar = {
        "state": Column("state"),
        "by": Column("asker.username"),
        "queue": Column("node.queue.name"),
        "created_at": Column("created_at", ColumnKind.TIME),
        "expires_at": Column("expires_at", ColumnKind.TIME),
    }


class QuotaRequestsView(WorkspaceView):
    """What a workspace asks for."""

    points = {"GET": _P.QUOTA_VIEW, "POST": _P.JOB_SUBMIT}

    @extend_schema(
        operation_id="quota_request_list",
        summary="Requests of quota of a workspace, the latest first",
        parameters=[RequestsQuery],
        responses={200: list_of(QuotaRequestSerializer), **problems(400, 404)},
        tags=["quota-requests"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer one page of requests."""
        query = read_query(request, RequestsQuery)
        rows = workspace_requests(self.viewer, self.workspace)
        return listed_by(query, RequestsQuery, rows, QuotaRequestSerializer)

    @extend_schema(
        operation_id="quota_request_create",
        summary="Ask for more quota",
        description="What was used, what waits and what stood idle is attached by itself.",
        request=QuotaRequestCreateSerializer,
        responses={201: QuotaRequestSerializer, **problems(400, 404, 409)},
        tags=["quota-requests"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Ask; an admin above the workspace decides."""
        read_query(request, NoQuery)
        workspace = self.workspace
        values = read_body(QuotaRequestCreateSerializer, request)
        made = service.quota_request_create(
            acting_user=self.viewer,
            node=_node(request_nodes(self.viewer, workspace), values["queue"], values["cell"]),
            asked=values["amounts"],
            reason=values["reason"],
            until=values["until"],
            expires_at=values["expires_at"],
        )
        shown = workspace_request_get(self.viewer, workspace, made.pk)
        headers = {"Location": f"{request.path}/{made.pk}", **version_header(shown)}
        return Response(QuotaRequestSerializer(shown).data, status=201, headers=headers)


class QuotaRequestView(WorkspaceView):
    """One request."""

    points = {"GET": _P.QUOTA_VIEW}

    @extend_schema(
        operation_id="quota_request_get",
        summary="One request of quota",
        responses={200: QuotaRequestSerializer, **problems(400, 404)},
        tags=["quota-requests"],
    )
    def get(self, request: Request, ws: str, quota_request: uuid.UUID) -> Response:
        """Answer the request with its evidence."""
        read_query(request, NoQuery)
        found = workspace_request_get(self.viewer, self.workspace, quota_request)
        return Response(QuotaRequestSerializer(found).data, headers=version_header(found))


class _AskerView(WorkspaceView):
    """Something that the asker does with a request."""

    also = (_P.QUOTA_VIEW,)  # who asked may have lost the right to ask, and admins take requests back
    change: ClassVar[Callable[..., QuotaRequest]]

    def act(self, request: Request, pk: uuid.UUID) -> Response:
        """Do it, and answer the request as it is then."""
        read_query(request, NoQuery)
        found = workspace_request_get(self.viewer, self.workspace, pk)
        read_body(EmptySerializer, request)
        expected = if_match(request, required=False)
        type(self).change(acting_user=self.viewer, request=found, version=expected)
        shown = workspace_request_get(self.viewer, self.workspace, pk)
        return Response(QuotaRequestSerializer(shown).data, headers=version_header(shown))


_ANSWERS: Any = {200: QuotaRequestSerializer, **problems(400, 404, 409, 412, 422)}


class QuotaRequestWithdrawView(_AskerView):
    """Taking a request back."""

    points = {"POST": _P.JOB_SUBMIT}
    change = staticmethod(service.quota_request_withdraw)

    @extend_schema(
        operation_id="quota_request_withdraw",
        summary="Take a request back",
        parameters=[IF_MATCH_OPTIONAL],
        request=EmptySerializer,
        responses=_ANSWERS,
        tags=["quota-requests"],
    )
    def post(self, request: Request, ws: str, quota_request: uuid.UUID) -> Response:
        """For who asked, and for the admins of the workspace."""
        return self.act(request, quota_request)


class QuotaRequestAcceptView(_AskerView):
    """Taking a counter-offer."""

    points = {"POST": _P.JOB_SUBMIT}
    change = staticmethod(service.quota_request_accept)

    @extend_schema(
        operation_id="quota_request_accept",
        summary="Take the counter-offer",
        parameters=[IF_MATCH_OPTIONAL],
        request=EmptySerializer,
        responses=_ANSWERS,
        tags=["quota-requests"],
    )
    def post(self, request: Request, ws: str, quota_request: uuid.UUID) -> Response:
        """For who asked; the offer is carried out."""
        return self.act(request, quota_request)


class QuotaRequestDeclineView(_AskerView):
    """Leaving a counter-offer."""

    points = {"POST": _P.JOB_SUBMIT}
    change = staticmethod(service.quota_request_decline)

    @extend_schema(
        operation_id="quota_request_decline",
        summary="Decline the counter-offer",
        parameters=[IF_MATCH_OPTIONAL],
        request=EmptySerializer,
        responses=_ANSWERS,
        tags=["quota-requests"],
    )
    def post(self, request: Request, ws: str, quota_request: uuid.UUID) -> Response:
        """For who asked; the request is closed."""
        return self.act(request, quota_request)


def _node(nodes: list[QuotaNode], queue: str, cell: str) -> QuotaNode:
    """The node that a request names. Raises: Invalid."""
    found = [
        node
        for node in nodes
        if (node.queue.name if node.is_queue else "") == queue and cell in ("", node.cell.name)
    ]
    if not found:
        message = _("There is no quota of that name here.")
        raise Invalid(message, errors=[FieldError("queue", "UNKNOWN", message)])
    if len(found) > 1:
        message = _("There are several; name the cell.")
        raise Invalid(message, errors=[FieldError("cell", "AMBIGUOUS", message)])
    return found[0]
