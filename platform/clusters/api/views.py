"""Clusters, nodes and cards, for operators."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.serializers import (
    ClusterSerializer,
    DeviceQuery,
    DeviceSerializer,
    NodeQuery,
    NodeSerializer,
)
from clusters.selectors.node import (
    DeviceFilter,
    NodeFilter,
    cluster_list,
    device_get,
    device_list,
    node_get,
    node_list,
)
from tenants.api.base import PlatformView
from tenants.api.pages import answer, list_of, page_of
from tenants.api.query import NoQuery, OffsetQuery, read_query
from tenants.api.schema import problems
from tenants.permissions import Permission


class OperatorView(PlatformView):
    """Reading needs `cluster.view`."""

    points = {"GET": Permission.CLUSTER_VIEW}


class ClustersView(OperatorView):
    """All clusters."""

    @extend_schema(
        operation_id="cluster_list",
        summary="Clusters",
        parameters=[OffsetQuery],
        responses={200: list_of(ClusterSerializer), **problems(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Answer one page of clusters by name."""
        query = read_query(request, OffsetQuery)
        items, total, following = page_of(cluster_list(viewer=self.viewer), **query)
        return Response(answer(ClusterSerializer(items, many=True).data, total, following))


class NodesView(OperatorView):
    """All nodes."""

    @extend_schema(
        operation_id="node_list",
        summary="Nodes with their cards",
        parameters=[NodeQuery],
        responses={200: list_of(NodeSerializer), **problems(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Answer one page of nodes by cluster and name."""
        query = read_query(request, NodeQuery)
        limit, offset = query.pop("limit"), query.pop("offset")
        nodes = node_list(viewer=self.viewer, filters=NodeFilter(**query))
        items, total, following = page_of(nodes, limit=limit, offset=offset)
        return Response(answer(NodeSerializer(items, many=True).data, total, following))


class NodeView(OperatorView):
    """One node."""

    @extend_schema(
        operation_id="node_get",
        summary="One node with its cards",
        responses={200: NodeSerializer, **problems(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Answer the node of that name."""
        read_query(request, NoQuery)
        return Response(NodeSerializer(node_get(viewer=self.viewer, name=name)).data)


class DevicesView(OperatorView):
    """All cards."""

    @extend_schema(
        operation_id="device_list",
        summary="Cards",
        parameters=[DeviceQuery],
        responses={200: list_of(DeviceSerializer), **problems(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Answer one page of cards by cluster, node and index."""
        query = read_query(request, DeviceQuery)
        limit, offset = query.pop("limit"), query.pop("offset")
        devices = device_list(viewer=self.viewer, filters=DeviceFilter(**query))
        items, total, following = page_of(devices, limit=limit, offset=offset)
        return Response(answer(DeviceSerializer(items, many=True).data, total, following))


class DeviceView(OperatorView):
    """One card."""

    @extend_schema(
        operation_id="device_get",
        summary="One card",
        responses={200: DeviceSerializer, **problems(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, uuid: str) -> Response:
        """Answer the card of that UUID."""
        read_query(request, NoQuery)
        return Response(DeviceSerializer(device_get(viewer=self.viewer, uuid=uuid)).data)
