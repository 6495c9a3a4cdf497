"""What free capacity is scarce, given what work is usual: card models, and nodes for many-card tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.index.workload import Workload, WorkloadShape
from scheduling.engine.state.fleet import Bools, Fleet, Ints

# Beyond this a model is scarce, and by how much does not matter.
MOST_PRESSURE = 1.5
# Demand that is expected counts half again: a gang that waits costs more than a slice that waits.
CAUTION = 1.5
# Risks are told in quarters, so that scores stay as they are while little changes.
RISK_LEVELS = 4
# Kinds of many-card tasks that are looked after, the most frequent first.
MOST_KINDS = 64


@dataclass(frozen=True, slots=True)
class GroupRisk:
    """Groups of whole cards on one node that a kind of task needs, and the chance that they run out.

    A group is `cards` empty cards with `cpu` millicores on a card model of `models` (empty = any).
    """

    cards: int
    cpu: int
    models: frozenset[str]
    risk: float


def pressure(workload: Workload, capacity: Mapping[str, int]) -> dict[str, float]:
    """Demand bound to each card model, as a part of its capacity, when the cluster is asked for in full.

    Demand that accepts several models raises the least pressed of them, like water; the most bound
    demand is poured first. Demand that accepts all models presses none.
    """
    total = sum(shape.cards * shape.cores * count for shape, count in workload.counts)
    bound: Counter[frozenset[str]] = Counter()
    for shape, count in workload.counts:
        models = frozenset(_models(shape) & capacity.keys())
        if shape.cards and models and len(models) < len(capacity):
            bound[models] += shape.cards * shape.cores * count
    level = dict.fromkeys(sorted(capacity), 0.0)
    scale = sum(capacity.values()) / total if total else 0.0
    for models in sorted(bound, key=lambda key: (len(key), sorted(key))):
        surface = _surface([(level[model], capacity[model]) for model in models], bound[models] * scale)
        for model in models:
            level[model] = max(level[model], surface)
    return {model: min(height, MOST_PRESSURE) for model, height in level.items()}


def group_risks(workload: Workload, fleet: Fleet) -> tuple[GroupRisk, ...]:
    """For each kind of many-card task the chance that its groups run out before the cluster is full.

    What is idle now will be asked for by usual work; the number of groups of a kind that are then
    needed, by it or by kinds that need still more, is taken as Poisson and compared with the number
    of groups that the fleet has now. Kinds without risk are left out.
    """
    kinds = [(shape, count) for shape, count in workload.counts if shape.cards > 1][:MOST_KINDS]
    need = sum(shape.cards * shape.cores * count for shape, count in workload.counts)
    expected = CAUTION * int(fleet.cores_free.sum()) / need if need else 0.0
    empty = empty_cards(fleet.present, fleet.cores_free, fleet.card_cores)
    model = fleet.model.max(axis=1, initial=-1)
    risks = []
    for shape, _ in kinds:
        kind = GroupRisk(shape.cards, shape.cpu, _models(shape), 0.0)
        demand = sum(count * other.cards / shape.cards for other, count in kinds if _covers(other, shape))
        accepted = accepts(kind, fleet.models)[model]
        free = int(groups(kind, empty, fleet.cpu_free, accepted).sum())
        risk = round(RISK_LEVELS * shortfall(expected * demand, free)) / RISK_LEVELS
        if risk:
            risks.append(replace(kind, risk=risk))
    return tuple(risks)


def shortfall(expected: float, available: int) -> float:
    """The chance that at least `available` groups are asked for when `expected` are: Poisson, smoothed."""
    if expected <= 0:
        return 0.0
    return math.erfc((available - 0.5 - expected) / math.sqrt(2 * (expected + 0.25))) / 2


def groups(risk: GroupRisk, empty: Ints, cpu: Ints, accepted: Bools) -> Ints:
    """How many groups of a kind nodes hold that have so many empty cards and millicores left."""
    held: Ints = empty // risk.cards
    if risk.cpu:
        held = np.minimum(held, np.maximum(cpu, 0) // risk.cpu)
    return np.where(accepted, held, 0)


def accepts(risk: GroupRisk, models: Sequence[str]) -> Bools:
    """Which of the fleet's models the kind may use; a last entry for nodes without cards."""
    return np.array([*(not risk.models or model in risk.models for model in models), False])


def group_steps(risks: Sequence[GroupRisk], most_cards: int) -> Ints:
    """The amounts of CPU, ascending, at which a node with so many cards can hold one group more."""
    steps = {risk.cpu * number for risk in risks for number in range(1, most_cards // risk.cards + 1)}
    return np.array(sorted(steps), np.int64)


def group_worth(
    risks: Sequence[GroupRisk], models: Sequence[str], most_cards: int, cpu: Ints
) -> NDArray[np.float64]:
    """What the groups that a node holds are worth in cards: for each kind at risk its cards times the risk.

    By model, empty cards and an entry of `cpu`: `[models + 1, most_cards + 1, cpu]`.
    """
    empty = np.arange(most_cards + 1)[:, None]
    worth = np.zeros((len(models) + 1, most_cards + 1, len(cpu)))
    for risk in risks:
        accepted = accepts(risk, models)[:, None, None]
        worth += risk.risk * risk.cards * groups(risk, empty, cpu[None, :], accepted)
    return worth


def empty_cards(present: Bools, left: Ints, whole: Ints) -> Ints:
    """How many cards of each node nobody uses. All arguments `[nodes, cards]`."""
    empty: Ints = (present & (left == whole)).sum(axis=1)
    return empty


def _covers(other: WorkloadShape, shape: WorkloadShape) -> bool:
    """Whether every group that the other kind takes is one that this kind could use."""
    bound = not shape.models or (bool(other.models) and _models(other) <= _models(shape))
    return bound and other.cards >= shape.cards and other.cpu >= shape.cpu


def _models(shape: WorkloadShape) -> frozenset[str]:
    return frozenset(model for model in shape.models.split("|") if model)


def _surface(vessels: Sequence[tuple[float, int]], amount: float) -> float:
    """How high the water stands in vessels of (level, width) after an amount is poured in."""
    width, volume = 0, amount
    surface = 0.0
    for level, wide in sorted(vessels):
        if width and surface <= level:
            break
        width += wide
        volume += level * wide
        surface = volume / width
    return surface
