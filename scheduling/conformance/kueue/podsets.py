"""PodSets as roles: what one pod asks for, where it may run, and how near to its fellows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.fields import Fields
from scheduling.conformance.kueue import quantities
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


def role(source: Fields, each: Mapping[str, int], *, ended: int, elastic: bool) -> Role:
    """A PodSet whose pods are charged `each`; `elastic` says whether its minimum counts."""
    spec = source.part("template", "spec")
    count = source.number("count")
    smallest = source.number("minCount") if elastic and "minCount" in source else None
    return Role(
        name=source.text("name"),
        replicas=count,
        request=pod_request(each, pod_requests(spec)),
        min_replicas=None if smallest is None else min(smallest, count),
        ended=ended,
        rules=_rules(spec),
        topology=_topology(source.part("topologyRequest")),
    )


def request(each: Mapping[str, int], offered: Mapping[str, int] | None = None) -> Request:
    """What one pod asks for. `offered` is what it takes from its node; anything beyond that, and what is
    named with an amount of zero, is charged only."""
    on_node = {name: each[name] for name in each if each[name] and (offered is None or name in offered)}
    plain = (quantities.CPU, MEMORY)
    return Request(
        cpu=on_node.get(quantities.CPU, 0),
        memory=on_node.get(MEMORY, 0),
        extended=_extended({name: on_node[name] for name in on_node if name not in plain}),
        charged=_extended({name: each[name] for name in each if name not in on_node}),
    )


def pod_request(each: Mapping[str, int], offered: Amounts) -> PodRequest:
    """What one pod is charged, and what it takes of its node."""
    charged = request(each, offered or None)
    return PodRequest(
        cpu=charged.cpu,
        memory=charged.memory,
        extended=charged.extended,
        charged=charged.charged,
        footprint=_extended(offered),
    )


def footprint(each: Amounts) -> tuple[Extended, ...]:
    """What one pod takes of its domain, itself included."""
    return (*_extended(each), Extended(PODS, 1))


def _extended(amounts: Amounts) -> tuple[Extended, ...]:
    return tuple(Extended(name, amounts[name]) for name in sorted(amounts))


def pod_requests(spec: Fields) -> Amounts:
    """What one pod asks for by its template: containers together, or the largest step of its start-up.

    A start-up container that keeps running counts with all that follows it. A limit stands in where no
    request is named, and the overhead of the runtime comes on top.
    """
    running = _sum(_container(entry) for entry in spec.parts("containers"))
    peak: Amounts = {}
    beside: Amounts = {}
    for entry in spec.parts("initContainers"):
        own = _container(entry)
        if entry.text("restartPolicy") == "Always":
            beside = _sum((beside, own))
            own = {}
        peak = _largest(peak, _sum((beside, own)))
    total = _largest(_sum((running, beside)), peak)
    pod = spec.part("resources")
    total |= _amounts(pod.part("limits")) | _amounts(pod.part("requests"))
    return _sum((total, _amounts(spec.part("overhead"))))


def toleration(source: Fields) -> Toleration:
    """A toleration of a pod or a flavor."""
    operators = {operator.value: operator for operator in TolerationOperator}
    effects = {effect.value: effect for effect in TaintEffect}
    named = bool(source.text("effect"))
    return Toleration(
        key=source.text("key"),
        operator=source.choice("operator", operators, TolerationOperator.EQUAL),
        value=source.text("value"),
        effect=source.choice("effect", effects, TaintEffect.NO_SCHEDULE) if named else None,
    )


def _rules(spec: Fields) -> PlacementRules:
    affinity = spec.part("affinity", "nodeAffinity")
    required = affinity.part("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.parts("preferredDuringSchedulingIgnoredDuringExecution")
    return PlacementRules(
        node_selector=spec.pairs("nodeSelector"),
        node_affinity=tuple(_term(term) for term in required.parts("nodeSelectorTerms")),
        tolerations=tuple(toleration(entry) for entry in spec.parts("tolerations")),
        preferred_nodes=tuple(
            PreferredNodes(entry.number("weight"), _term(entry.part("preference"))) for entry in preferred
        ),
    )


def _term(source: Fields) -> tuple[Expression, ...]:
    return tuple(
        Expression(
            entry.text("key"), entry.choice("operator", OPERATORS, AffinityOperator.IN), entry.texts("values")
        )
        for key in ("matchExpressions", "matchFields")
        for entry in source.parts(key)
    )


def _topology(source: Fields) -> TopologyRule | None:
    if not source.value:
        return None
    # A part that only names its companions wishes for no level of its own.
    free = source.flag("unconstrained", False)
    level, mode = "", TopologyMode.UNCONSTRAINED if free else TopologyMode.PREFERRED
    for key, found in (("required", TopologyMode.REQUIRED), ("preferred", TopologyMode.PREFERRED)):
        if not level and source.text(key):
            level, mode = source.text(key), found
    first, *finer = _layers(source) or [SliceLayer("", 0)]
    return SlicedRule(
        level=level,
        mode=mode,
        slice_level=first.level,
        slice_size=first.size,
        companions=source.text("podSetGroupName"),
        layers=tuple(finer),
    )


def _layers(source: Fields) -> list[SliceLayer]:
    layers = [
        SliceLayer(entry.text("topology"), entry.number("size"))
        for entry in source.parts("podsetSliceRequiredTopologyConstraints")
    ]
    if not layers and source.text("podSetSliceRequiredTopology"):
        layers = [SliceLayer(source.text("podSetSliceRequiredTopology"), source.number("podSetSliceSize"))]
    return layers


def _container(source: Fields) -> Amounts:
    resources = source.part("resources")
    return _amounts(resources.part("limits")) | _amounts(resources.part("requests"))


def _amounts(source: Fields) -> Amounts:
    return dict(_each_amount(source))


def _each_amount(source: Fields) -> Iterator[tuple[str, int]]:
    for name, text in source.value.items():
        try:
            yield name, quantities.amount(text, name)
        except quantities.QuantityError as error:
            raise ObjectError(source.at(name), str(error)) from error


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, number in part.items():
            total[name] = quantities.saturated(total.get(name, 0) + number)
    return total


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
