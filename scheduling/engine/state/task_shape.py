"""The shape of a task: its request resolved for one flavor.

Two tasks of equal shape are interchangeable: they fit on the same nodes with the same scores. The shape is
the key of every cache of placement. What few tasks request is in separate parts, which are None for all
others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.model import (
    ClaimState,
    Device,
    Expression,
    Extended,
    Flavor,
    GpuMode,
    GpuRequest,
    MountedVolume,
    PlacementRules,
    PreferredNodes,
    PreferredPods,
    QosClass,
    Request,
    Toleration,
)
from scheduling.engine.model.mig import compute_instance
from scheduling.engine.state.pod_index import PodIdentity, ResolvedPodTerm, find_pod_identity, resolve_terms

CARD_PERCENT = 100


class PodAffinities(NamedTuple):
    """The identity of a task and its required pod (anti-)affinity; all terms must hold."""

    identity: PodIdentity
    affinity: tuple[ResolvedPodTerm, ...] = ()
    anti_affinity: tuple[ResolvedPodTerm, ...] = ()


class PlacementPreferences(NamedTuple):
    """The preferences of a task. Pairs are weights and terms; `levels` go from coarse to fine."""

    preferred_nodes: tuple[PreferredNodes, ...] = ()
    affinity: tuple[tuple[int, ResolvedPodTerm], ...] = ()
    anti_affinity: tuple[tuple[int, ResolvedPodTerm], ...] = ()
    group: str = ""
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskShape:
    """The request of one task. `cores` (core units) and `card_memory` (MiB) are per card.

    With `whole`, a card or an instance must be empty and is allocated with all its cores and memory; `cores`
    and `card_memory` are then what quota is charged for it. With `derived`, the task is allocated the share
    of a card's cores that its memory is of the card's memory, and `cores` is that share of the flavor's
    nominal card. `volume_claims` are those that exclude nodes of the flavor's cluster.
    """

    flavor: str
    policy: str
    cpu: int = 0
    memory: int = 0
    cards: int = 0
    mode: GpuMode = GpuMode.WHOLE
    cores: int = 0
    card_memory: int = 0
    models: tuple[str, ...] = ()
    node_name: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    whole: bool = False
    derived: bool = False
    profile: str = ""
    extended: tuple[Extended, ...] = ()
    qos: QosClass = QosClass.GUARANTEED
    pod_affinities: PodAffinities | None = None
    preferences: PlacementPreferences | None = None
    volume_claims: tuple[MountedVolume, ...] = ()


def resolve_shape(request: Request, rules: PlacementRules, flavor: Flavor) -> TaskShape:
    """Return the shape of a request in a flavor.

    Percentages of memory refer to the flavor's card and round up to a MiB. A slice of all cores is a whole
    card and is charged the full memory. A slice that names no cores is charged the cores in proportion to its
    memory, rounded down but at least one, so that memory alone decides how many tasks share a card.
    """
    gpu = request.gpu
    part = _NO_CARDS if gpu is None else _device_share(gpu, flavor)
    return TaskShape(
        flavor=flavor.id,
        policy=flavor.policy,
        cpu=request.cpu,
        memory=request.memory,
        cards=0 if gpu is None else gpu.cards,
        mode=GpuMode.WHOLE if gpu is None else gpu.mode,
        cores=part.cores,
        card_memory=part.memory,
        models=() if gpu is None else tuple(sorted(set(gpu.models))),
        node_name=rules.node_name,
        selector=tuple(sorted(rules.node_selector.items())),
        affinity=rules.node_affinity,
        tolerations=tuple(rules.tolerations) + flavor.tolerations,
        whole=part.whole,
        derived=part.derived,
        profile="" if gpu is None else gpu.profile,
        extended=_sum_extended(request.extended),
        qos=request.qos,
        pod_affinities=_find_pod_affinities(rules),
        preferences=_find_preferences(rules, flavor),
        volume_claims=_select_restrictive(rules.volume_claims, flavor) if rules.volume_claims else (),
    )


def device_share_of(task: TaskShape, device: Device) -> tuple[int, int]:
    """Return the core units and MiB that a task is allocated of one card."""
    if task.whole:
        return device.cores, device.memory
    if task.derived:
        return max(1, device.cores * task.card_memory // max(device.memory, 1)), task.card_memory
    return task.cores, task.card_memory


class _DeviceShare(NamedTuple):
    cores: int
    memory: int
    whole: bool = False
    derived: bool = False


_NO_CARDS = _DeviceShare(0, 0)


def _device_share(gpu: GpuRequest, flavor: Flavor) -> _DeviceShare:
    """Return what a task is allocated of each card."""
    if gpu.mode is GpuMode.MIG:
        return _DeviceShare(*compute_instance(gpu.profile, flavor), whole=True)
    if gpu.mode is GpuMode.WHOLE or (gpu.cores is not None and gpu.cores >= flavor.card_cores):
        return _DeviceShare(
            flavor.card_cores if gpu.cores is None else gpu.cores, flavor.card_memory, whole=True
        )
    percent = gpu.memory_percent or 0
    memory = -(-flavor.card_memory * percent // CARD_PERCENT) if gpu.memory is None else gpu.memory
    if gpu.cores is not None:
        return _DeviceShare(gpu.cores, memory)
    if gpu.memory is None:
        return _DeviceShare(max(1, flavor.card_cores * percent // CARD_PERCENT), memory)
    share = flavor.card_cores * memory // flavor.card_memory if flavor.card_memory else flavor.card_cores
    return _DeviceShare(max(1, share), memory, derived=True)


def _sum_extended(extended: tuple[Extended, ...]) -> tuple[Extended, ...]:
    if len(extended) < 2:
        return tuple(item for item in extended if item.amount)
    total: dict[str, int] = {}
    for item in extended:
        total[item.resource] = total.get(item.resource, 0) + item.amount
    return tuple(Extended(name, total[name]) for name in sorted(total) if total[name])


def _select_restrictive(claims: Iterable[MountedVolume], flavor: Flavor) -> tuple[MountedVolume, ...]:
    return tuple(
        claim
        for claim in claims
        if claim.cluster == flavor.cluster and (claim.terms or claim.state is not ClaimState.BOUND)
    )


def _find_pod_affinities(rules: PlacementRules) -> PodAffinities | None:
    identity = find_pod_identity(rules)
    if identity is None:
        return None
    near = resolve_terms(rules.pod_affinity, identity.namespace)
    apart = resolve_terms(rules.pod_anti_affinity, identity.namespace)
    return PodAffinities(identity, near, apart)


def _find_preferences(rules: PlacementRules, flavor: Flavor) -> PlacementPreferences | None:
    pods = rules.preferred_pods or rules.avoided_pods
    if not (rules.preferred_nodes or pods or rules.group):
        return None
    return PlacementPreferences(
        rules.preferred_nodes,
        _resolve_weighted_terms(rules.preferred_pods, rules.namespace),
        _resolve_weighted_terms(rules.avoided_pods, rules.namespace),
        rules.group,
        flavor.topology if rules.group else (),
    )


def _resolve_weighted_terms(
    terms: Iterable[PreferredPods], namespace: str
) -> tuple[tuple[int, ResolvedPodTerm], ...]:
    return tuple((wish.weight, resolve_terms((wish.term,), namespace)[0]) for wish in terms)
