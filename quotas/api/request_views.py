"""Quota requests below `workspaces/{ws}/`: what a workspace asks for."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import FieldError, Invalid
from quotas.api.request_serializers import (
    QuotaRequestCreateSerializer,
    QuotaRequestSerializer,
)
from quotas.models import QuotaNode
from quotas.selectors.changes.quota_request import (
    COLUMNS,
    request_nodes,
    workspace_request_get,
    workspace_requests,
)
from quotas.services.requests import quota_request as service
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.bodies import answer_row, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, listed_by
from tenants.api.responses.schema import problem_responses

_P = Permission


class RequestsQuery(ListQuery):
    columns: ClassVar = COLUMNS


class QuotaRequestsView(WorkspaceView):
    """The requests of a workspace."""

    points = {"GET": _P.QUOTA_VIEW, "POST": _P.JOB_SUBMIT}

    @extend_schema(
        operation_id="quota_request_list",
        summary="Quota requests of a workspace, newest first",
        parameters=[RequestsQuery],
        responses={200: list_of(QuotaRequestSerializer), **problem_responses(400, 404)},
        tags=["quota-requests"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of requests."""
        query = read_query(request, RequestsQuery)
        rows = workspace_requests(self.viewer, self.workspace)
        return listed_by(query, RequestsQuery, rows, QuotaRequestSerializer)

    @extend_schema(
        operation_id="quota_request_create",
        summary="Request quota",
        description="Usage, pending jobs and idle hours are attached automatically.",
        request=QuotaRequestCreateSerializer,
        responses={201: QuotaRequestSerializer, **problem_responses(400, 404, 409)},
        tags=["quota-requests"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Create a request; an admin above the workspace decides about it."""
        read_query(request, NoQuery)
        values = read_body(QuotaRequestCreateSerializer, request)
        made = service.quota_request_create(
            acting_user=self.viewer,
            node=_node(request_nodes(self.viewer, self.workspace), values["queue"], values["cell"]),
            asked=values["amounts"],
            reason=values["reason"],
            until=values["until"],
            expires_at=values["expires_at"],
        )
        return show_workspace_request(self, made.pk, location=f"{request.path}/{made.pk}")


class QuotaRequestView(WorkspaceView):
    """One request."""

    points = {"GET": _P.QUOTA_VIEW}

    @extend_schema(
        operation_id="quota_request_get",
        summary="Get a quota request",
        responses={200: QuotaRequestSerializer, **problem_responses(400, 404)},
        tags=["quota-requests"],
    )
    def get(self, request: Request, ws: str, quota_request: uuid.UUID) -> Response:
        """Return the request with its evidence."""
        read_query(request, NoQuery)
        return show_workspace_request(self, quota_request)


def show_workspace_request(view: WorkspaceView, pk: uuid.UUID, *, location: str = "") -> Response:
    """Return a request of the workspace with its evidence."""
    found = workspace_request_get(view.viewer, view.workspace, pk)
    return answer_row(QuotaRequestSerializer, found, location=location)


def _node(nodes: list[QuotaNode], queue: str, cell: str) -> QuotaNode:
    """Return the node that a request names. Raises: Invalid."""
    found = [
        node
        for node in nodes
        if (node.queue.name if node.is_queue else "") == queue and cell in ("", node.cell.name)
    ]
    if not found:
        message = _("Quota not found.")
        raise Invalid(message, errors=[FieldError("queue", "UNKNOWN", message)])
    if len(found) > 1:
        message = _("Ambiguous. Specify the scheduling domain.")
        raise Invalid(message, errors=[FieldError("cell", "AMBIGUOUS", message)])
    return found[0]
