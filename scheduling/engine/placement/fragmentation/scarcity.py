"""This module estimates which free capacity is scarce for the workload mix: models, and many-card nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import TaskWorkload, WorkloadShape
from scheduling.engine.state.fleet import Bools, Fleet, Ints, count_marked

# Above this pressure a model is scarce, and the exact value does not matter.
MOST_PRESSURE = 1.5
# Expected demand counts one and a half times: a gang that waits costs more than a slice that waits.
CAUTION = 1.5
# Risks are rounded to quarters, so that scores stay as they are while little changes.
RISK_LEVELS = 4
# The most kinds of many-card tasks that are considered, the most frequent first.
MOST_KINDS = 64


@dataclass(frozen=True, slots=True)
class GroupRisk:
    """Groups of whole cards on one node that a kind of task needs, and the probability that they run out.

    A group is `cards` empty cards with `cpu` millicores on a card model of `models` (empty = any).
    """

    cards: int
    cpu: int
    models: frozenset[str]
    risk: float


def model_pressure(workload: TaskWorkload, capacity: Mapping[str, int]) -> dict[str, float]:
    """Return the demand bound to each card model, as a part of its capacity, when the cluster is asked for in
    full.

    Demand that accepts several models raises the least pressed of them, like water; the most bound demand is
    poured first. Demand that accepts all models presses none.
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


def group_risks(workload: TaskWorkload, fleet: Fleet) -> tuple[GroupRisk, ...]:
    """Return, for each kind of many-card task, the probability that its groups run out before the cluster is
    full.

    The workload mix will ask for what is idle now; the number of groups of a kind that are then needed, by it
    or by kinds that need still more, is taken as Poisson and compared with the present number of groups.
    Kinds without risk are left out.
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
        accepted = accepted_models(kind, fleet.models)[model]
        free = int(count_groups(kind, empty, fleet.cpu_free, accepted).sum())
        risk = round(RISK_LEVELS * shortage_probability(expected * demand, free)) / RISK_LEVELS
        if risk:
            risks.append(replace(kind, risk=risk))
    return tuple(risks)


def shortage_probability(expected: float, available: int) -> float:
    """Return the probability (Poisson, smoothed) that at least `available` groups are asked for."""
    if expected <= 0:
        return 0.0
    return math.erfc((available - 0.5 - expected) / math.sqrt(2 * (expected + 0.25))) / 2


def count_groups(risk: GroupRisk, empty: Ints, cpu: Ints, accepted: Bools) -> Ints:
    """Return how many groups of a kind fit on nodes with this many empty cards and free millicores."""
    held: Ints = empty // risk.cards
    if risk.cpu:
        held = np.minimum(held, np.maximum(cpu, 0) // risk.cpu)
    return np.where(accepted, held, 0)


def accepted_models(risk: GroupRisk, models: Sequence[str]) -> Bools:
    """Return which of the fleet's models the kind may use, with a last entry for nodes without cards."""
    return np.array([*(not risk.models or model in risk.models for model in models), False])


def group_steps(risks: Sequence[GroupRisk], most_cards: int) -> Ints:
    """Return the amounts of CPU, ascending, at which a node with this many cards can hold one more group."""
    steps = {risk.cpu * number for risk in risks for number in range(1, most_cards // risk.cards + 1)}
    return np.array(sorted(steps), np.int64)


def group_worth(
    risks: Sequence[GroupRisk], models: Sequence[str], most_cards: int, cpu: Ints
) -> NDArray[np.float64]:
    """Return the worth of the groups that a node holds, in cards: for each kind at risk its cards times the
    risk.

    By model, empty cards and an entry of `cpu`: `[models + 1, most_cards + 1, cpu]`.
    """
    empty = np.arange(most_cards + 1)[:, None]
    worth = np.zeros((len(models) + 1, most_cards + 1, len(cpu)))
    for risk in risks:
        accepted = accepted_models(risk, models)[:, None, None]
        worth += risk.risk * risk.cards * count_groups(risk, empty, cpu[None, :], accepted)
    return worth


def empty_cards(present: Bools, left: Ints, whole: Ints) -> Ints:
    """Return the number of unused cards of each node. All arguments are `[nodes, cards]`."""
    return count_marked(present & (left == whole))


def _covers(other: WorkloadShape, shape: WorkloadShape) -> bool:
    """Return whether every group that the other kind takes is one that this kind could use."""
    bound = not shape.models or (bool(other.models) and _models(other) <= _models(shape))
    return bound and other.cards >= shape.cards and other.cpu >= shape.cpu


def _models(shape: WorkloadShape) -> frozenset[str]:
    return frozenset(model for model in shape.models.split("|") if model)


def _surface(vessels: Sequence[tuple[float, int]], amount: float) -> float:
    """Return the water level in vessels of (level, width) after an amount is poured in."""
    width, volume = 0, amount
    surface = 0.0
    for level, wide in sorted(vessels):
        if width and surface <= level:
            break
        width += wide
        volume += level * wide
        surface = volume / width
    return surface
