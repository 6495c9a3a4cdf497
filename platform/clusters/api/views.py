"""Clusters, nodes and cards, for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.serializers import (
    CellChangeSerializer,
    CellQuery,
    CellSerializer,
    ClusterChangeSerializer,
    ClusterQuery,
    ClusterSerializer,
    CordonSerializer,
    DeviceQuery,
    DeviceSerializer,
    FlavorChangeSerializer,
    FlavorQuery,
    FlavorSerializer,
    NodeListQuery,
    NodeSerializer,
    OneNodeQuery,
)
from clusters.models import PlacementPolicy, Sharing
from clusters.selectors.cell import cell_get, cell_list
from clusters.selectors.flavor import cluster_get, flavor_get, flavor_rows
from clusters.selectors.node import (
    DeviceFilter,
    NodeFilter,
    cluster_list,
    device_get,
    device_list,
    node_get,
    node_list,
)
from clusters.services.cell import cell_set
from clusters.services.cluster import cluster_set
from clusters.services.flavor import flavor_set
from clusters.services.node_cordon import node_cordon, node_uncordon
from foundation.sql.versions import if_match, version_header
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response, listed_by
from tenants.api.responses.schema import IF_MATCH, problem_responses

_NODE_FILTERS: Final = ("cluster", "flavor", "name", "ready", "cordoned")
_DEVICE_FILTERS: Final = ("cluster", "node", "model", "uuid", "healthy")


class OperatorView(PlatformView):
    """The base of views for operators; reading needs `cluster.view`."""

    points = {"GET": Permission.CLUSTER_VIEW}


class CellsView(OperatorView):
    """All scheduling domains."""

    @extend_schema(
        operation_id="cell_list",
        summary="Scheduling domains",
        parameters=[CellQuery],
        responses={200: list_of(CellSerializer), **problem_responses(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of scheduling domains by name."""
        return list_response(request, CellQuery, cell_list(viewer=self.viewer), CellSerializer)


class CellView(OperatorView):
    """One scheduling domain."""

    points = {**OperatorView.points, "PATCH": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="cell_get",
        summary="Get a scheduling domain",
        responses={200: CellSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, cell: str) -> Response:
        """Return the scheduling domain of that name."""
        read_query(request, NoQuery)
        found = cell_get(viewer=self.viewer, name=cell)
        return Response(CellSerializer(found).data, headers=version_header(found))

    @extend_schema(
        operation_id="cell_update",
        summary="Change how a scheduling domain shares unused quota",
        description=(
            "Applies from the next scheduling cycle. Running jobs keep what they borrowed until a pending"
            " job may reclaim it by the new rule."
        ),
        parameters=[IF_MATCH],
        request=CellChangeSerializer,
        responses={200: CellSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def patch(self, request: Request, cell: str) -> Response:
        """Change what is named."""
        read_query(request, NoQuery)
        found, expected = cell_get(viewer=self.viewer, name=cell), if_match(request)
        wanted = CellChangeSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        sharing = Sharing(wanted.validated_data["sharing"])
        changed = cell_set(acting_user=self.viewer, cell=found, sharing=sharing, expected=expected)
        return Response(CellSerializer(changed).data, headers=version_header(changed))


class ClustersView(OperatorView):
    """All clusters."""

    @extend_schema(
        operation_id="cluster_list",
        summary="Clusters",
        parameters=[ClusterQuery],
        responses={200: list_of(ClusterSerializer), **problem_responses(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of clusters by name."""
        return list_response(request, ClusterQuery, cluster_list(viewer=self.viewer), ClusterSerializer)


class ClusterView(OperatorView):
    """One cluster."""

    points = {**OperatorView.points, "PATCH": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="cluster_get",
        summary="Get a cluster",
        responses={200: ClusterSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, cluster: str) -> Response:
        """Return the cluster of that name."""
        read_query(request, NoQuery)
        found = cluster_get(viewer=self.viewer, name=cluster)
        return Response(ClusterSerializer(found).data, headers=version_header(found))

    @extend_schema(
        operation_id="cluster_update",
        summary="Enable or disable resizing of GPU memory",
        description=(
            "Experimental and not yet tested on hardware. In Kubernetes, the agent must run on the GPU nodes."
        ),
        parameters=[IF_MATCH],
        request=ClusterChangeSerializer,
        responses={200: ClusterSerializer, **problem_responses(400, 404, 422)},
        tags=["clusters"],
    )
    def patch(self, request: Request, cluster: str) -> Response:
        """Change what is named."""
        read_query(request, NoQuery)
        found, expected = cluster_get(viewer=self.viewer, name=cluster), if_match(request)
        wanted = ClusterChangeSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        changed = cluster_set(
            acting_user=self.viewer, cluster=found, expected=expected, **wanted.validated_data
        )
        return Response(ClusterSerializer(changed).data, headers=version_header(changed))


class FlavorsView(OperatorView):
    """All pools."""

    @extend_schema(
        operation_id="flavor_list",
        summary="Pools",
        parameters=[FlavorQuery],
        responses={200: list_of(FlavorSerializer), **problem_responses(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of pools by cluster and name."""
        return list_response(request, FlavorQuery, flavor_rows(viewer=self.viewer), FlavorSerializer)


class FlavorView(OperatorView):
    """One pool."""

    points = {**OperatorView.points, "PATCH": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="flavor_get",
        summary="Get a pool",
        responses={200: FlavorSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, cluster: str, flavor_name: str) -> Response:
        """Return the pool of that name in the cluster."""
        read_query(request, NoQuery)
        found = flavor_get(viewer=self.viewer, cluster=cluster, name=flavor_name)
        return Response(FlavorSerializer(found).data, headers=version_header(found))

    @extend_schema(
        operation_id="flavor_update",
        summary="Set the placement policy of a pool, and the CPU and memory quota that go with one GPU",
        description=(
            "The placement policy applies to tasks that start from now on. The quota per GPU is used when "
            "quota is assigned in GPUs; assigned quota isn't changed."
        ),
        parameters=[IF_MATCH],
        request=FlavorChangeSerializer,
        responses={200: FlavorSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def patch(self, request: Request, cluster: str, flavor_name: str) -> Response:
        """Set all of them; null is the ratio of the nodes, and without a policy it stays as it is."""
        read_query(request, NoQuery)
        found = flavor_get(viewer=self.viewer, cluster=cluster, name=flavor_name)
        expected = if_match(request)
        wanted = FlavorChangeSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        wished = wanted.validated_data
        changed = flavor_set(
            acting_user=self.viewer,
            flavor=found,
            cpu_per_gpu=wished["cpu_per_gpu"],
            memory_per_gpu=wished["memory_per_gpu"],
            placement=PlacementPolicy(wished.get("placement", found.placement_policy)),
            expected=expected,
        )
        return Response(FlavorSerializer(changed).data, headers=version_header(changed))


class NodesView(OperatorView):
    """All nodes."""

    @extend_schema(
        operation_id="node_list",
        summary="Nodes with their GPUs",
        parameters=[NodeListQuery],
        responses={200: list_of(NodeSerializer), **problem_responses(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of nodes by cluster and name."""
        query = read_query(request, NodeListQuery)
        filters = NodeFilter(**{name: query[name] for name in _NODE_FILTERS if name in query})
        return listed_by(query, NodeListQuery, node_list(viewer=self.viewer, filters=filters), NodeSerializer)


class NodeView(OperatorView):
    """One node."""

    @extend_schema(
        operation_id="node_get",
        summary="Get a node with its GPUs",
        parameters=[OneNodeQuery],
        responses={200: NodeSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the node of that name."""
        node = node_get(viewer=self.viewer, name=name, **read_query(request, OneNodeQuery))
        return Response(NodeSerializer(node).data)


class NodeActionView(OperatorView):
    """Look the node up, ask for the change, answer the node as it is then."""

    points = {"POST": Permission.CLUSTER_EDIT}

    def answer_node(self, request: Request, name: str, act: Callable[..., object], **values: Any) -> Response:
        place = {"name": name, **read_query(request, OneNodeQuery)}
        act(acting_user=self.viewer, node=node_get(viewer=self.viewer, **place), **values)
        return Response(NodeSerializer(node_get(viewer=self.viewer, **place)).data, status=202)


class NodeCordonView(NodeActionView):
    """Cordon one node."""

    @extend_schema(
        operation_id="node_cordon",
        summary="Cordon a node",
        description=(
            "No new pods are placed on the node from now on; running pods aren't affected. The cluster"
            " follows within seconds: `cordon.applied_at`. A node that is already cordoned isn't changed."
        ),
        parameters=[OneNodeQuery],
        request=CordonSerializer,
        responses={202: NodeSerializer, **problem_responses(400, 404, 422)},
        tags=["clusters"],
    )
    def post(self, request: Request, name: str) -> Response:
        """Request that the cluster sets `spec.unschedulable`."""
        wanted = CordonSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        return self.answer_node(request, name, node_cordon, **wanted.validated_data)


class NodeUncordonView(NodeActionView):
    """Uncordon one node."""

    @extend_schema(
        operation_id="node_uncordon",
        summary="Uncordon a node",
        description=(
            "New pods are placed on the node after the cluster confirms. A drain in progress stops: jobs"
            " that aren't evicted yet keep running."
        ),
        parameters=[OneNodeQuery],
        request=None,
        responses={202: NodeSerializer, **problem_responses(400, 404, 422)},
        tags=["clusters"],
    )
    def post(self, request: Request, name: str) -> Response:
        """Request that the cluster clears `spec.unschedulable`."""
        return self.answer_node(request, name, node_uncordon)


class DevicesView(OperatorView):
    """All cards."""

    @extend_schema(
        operation_id="device_list",
        summary="GPUs",
        parameters=[DeviceQuery],
        responses={200: list_of(DeviceSerializer), **problem_responses(400)},
        tags=["clusters"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of GPUs by cluster, node and index."""
        query = read_query(request, DeviceQuery)
        filters = DeviceFilter(**{name: query[name] for name in _DEVICE_FILTERS if name in query})
        devices = device_list(viewer=self.viewer, filters=filters)
        return listed_by(query, DeviceQuery, devices, DeviceSerializer, by_keys=True)


class DeviceView(OperatorView):
    """One card."""

    @extend_schema(
        operation_id="device_get",
        summary="Get a GPU",
        responses={200: DeviceSerializer, **problem_responses(400, 404)},
        tags=["clusters"],
    )
    def get(self, request: Request, uuid: str) -> Response:
        """Return the GPU of that UUID."""
        read_query(request, NoQuery)
        return Response(DeviceSerializer(device_get(viewer=self.viewer, uuid=uuid)).data)
