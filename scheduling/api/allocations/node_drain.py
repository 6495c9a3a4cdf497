"""`…/admin/nodes/{name}/drain`: the preview of a drain, and the drain itself."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.serializers import CordonSerializer, NodeSerializer, OneNodeQuery
from clusters.api.views import NodeActionView
from clusters.selectors.node import node_get
from scheduling.selectors.allocations.node_drain import preview_drain
from scheduling.services.node_drain import node_drain
from tenants.access.permissions import Permission
from tenants.api.requests.query import read_query
from tenants.api.responses.schema import problem_responses


class DrainedJobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="job.pk")
    name = serializers.CharField(source="job.name")
    workspace = serializers.CharField(source="job.workspace.slug")
    user = serializers.CharField(source="job.submitted_by.username")
    state = serializers.CharField(source="job.state")
    tasks = serializers.IntegerField(help_text="Tasks on this node. The whole job is evicted.")
    checkpoint_interval_s = serializers.IntegerField(source="job.checkpoint_interval_s", allow_null=True)
    lost_gpu_hours = serializers.FloatField(
        allow_null=True,
        help_text="GPU-hours since the last declared checkpoint; null if the job hasn't started.",
    )


class RemainingPodSerializer(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    owner = serializers.CharField()


class DrainPreviewSerializer(serializers.Serializer[Any]):
    """The jobs that a drain evicts, and the pods that it doesn't evict."""

    jobs = DrainedJobSerializer(many=True)
    lost_gpu_hours = serializers.FloatField()
    remaining_pods = RemainingPodSerializer(
        many=True, source="foreign", help_text="Pods not managed by Allotment, without DaemonSet pods."
    )


class NodeDrainView(NodeActionView):
    """Drain one node."""

    points: ClassVar = {"GET": Permission.CLUSTER_VIEW, "POST": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="node_drain_preview",
        summary="Preview a drain",
        parameters=[OneNodeQuery],
        responses={200: DrainPreviewSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the jobs that a drain would evict now, with the work that would be lost."""
        node = node_get(viewer=self.viewer, name=name, **read_query(request, OneNodeQuery))
        return Response(DrainPreviewSerializer(preview_drain(viewer=self.viewer, node=node)).data)

    @extend_schema(
        operation_id="node_drain",
        summary="Drain a node",
        description=(
            "Cordons the node. After the cluster confirms, jobs with tasks on the node are evicted"
            " (`NODE_DRAINED`) and requeued with their original submission time. Pods not managed by"
            " Allotment stay. The drain is done when `cordon.drained_at` is set."
        ),
        parameters=[OneNodeQuery],
        request=CordonSerializer,
        responses={202: NodeSerializer, **problem_responses(400, 404, 422)},
        tags=["clusters"],
    )
    def post(self, request: Request, name: str) -> Response:
        """Request the cordon and the evictions."""
        wanted = CordonSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        return self.answer_node(request, name, node_drain, **wanted.validated_data)
