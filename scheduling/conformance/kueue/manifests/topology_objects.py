"""Converts Kubernetes and Kueue objects for topology-aware placement.

Objects are mappings with the field names of their JSON form. Amounts are integers: CPU in millicores, other
resources in their base unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue import topology_aware as topology
from scheduling.conformance.kueue.manifests import podsets, quantities
from scheduling.conformance.kueue.topology_aware import DomainTasks
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    PlacementRules,
    Taint,
    TaintEffect,
    Toleration,
    TopologyMode,
)

Object = Mapping[str, Any]
Amounts = dict[str, int]

# Field selectors use this key for a node's name; no label can have it.
_NAME_FIELD = "metadata.name"
# The annotations of a pod with a topology request.
_BY_TOPOLOGY = tuple(
    f"kueue.x-k8s.io/podset-{rule}"
    for rule in (
        "required-topology",
        "preferred-topology",
        "unconstrained-topology",
        "slice-required-topology",
        "slice-required-topology-constraints",
    )
)


def read_amounts(listed: Mapping[str, str | int] | None) -> Amounts:
    """Return a resource list as integers."""
    return {name: quantities.parse_amount(quantity, name) for name, quantity in (listed or {}).items()}


def add_amounts(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """Return the sums by resource."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in [*first, *second]}


def is_usable(node: Object) -> bool:
    """Return whether a node is ready and not cordoned."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


def topology_node(node: Object) -> topology.TopologyNode:
    """Return a node with its labels, allocatable amounts and taints."""
    name = node["metadata"]["name"]
    return topology.TopologyNode(
        name=name,
        labels={**(node["metadata"].get("labels") or {}), _NAME_FIELD: name},
        allocatable=read_amounts((node.get("status") or {}).get("allocatable")),
        taints=tuple(
            Taint(taint["key"], taint.get("value", ""), TaintEffect(taint["effect"]))
            for taint in (node.get("spec") or {}).get("taints") or ()
        ),
    )


def flavor_nodes(nodes: Iterable[Object], labels: Mapping[str, str] | None) -> list[topology.TopologyNode]:
    """Return the usable nodes with a flavor's labels."""
    found = [topology_node(node) for node in nodes if is_usable(node)]
    wanted = (labels or {}).items()
    return [node for node in found if all(node.labels.get(key) == value for key, value in wanted)]


def pod_amounts(pods: Iterable[Object]) -> list[tuple[str, Amounts]]:
    """Return the amounts of pods on nodes that have not ended, each with its node.

    Pods of workloads that were placed by topology are left out, because their workload counts.
    """
    return [
        (
            pod["spec"]["nodeName"],
            add_amounts(podsets.pod_requests(CaseFields(pod["spec"], "Pod: spec")), {"pods": 1}),
        )
        for pod in pods
        if pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
        and not set(_BY_TOPOLOGY).intersection((pod.get("metadata") or {}).get("annotations") or ())
    ]


def read_tolerations(objects: Iterable[Object] | None) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod or flavor."""
    return tuple(podsets.read_toleration(CaseFields(item, "toleration")) for item in objects or ())


def placement_rules(
    selector: Mapping[str, str] | None, affinity: Object | None, tolerated: Iterable[Object] | None
) -> PlacementRules:
    """Return the placement rules of pods. Required affinity without a usable term allows no node."""
    required = (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = () if required is None else tuple(map(_term, required.get("nodeSelectorTerms") or ())) or ((),)
    return PlacementRules(
        node_selector=dict(selector or {}), node_affinity=terms, tolerations=read_tolerations(tolerated)
    )


def read_preferences(affinity: Object | None) -> tuple[topology.NodePreference, ...]:
    """Return the preferred node affinity."""
    wishes = (affinity or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(topology.NodePreference(wish["weight"], _term(wish["preference"])) for wish in wishes)


def _term(term: Object) -> tuple[Expression, ...]:
    """Return one term. The only field selector of Kubernetes for nodes is their name."""
    conditions = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return tuple(
        Expression(one["key"], AffinityOperator(one["operator"]), tuple(one.get("values") or ()))
        for one in conditions
    )


def topology_rule(request: Object | None) -> tuple[TopologyMode, str | None, tuple[topology.SliceLayer, ...]]:
    """Return mode, level and slice layers of a PodSet's topology request; without one it is unconstrained."""
    asked = request or {}
    layers = tuple(
        topology.SliceLayer(layer["topology"], layer.get("size", 0))
        for layer in asked.get("podsetSliceRequiredTopologyConstraints") or ()
    )
    if not layers and asked.get("podSetSliceRequiredTopology"):
        layers = (topology.SliceLayer(asked["podSetSliceRequiredTopology"], asked.get("podSetSliceSize", 0)),)
    if asked.get("required"):
        return TopologyMode.REQUIRED, asked["required"], layers
    if asked.get("preferred"):
        return TopologyMode.PREFERRED, asked["preferred"], layers
    return TopologyMode.UNCONSTRAINED, None, layers


def read_placement(assignment: Object | None) -> topology.Placement | None:
    """Return the placement of a topology assignment of the v1beta2 API, which stores domains compressed."""
    if assignment is None:
        return None
    shares: list[topology.Share] = []
    for piece in assignment.get("slices") or ():
        count = piece["domainCount"]
        columns = [_values(level, count) for level in piece["valuesPerLevel"]]
        tasks = _counts(piece["podCounts"], count)
        shares.extend(map(topology.Share, zip(*columns, strict=True), tasks))
    return topology.Placement(tuple(assignment["levels"]), tuple(shares))


def build_assignment(levels: Sequence[str], domains: Sequence[DomainTasks]) -> dict[str, Any]:
    """Return the domains of tasks as a topology assignment of the v1beta2 API, in one slice."""
    columns = [[part.domain[index] for part in domains] for index in range(len(levels))]
    return {
        "levels": list(levels),
        "slices": [
            {
                "domainCount": len(domains),
                "podCounts": {"individual": [part.tasks for part in domains]},
                "valuesPerLevel": [{"individual": {"roots": column}} for column in columns],
            }
        ],
    }


def _values(values: Object, count: int) -> list[str]:
    if values.get("universal") is not None:
        return [values["universal"]] * count
    own = values["individual"]
    return [f"{own.get('prefix', '')}{root}{own.get('suffix', '')}" for root in own["roots"]]


def _counts(counts: Object, count: int) -> Sequence[int]:
    if counts.get("universal") is not None:
        return [counts["universal"]] * count
    return list(counts["individual"])
