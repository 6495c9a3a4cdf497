"""Quota requests below `admin/`: requests for folders, and decisions."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match
from quotas.api.quota_serializers import QuotaEffectSerializer
from quotas.api.request_serializers import (
    AnswerSerializer,
    InboxRequestSerializer,
    NodeRequestCreateSerializer,
    OfferSerializer,
    RejectSerializer,
)
from quotas.api.request_views import RequestsQuery
from quotas.selectors.changes.quota_request import INBOX_COLUMNS, quota_request_get, quota_requests
from quotas.selectors.tables.quota_table import quota_node_get
from quotas.services.quota import NodeAmounts
from quotas.services.quota_preview import quota_preview
from quotas.services.requests import quota_request as service
from quotas.services.requests.request_amounts import find_missing_amounts
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import answer_row, named_by, read_body
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.requests.writes import dry_run_of
from tenants.api.responses.pages import list_of, listed_by
from tenants.api.responses.schema import IF_MATCH_OPTIONAL, problem_responses

_P = Permission


class InboxQuery(RequestsQuery):
    columns: ClassVar = INBOX_COLUMNS


class AdminQuotaRequestsView(PlatformView):
    """The requests in sight, and the creation of a request for any quota node."""

    points = {"GET": _P.QUOTA_VIEW, "POST": _P.JOB_SUBMIT}

    def may_see_again(self) -> None:
        """Check that the user may still see the quota node of the request body. Raises: NotFound."""
        body = self.request.data
        node = str(body.get("node", "")) if isinstance(body, dict) else ""
        quota_node_get(self.viewer, uuid.UUID(node))

    @extend_schema(
        operation_id="admin_quota_request_list",
        summary="Quota requests of tenants that you can view, newest first",
        parameters=[InboxQuery],
        responses={200: list_of(InboxRequestSerializer), **problem_responses(400)},
        tags=["quota-requests"],
    )
    def get(self, request: Request) -> Response:
        """Return one page; `may_decide` marks the requests that you can review."""
        query = read_query(request, InboxQuery)
        shape = _Inbox.for_viewer(self.viewer)
        return listed_by(query, InboxQuery, quota_requests(self.viewer), shape, by_keys=True)

    @extend_schema(
        operation_id="admin_quota_request_create",
        summary="Request quota for a folder, or for any node that you can view",
        description="Reviewed by an admin of a parent node. The usage evidence covers all children.",
        request=NodeRequestCreateSerializer,
        responses={201: InboxRequestSerializer, **problem_responses(400, 404, 409)},
        tags=["quota-requests"],
    )
    def post(self, request: Request) -> Response:
        """Create a request; used, pending and idle GPUs below the node are attached as evidence."""
        read_query(request, NoQuery)
        values = read_body(NodeRequestCreateSerializer, request)
        with named_by("node"):
            node = quota_node_get(self.viewer, values["node"])
        made = service.quota_request_create(
            acting_user=self.viewer,
            node=node,
            asked=values["amounts"],
            reason=values["reason"],
            until=values["until"],
            expires_at=values["expires_at"],
        )
        return show_inbox_request(self, made.pk, location=f"{request.path}/{made.pk}")


class InboxRequestView(PlatformView):
    """An action on one request of any tenant."""

    def may_see_again(self) -> None:
        """Check that the user may still see the request. Raises: NotFound."""
        quota_request_get(self.viewer, self.kwargs["quota_request"])


class AdminQuotaRequestView(PlatformView):
    """One request as the admin who decides about it sees it."""

    points = {"GET": _P.QUOTA_VIEW}

    @extend_schema(
        operation_id="admin_quota_request_get",
        summary="Get a quota request with its usage evidence",
        responses={200: InboxRequestSerializer, **problem_responses(400, 404)},
        tags=["quota-requests"],
    )
    def get(self, request: Request, quota_request: uuid.UUID) -> Response:
        """Return the request."""
        read_query(request, NoQuery)
        return show_inbox_request(self, quota_request)


class QuotaRequestApproveView(InboxRequestView):
    """The approval of a request."""

    points = {"POST": _P.QUOTA_EDIT}
    handles_dry_run = True

    @extend_schema(
        operation_id="admin_quota_request_approve",
        summary="Approve a request",
        description=(
            "Changes the quota on the approver's authority, or creates temporary quota from the "
            "parent until the given date. A dry run returns the nodes over quota, the jobs to be "
            "preempted and the jobs that can start."
        ),
        parameters=[IF_MATCH_OPTIONAL],
        request=AnswerSerializer,
        responses={200: InboxRequestSerializer, **problem_responses(400, 404, 409, 412, 422)},
        tags=["quota-requests"],
    )
    def post(self, request: Request, quota_request: uuid.UUID) -> Response:
        """Approve the request. A request is decided only once."""
        read_query(request, NoQuery)
        found = quota_request_get(self.viewer, quota_request)
        values, expected = read_body(AnswerSerializer, request), if_match(request, required=False)
        if dry_run_of(request):
            changes = [NodeAmounts(found.node, find_missing_amounts(found.node, found.asked))]
            effect = quota_preview(acting_user=self.viewer, cell_id=found.node.cell_id, changes=changes)
            return Response(QuotaEffectSerializer(effect).data)
        service.quota_request_approve(
            acting_user=self.viewer, request=found, answer=values["answer"], version=expected
        )
        return show_inbox_request(self, quota_request)


class QuotaRequestRejectView(InboxRequestView):
    """The rejection of a request."""

    points = {"POST": _P.QUOTA_EDIT}

    @extend_schema(
        operation_id="admin_quota_request_reject",
        summary="Reject a request",
        parameters=[IF_MATCH_OPTIONAL],
        request=RejectSerializer,
        responses={200: InboxRequestSerializer, **problem_responses(400, 404, 409, 412)},
        tags=["quota-requests"],
    )
    def post(self, request: Request, quota_request: uuid.UUID) -> Response:
        """Reject with a reason."""
        read_query(request, NoQuery)
        found = quota_request_get(self.viewer, quota_request)
        values, expected = read_body(RejectSerializer, request), if_match(request, required=False)
        service.quota_request_reject(
            acting_user=self.viewer, request=found, answer=values["answer"], version=expected
        )
        return show_inbox_request(self, quota_request)


class QuotaRequestCounterView(InboxRequestView):
    """The counter-offer to a request."""

    points = {"POST": _P.QUOTA_EDIT}

    @extend_schema(
        operation_id="admin_quota_request_counter",
        summary="Propose changes to a request",
        description="The requester can accept or decline until the request expires.",
        parameters=[IF_MATCH_OPTIONAL],
        request=OfferSerializer,
        responses={200: InboxRequestSerializer, **problem_responses(400, 404, 409, 412, 422)},
        tags=["quota-requests"],
    )
    def post(self, request: Request, quota_request: uuid.UUID) -> Response:
        """Store the counter-offer; quota changes only when the asker accepts it."""
        read_query(request, NoQuery)
        found = quota_request_get(self.viewer, quota_request)
        values, expected = read_body(OfferSerializer, request), if_match(request, required=False)
        service.quota_request_counter(
            acting_user=self.viewer,
            request=found,
            offer=values["offer"],
            answer=values["answer"],
            version=expected,
        )
        return show_inbox_request(self, quota_request)


class _Inbox(InboxRequestSerializer):
    """The serializer class for one viewer."""

    viewer: ClassVar[Any] = None

    @classmethod
    def for_viewer(cls, viewer: Any) -> type[InboxRequestSerializer]:
        """Return a serializer class with the viewer, for fields that depend on the viewer's permissions."""
        return type("InboxRequestSerializer", (cls,), {"viewer": viewer})

    def get_may_decide(self, request: Any) -> bool:
        return service.may_decide_request(self.viewer, request)


def show_inbox_request(view: PlatformView, pk: uuid.UUID, *, location: str = "") -> Response:
    """Return a request as the viewer sees it among those of all tenants."""
    return answer_row(_Inbox.for_viewer(view.viewer), quota_request_get(view.viewer, pk), location=location)
