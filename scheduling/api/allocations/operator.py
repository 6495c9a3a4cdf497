"""The allocations on nodes and cards, for platform admins."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.serializers import OneNodeQuery
from clusters.api.views import OperatorView
from clusters.selectors.node import device_get, node_get
from scheduling.api.jobs.serializers import DeviceHoldSerializer, NodeHoldSerializer
from scheduling.selectors.allocations.holder import device_holds, node_holds
from tenants.api.requests.query import OffsetQuery, read_query
from tenants.api.responses.pages import list_of, page_body, page_of
from tenants.api.responses.schema import problem_responses


class NodeHoldsQuery(OneNodeQuery, OffsetQuery):
    """The query: a node, and a part of the list."""


class NodeHoldsView(OperatorView):
    """Live allocations on one node."""

    @extend_schema(
        operation_id="node_holds",
        summary="Workloads on a node",
        parameters=[NodeHoldsQuery],
        responses={200: list_of(NodeHoldSerializer), **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Return one page of allocations, oldest first."""
        query = read_query(request, NodeHoldsQuery)
        node = node_get(viewer=self.viewer, name=name, cluster=query.pop("cluster", ""))
        holds = node_holds(viewer=self.viewer, nodes=[node]).get(node.pk, [])
        items, total, following = page_of(holds, **query)
        return Response(page_body(NodeHoldSerializer(items, many=True).data, total, following))


class DeviceHoldsView(OperatorView):
    """Live allocations on one card."""

    @extend_schema(
        operation_id="device_holds",
        summary="Workloads on a GPU",
        parameters=[OffsetQuery],
        responses={200: list_of(DeviceHoldSerializer), **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, uuid: str) -> Response:
        """Return one page of allocations, oldest first."""
        query = read_query(request, OffsetQuery)
        device = device_get(viewer=self.viewer, uuid=uuid)
        holds = device_holds(viewer=self.viewer, devices=[device]).get(device.pk, [])
        items, total, following = page_of(holds, **query)
        return Response(page_body(DeviceHoldSerializer(items, many=True).data, total, following))
