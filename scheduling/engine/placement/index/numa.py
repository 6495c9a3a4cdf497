"""This module chooses the NUMA zones of a node for a task, by the node's policy.

Only guaranteed tasks are aligned, as in the kubelet's topology manager. A set of zones serves if together
they have the millicores, the MiB and the cards; the smallest set is taken, of equal ones the first.
`restricted` requires a set no larger than the idle node would need. Source:
https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/
"""

from __future__ import annotations

import numpy as np

from scheduling.engine.model import NumaPolicy, ZoneShare
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools, Ints, Rows
from scheduling.engine.state.numa_zones import NO_ZONE, POLICIES, UNBOUNDED, NumaZones

SINGLE, RESTRICTED, BEST_EFFORT = (
    POLICIES.index(policy)
    for policy in (NumaPolicy.SINGLE_NUMA_NODE, NumaPolicy.RESTRICTED, NumaPolicy.BEST_EFFORT)
)


def is_numa_relevant(question: Question) -> bool:
    """Return whether zones matter to the task at all."""
    task = question.task
    return question.fleet.zones is not None and task.aligned and bool(task.cpu or task.memory or task.cards)


def numa_allowed_rows(question: Question, rows: Rows) -> Bools:
    """Return the rows that may take the task as far as their zones go."""
    at = _places(question, rows)
    answer = np.ones(at.shape, np.bool_)
    aligning = np.flatnonzero(at >= 0)
    if len(aligning):
        stock = _stock(question)
        places = at[aligning]
        served = _serving(question, stock, _numbers(question, rows)[aligning], places).any(axis=1)
        answer[aligning] = served | (stock.policy[places] == BEST_EFFORT)
    return answer


def count_spanned_zones(question: Question, rows: Rows) -> Ints:
    """Return how many zones the task would span on each row: 0 if zones do not matter or none serve."""
    at = _places(question, rows)
    answer = np.zeros(at.shape, np.int64)
    aligning = np.flatnonzero(at >= 0)
    if len(aligning):
        stock = _stock(question)
        serving = _serving(question, stock, _numbers(question, rows)[aligning], at[aligning])
        first = serving.argmax(axis=1)
        answer[aligning] = np.where(serving.any(axis=1), stock.sizes[first], 0)
    return answer


def zones_for(question: Question, row: int) -> Bools | None:
    """Return the set of zones that the task gets on a row; None if it is not aligned."""
    if not is_numa_relevant(question):
        return None
    stock = _stock(question)
    place = stock.place_of_row[row : row + 1]
    if place[0] < 0:
        return None
    serving = _serving(question, stock, np.array([row]), place)[0]
    return stock.masks[int(serving.argmax())] if serving.any() else None


def zone_shares(question: Question, row: int, zones: Bools) -> tuple[ZoneShare, ...]:
    """Return what the task holds of each zone of the set: as much as there is, zone by zone."""
    stock, task = _stock(question), question.task
    place = int(stock.place_of_row[row])
    cpu, memory = task.cpu, task.memory
    held = []
    for column in np.flatnonzero(zones).tolist():
        part_cpu = _part(cpu, int(stock.cpu_free[place, column]), int(stock.cpu[place, column]))
        part_memory = _part(memory, int(stock.memory_free[place, column]), int(stock.memory[place, column]))
        cpu, memory = cpu - part_cpu, memory - part_memory
        held.append(ZoneShare(stock.zones[place][column].id, part_cpu, part_memory))
    return tuple(held)


def cards_in(question: Question, row: int, zones: Bools) -> Bools:
    """Return the cards of a row that belong to the set of zones, or to none."""
    stock = _stock(question)
    zone = stock.card_zone[stock.place_of_row[row]]
    inside: Bools = (zone == NO_ZONE) | zones[zone]
    return inside


def _serving(question: Question, stock: NumaZones, rows: Ints, places: Ints) -> Bools:
    """Return the sets of zones that each place could give now under its policy. `[places, sets]`."""
    task = question.task
    cards = _cards_of(question, stock, question.fitting(rows), places)
    cpu, memory = np.maximum(stock.cpu_free[places], 0), np.maximum(stock.memory_free[places], 0)
    serving = _holding(question, stock, cpu, memory, cards, places)
    policy = stock.policy[places]
    serving &= (policy != SINGLE)[:, None] | (stock.sizes == 1)
    restricted = policy == RESTRICTED
    if restricted.any():
        usable = question.usable[rows] if task.cards else np.zeros((len(rows), 0), np.bool_)
        every = _cards_of(question, stock, usable, places)
        able = _holding(question, stock, stock.cpu[places], stock.memory[places], every, places)
        least = np.where(able, stock.sizes, stock.masks.shape[1] + 1).min(axis=1)
        serving &= ~restricted[:, None] | (stock.sizes <= least[:, None])
    return serving


def _holding(
    question: Question, stock: NumaZones, cpu: Ints, memory: Ints, cards: Ints, places: Ints
) -> Bools:
    """Return the sets of zones that hold the task by these amounts. `[places, sets]`."""
    task, sets = question.task, stock.masks.T.astype(np.int64)
    holding: Bools = stock.known[places].astype(np.int64) @ sets == stock.sizes
    if task.cpu:
        holding &= cpu @ sets >= task.cpu
    if task.memory:
        holding &= memory @ sets >= task.memory
    if task.cards:
        # The last column is cards that belong to no zone: they serve with any set.
        holding &= cards[:, :-1] @ sets + cards[:, -1:] >= task.cards
    return holding


def _cards_of(question: Question, stock: NumaZones, cards: Bools, places: Ints) -> Ints:
    """Return the number of marked cards in each zone, and, in a last column, in no zone. `[places, zones +
    1]`."""
    width = stock.masks.shape[1]
    counted = np.zeros((len(places), width + 1), np.int64)
    if question.task.cards:
        zone = stock.card_zone[places]
        for column in range(width):
            counted[:, column] = (cards & (zone == column)).sum(axis=1)
        counted[:, width] = (cards & (zone == NO_ZONE)).sum(axis=1)
    return counted


def _part(asked: int, free: int, size: int) -> int:
    """Return what a zone gives; a zone that does not align a resource gives nothing of it."""
    return 0 if size >= UNBOUNDED else max(0, min(asked, free))


def _stock(question: Question) -> NumaZones:
    stock = question.fleet.zones
    if stock is None:
        raise LookupError("no node of this fleet has NUMA zones")
    return stock


def _places(question: Question, rows: Rows) -> Ints:
    places: Ints = _stock(question).place_of_row[rows]
    return places


def _numbers(question: Question, rows: Rows) -> Ints:
    numbers: Ints = np.arange(len(question.fleet))[rows]
    return numbers
