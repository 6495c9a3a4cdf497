"""A task as placement sees it: its request resolved for one flavor.

Two tasks of equal shape are interchangeable: they fit on the same nodes with the same scores. So the
shape is the key of every cache here, and what few tasks ask for stands in parts of its own, absent
for all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.model import (
    Device,
    Expression,
    Extended,
    Flavor,
    GpuMode,
    GpuRequest,
    HostPort,
    PlacementRules,
    PreferredNodes,
    PreferredPods,
    QosClass,
    Request,
    Toleration,
)
from scheduling.engine.model.mig import instance
from scheduling.engine.state.presence import Kin, Sought, kin_of, sought

CARD_PERCENT = 100


class Relations(NamedTuple):
    """Who a task is to others, whom it must be near to (`near`, all terms) and away from (`apart`)."""

    kin: Kin
    near: tuple[Sought, ...] = ()
    apart: tuple[Sought, ...] = ()


class Liking(NamedTuple):
    """What a task had better have. Pairs are weights and terms; `levels` go from coarse to fine."""

    nodes: tuple[PreferredNodes, ...] = ()
    near: tuple[tuple[int, Sought], ...] = ()
    apart: tuple[tuple[int, Sought], ...] = ()
    group: str = ""
    levels: tuple[str, ...] = ()
    image: str = ""
    last_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskShape:
    """One task's needs. `cores` (core units) and `card_memory` (MiB) are per card.

    With `whole`, a card or an instance must be empty and is taken as it is; `cores` and `card_memory`
    are then what quota is charged for it. With `derived`, the task holds the part of a card's cores
    that its memory is of the card's memory, and `cores` is what the flavor's nominal card would give.
    `best_effort` tasks go first under pressure, `aligned` ones are kept in few NUMA zones.
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
    ports: tuple[HostPort, ...] = ()
    aligned: bool = True
    best_effort: bool = False
    relations: Relations | None = None
    liking: Liking | None = None


def resolve(request: Request, rules: PlacementRules, flavor: Flavor) -> TaskShape:
    """The shape that a request takes in a flavor.

    Percentages of memory refer to the flavor's card and round up to a MiB. A slice of all cores is a
    whole card: it takes and is charged the full memory. A slice that names no cores is charged those
    that go with its memory, rounded down but at least one, so that memory alone decides how many
    share a card.
    """
    gpu = request.gpu
    part = _NO_CARDS if gpu is None else _part(gpu, flavor)
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
        extended=_summed(request.extended),
        ports=rules.ports,
        aligned=request.qos is QosClass.GUARANTEED,
        best_effort=request.qos is QosClass.BEST_EFFORT,
        relations=_relations(rules),
        liking=_liking(rules, flavor),
    )


def part_of(task: TaskShape, device: Device) -> tuple[int, int]:
    """Core units and MiB that a task holds of one card."""
    if task.whole:
        return device.cores, device.memory
    if task.derived:
        return max(1, device.cores * task.card_memory // max(device.memory, 1)), task.card_memory
    return task.cores, task.card_memory


class _Part(NamedTuple):
    cores: int
    memory: int
    whole: bool = False
    derived: bool = False


_NO_CARDS = _Part(0, 0)


def _part(gpu: GpuRequest, flavor: Flavor) -> _Part:
    """What a task takes of each card."""
    if gpu.mode is GpuMode.MIG:
        return _Part(*instance(gpu.profile, flavor), whole=True)
    if gpu.mode is GpuMode.WHOLE or (gpu.cores is not None and gpu.cores >= flavor.card_cores):
        return _Part(flavor.card_cores if gpu.cores is None else gpu.cores, flavor.card_memory, whole=True)
    percent = gpu.memory_percent or 0
    memory = -(-flavor.card_memory * percent // CARD_PERCENT) if gpu.memory is None else gpu.memory
    if gpu.cores is not None:
        return _Part(gpu.cores, memory)
    if gpu.memory is None:
        return _Part(max(1, flavor.card_cores * percent // CARD_PERCENT), memory)
    share = flavor.card_cores * memory // flavor.card_memory if flavor.card_memory else flavor.card_cores
    return _Part(max(1, share), memory, derived=True)


def _summed(extended: tuple[Extended, ...]) -> tuple[Extended, ...]:
    if len(extended) < 2:
        return tuple(item for item in extended if item.amount)
    total: dict[str, int] = {}
    for item in extended:
        total[item.resource] = total.get(item.resource, 0) + item.amount
    return tuple(Extended(name, total[name]) for name in sorted(total) if total[name])


def _relations(rules: PlacementRules) -> Relations | None:
    kin = kin_of(rules)
    if kin is None:
        return None
    near, apart = sought(rules.pod_affinity, kin.namespace), sought(rules.pod_anti_affinity, kin.namespace)
    return Relations(kin, near, apart)


def _liking(rules: PlacementRules, flavor: Flavor) -> Liking | None:
    pods = rules.preferred_pods or rules.avoided_pods
    if not (rules.preferred_nodes or pods or rules.group or rules.image or rules.last_nodes):
        return None
    return Liking(
        rules.preferred_nodes,
        _weighed(rules.preferred_pods, rules.namespace),
        _weighed(rules.avoided_pods, rules.namespace),
        rules.group,
        flavor.topology if rules.group else (),
        rules.image,
        rules.last_nodes,
    )


def _weighed(terms: Iterable[PreferredPods], namespace: str) -> tuple[tuple[int, Sought], ...]:
    return tuple((wish.weight, sought((wish.term,), namespace)[0]) for wish in terms)
