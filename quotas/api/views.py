"""Queues and quota of a workspace, to read."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match
from foundation.web.listing import Column, ColumnKind
from quotas.api.queue_settings import QueueCreateSerializer, QueueDetailSerializer, open_queue
from quotas.api.serializers import QueueSerializer, QuotaRowSerializer
from quotas.selectors.queues.queue import COLUMNS, queue_get, queue_list
from quotas.selectors.tables.quota import workspace_quota
from quotas.services.queues.queue_preset import Preset, queue_preset
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.bodies import StrictSerializer, answer_row, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH_OPTIONAL, problem_responses


class QueuesQuery(ListQuery):
    columns: ClassVar = COLUMNS


class QuotaQuery(ListQuery):
    columns: ClassVar = {
        "queue": Column("queue"),
        "cluster": Column("flavor.cluster.name"),
        "flavor": Column("flavor.name"),
        "resource": Column("resource"),
        "nominal": Column("nominal", ColumnKind.NUMBER),
        "reserved": Column("reserved", ColumnKind.NUMBER),
        "borrowed": Column("borrowed", ColumnKind.NUMBER),
        "available": Column("available", ColumnKind.NUMBER),
    }


class QueuesView(WorkspaceView):
    """Queues of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW, "POST": Permission.QUEUE_EDIT}

    @extend_schema(
        operation_id="queue_list",
        summary="Queues of a workspace",
        parameters=[QueuesQuery],
        responses={200: list_of(QueueSerializer), **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of queues by name."""
        return list_response(request, QueuesQuery, queue_list(self.viewer, self.workspace), QueueSerializer)

    @extend_schema(
        operation_id="queue_create",
        summary="Create a queue",
        description=(
            "A new queue has no quota. If created with workspace permissions only, it can't borrow "
            "until a parent admin enables it."
        ),
        request=QueueCreateSerializer,
        responses={201: QueueDetailSerializer, **problem_responses(400, 404, 409)},
        tags=["quotas"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Create a queue with its leaf in the quota tree."""
        read_query(request, NoQuery)
        return open_queue(self, request)


class QuotaView(WorkspaceView):
    """Quota of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="quota_get",
        summary="Quota of a workspace and its queues, with what is reserved",
        parameters=[QuotaQuery],
        responses={200: list_of(QuotaRowSerializer), **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one row per queue, flavor and resource, the workspace's own first."""
        return list_response(
            request, QuotaQuery, workspace_quota(self.viewer, self.workspace), QuotaRowSerializer
        )


class PresetSerializer(StrictSerializer):
    preset = serializers.ChoiceField(choices=[preset.value for preset in Preset])


class QueuePresetView(WorkspaceView):
    """The preset of a queue."""

    points = {"POST": Permission.QUEUE_EDIT}

    @extend_schema(
        operation_id="queue_preset",
        summary="Apply a preset to a queue",
        description="Strategy, flavors and quota are kept.",
        parameters=[IF_MATCH_OPTIONAL],
        request=PresetSerializer,
        responses={200: QueueSerializer, **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def post(self, request: Request, ws: str, queue: str) -> Response:
        """Set all settings of the preset at once."""
        read_query(request, NoQuery)
        found = queue_get(self.viewer, self.workspace, queue)
        wanted = read_body(PresetSerializer, request)
        preset = Preset(wanted["preset"])
        expected = if_match(request, required=False)
        queue_preset(acting_user=self.viewer, queue=found, preset=preset, expected=expected)
        return answer_row(QueueSerializer, found)
