"""Converts PodSets to roles: the request of a pod, its placement rules, and its topology request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.topology_aware import PodRequest, SlicedRule, SliceLayer
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    Extended,
    PlacementRules,
    PreferredNodes,
    Request,
    Role,
    TaintEffect,
    Toleration,
    TolerationOperator,
    TopologyMode,
    TopologyRule,
)

PODS = "pods"
MEMORY = "memory"
OPERATORS = {operator.value: operator for operator in AffinityOperator}

Amounts = dict[str, int]
"""Amounts by resource, in canonical units."""


def build_role(source: CaseFields, each: Mapping[str, int], *, ended: int, elastic: bool) -> Role:
    """Return the role of a PodSet whose pods are charged `each`; its minimum counts only with `elastic`."""
    spec = source.read_object("template", "spec")
    count = source.read_number("count")
    smallest = source.read_number("minCount") if elastic and "minCount" in source else None
    return Role(
        name=source.read_text("name"),
        replicas=count,
        request=pod_request(each, pod_requests(spec)),
        min_replicas=None if smallest is None else min(smallest, count),
        ended=ended,
        rules=_rules(spec),
        topology=_topology(source.read_object("topologyRequest")),
    )


def build_request(each: Mapping[str, int], offered: Mapping[str, int] | None = None) -> Request:
    """Return the request of one pod. `offered` are the resources that it takes from its node; other
    resources, and those with an amount of zero, are only charged.
    """
    on_node = {name: each[name] for name in each if each[name] and (offered is None or name in offered)}
    plain = (quantities.CPU, MEMORY)
    return Request(
        cpu=on_node.get(quantities.CPU, 0),
        memory=on_node.get(MEMORY, 0),
        extended=_extended({name: on_node[name] for name in on_node if name not in plain}),
        charged=_extended({name: each[name] for name in each if name not in on_node}),
    )


def pod_request(each: Mapping[str, int], offered: Amounts) -> PodRequest:
    """Return the charge of one pod and its footprint on a node."""
    charged = build_request(each, offered or None)
    return PodRequest(
        cpu=charged.cpu,
        memory=charged.memory,
        extended=charged.extended,
        charged=charged.charged,
        footprint=_extended(offered),
    )


def build_footprint(each: Amounts) -> tuple[Extended, ...]:
    """Return the resources that one pod takes in its domain, including the pod itself."""
    return (*_extended(each), Extended(PODS, 1))


def _extended(amounts: Amounts) -> tuple[Extended, ...]:
    return tuple(Extended(name, amounts[name]) for name in sorted(amounts))


def pod_requests(spec: CaseFields) -> Amounts:
    """Return the requests of a pod by its template: the sum of its containers, or its largest init container.

    A sidecar (an init container that keeps running) is added to all containers that start after it. A limit
    is used if there is no request, and the overhead of the runtime is added.
    """
    running = _sum(_container(entry) for entry in spec.read_objects("containers"))
    peak: Amounts = {}
    beside: Amounts = {}
    for entry in spec.read_objects("initContainers"):
        own = _container(entry)
        if entry.read_text("restartPolicy") == "Always":
            beside = _sum((beside, own))
            own = {}
        peak = _largest(peak, _sum((beside, own)))
    total = _largest(_sum((running, beside)), peak)
    pod = spec.read_object("resources")
    total |= _amounts(pod.read_object("limits")) | _amounts(pod.read_object("requests"))
    return _sum((total, _amounts(spec.read_object("overhead"))))


def read_toleration(source: CaseFields) -> Toleration:
    """Return a toleration of a pod or a flavor."""
    operators = {operator.value: operator for operator in TolerationOperator}
    effects = {effect.value: effect for effect in TaintEffect}
    named = bool(source.read_text("effect"))
    return Toleration(
        key=source.read_text("key"),
        operator=source.read_choice("operator", operators, TolerationOperator.EQUAL),
        value=source.read_text("value"),
        effect=source.read_choice("effect", effects, TaintEffect.NO_SCHEDULE) if named else None,
    )


def _rules(spec: CaseFields) -> PlacementRules:
    affinity = spec.read_object("affinity", "nodeAffinity")
    required = affinity.read_object("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.read_objects("preferredDuringSchedulingIgnoredDuringExecution")
    return PlacementRules(
        node_selector=spec.read_labels("nodeSelector"),
        node_affinity=tuple(_term(term) for term in required.read_objects("nodeSelectorTerms")),
        tolerations=tuple(read_toleration(entry) for entry in spec.read_objects("tolerations")),
        preferred_nodes=tuple(
            PreferredNodes(entry.read_number("weight"), _term(entry.read_object("preference")))
            for entry in preferred
        ),
    )


def _term(source: CaseFields) -> tuple[Expression, ...]:
    return tuple(
        Expression(
            entry.read_text("key"),
            entry.read_choice("operator", OPERATORS, AffinityOperator.IN),
            entry.read_texts("values"),
        )
        for key in ("matchExpressions", "matchFields")
        for entry in source.read_objects(key)
    )


def _topology(source: CaseFields) -> TopologyRule | None:
    if not source.value:
        return None
    # A request that only names its pod set group has no level.
    free = source.read_flag("unconstrained", False)
    level, mode = "", TopologyMode.UNCONSTRAINED if free else TopologyMode.PREFERRED
    for key, found in (("required", TopologyMode.REQUIRED), ("preferred", TopologyMode.PREFERRED)):
        if not level and source.read_text(key):
            level, mode = source.read_text(key), found
    first, *finer = _layers(source) or [SliceLayer("", 0)]
    return SlicedRule(
        level=level,
        mode=mode,
        slice_level=first.level,
        slice_size=first.size,
        companions=source.read_text("podSetGroupName"),
        layers=tuple(finer),
    )


def _layers(source: CaseFields) -> list[SliceLayer]:
    layers = [
        SliceLayer(entry.read_text("topology"), entry.read_number("size"))
        for entry in source.read_objects("podsetSliceRequiredTopologyConstraints")
    ]
    if not layers and source.read_text("podSetSliceRequiredTopology"):
        layers = [
            SliceLayer(source.read_text("podSetSliceRequiredTopology"), source.read_number("podSetSliceSize"))
        ]
    return layers


def _container(source: CaseFields) -> Amounts:
    resources = source.read_object("resources")
    return _amounts(resources.read_object("limits")) | _amounts(resources.read_object("requests"))


def _amounts(source: CaseFields) -> Amounts:
    return dict(_each_amount(source))


def _each_amount(source: CaseFields) -> Iterator[tuple[str, int]]:
    for name, text in source.value.items():
        try:
            yield name, quantities.parse_amount(text, name)
        except quantities.KueueQuantityError as error:
            raise ObjectError(source.path_of(name), str(error)) from error


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, number in part.items():
            total[name] = quantities.cap_amount(total.get(name, 0) + number)
    return total


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
