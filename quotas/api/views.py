"""Queues and quota of a workspace, to read."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.listing import Column, Kind
from quotas.api.serializers import QueueSerializer, QuotaRowSerializer
from quotas.selectors.queue import queue_list
from quotas.selectors.quota import workspace_quota
from tenants.api.base import WorkspaceView
from tenants.api.pages import list_of, listed
from tenants.api.query import ListQuery
from tenants.api.schema import problems
from tenants.permissions import Permission


class QueuesQuery(ListQuery):
    columns: ClassVar = {
        "name": Column("name"),
        "cell": Column("cell.name"),
        "strategy": Column("strategy"),
        "stop_policy": Column("stop_policy"),
        "allocation_mode": Column("allocation_mode"),
        "preemption": Column("preemption", Kind.FLAG),
        "backfill": Column("backfill", Kind.FLAG),
    }


class QuotaQuery(ListQuery):
    columns: ClassVar = {
        "queue": Column("queue"),
        "cluster": Column("flavor.cluster.name"),
        "flavor": Column("flavor.name"),
        "resource": Column("resource"),
        "nominal": Column("nominal", Kind.NUMBER),
        "used": Column("used", Kind.NUMBER),
        "borrowed": Column("borrowed", Kind.NUMBER),
        "available": Column("available", Kind.NUMBER),
    }


class QueuesView(WorkspaceView):
    """Queues of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="queue_list",
        summary="Queues of a workspace",
        parameters=[QueuesQuery],
        responses={200: list_of(QueueSerializer), **problems(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer one page of queues by name."""
        return listed(request, QueuesQuery, queue_list(self.viewer, self.workspace), QueueSerializer)


class QuotaView(WorkspaceView):
    """Quota of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="quota_get",
        summary="Quota of a workspace and its queues, with its use",
        parameters=[QuotaQuery],
        responses={200: list_of(QuotaRowSerializer), **problems(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer one row per queue, flavor and resource, the workspace's own first."""
        return listed(request, QuotaQuery, workspace_quota(self.viewer, self.workspace), QuotaRowSerializer)
