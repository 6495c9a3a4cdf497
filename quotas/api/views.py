"""Queues and quota of a workspace, to read."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.api.serializers import QueueSerializer, QuotaRowSerializer
from quotas.selectors.queue import queue_list
from quotas.selectors.quota import workspace_quota
from tenants.api.base import WorkspaceView
from tenants.api.pages import answer, list_of, page_of
from tenants.api.query import OffsetQuery, read_query
from tenants.api.schema import problems
from tenants.permissions import Permission


class QueuesView(WorkspaceView):
    """Queues of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="queue_list",
        summary="Queues of a workspace",
        parameters=[OffsetQuery],
        responses={200: list_of(QueueSerializer), **problems(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer one page of queues by name."""
        query = read_query(request, OffsetQuery)
        items, total, following = page_of(queue_list(self.viewer, self.workspace), **query)
        return Response(answer(QueueSerializer(items, many=True).data, total, following))


class QuotaView(WorkspaceView):
    """Quota of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="quota_get",
        summary="Quota of a workspace and its queues, with its use",
        parameters=[OffsetQuery],
        responses={200: list_of(QuotaRowSerializer), **problems(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer one row per queue, flavor and resource, the workspace's own first."""
        query = read_query(request, OffsetQuery)
        items, total, following = page_of(workspace_quota(self.viewer, self.workspace), **query)
        return Response(answer(QuotaRowSerializer(items, many=True).data, total, following))
