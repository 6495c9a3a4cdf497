"""What a task had better have, apart from how well it packs: scores from 0 to 100, higher is better.

Each is the weighed part of its wishes that a node grants, so it does not depend on other nodes. A score
that has nothing to say of a task is not asked (`applies`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scheduling.engine.model import Expression, Node
from scheduling.engine.model.labels import holds
from scheduling.engine.placement.index import numa
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relations import domains, touched
from scheduling.engine.placement.index.taints import disliked, soft
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Rows

FULL = 100
# How much a taint that would rather not have the task weighs against the task's own wishes.
TAINT_WEIGHT = 100


class Affinity:
    """Preferred nodes, preferred and avoided neighbours, and taints that would rather not have the task.

    Nodes and neighbours count with the weights of their terms. Of several such taints each halves,
    thirds, … what is granted.
    """

    name, normalised = "affinity", False

    def applies(self, question: Question) -> bool:
        """Whether the task prefers anything, or a node prefers not to have tasks."""
        liking = question.task.liking
        return soft(question.fleet) or (
            liking is not None and bool(liking.nodes or liking.near or liking.apart)
        )

    def score(self, question: Question, rows: Rows) -> Ints:
        """The weight of all wishes granted, in percent."""
        fleet, liking = question.fleet, question.task.liking
        granted = np.zeros(fleet.cpu[rows].shape, np.int64)
        total = 0
        if soft(fleet):
            granted += TAINT_WEIGHT // (1 + disliked(fleet, question.task.tolerations, rows))
            total += TAINT_WEIGHT
        if liking is not None:
            for wish in liking.nodes:
                granted += wish.weight * _matching(fleet, wish.expressions)[rows]
                total += wish.weight
            for weight, term in liking.near:
                granted += weight * touched(fleet, term)[rows]
                total += weight
            for weight, term in liking.apart:
                granted += weight * ~touched(fleet, term)[rows]
                total += weight
        return FULL * granted // max(total, 1)


class Topology:
    """Standing together: cards in one NVLink clique, all in few NUMA zones, a group's tasks near by.

    The mean of those that concern the task. A clique that has not enough cards counts for what it has,
    two zones half as much as one, and nearness by the finest level shared with a task of the group.
    """

    name, normalised = "topology", False

    def applies(self, question: Question) -> bool:
        """Whether cliques, zones or a group matter to the task."""
        return bool(self._parts(question))

    def score(self, question: Question, rows: Rows) -> Ints:
        """The mean over what concerns the task."""
        parts = self._parts(question)
        total = np.zeros(question.fleet.cpu[rows].shape, np.int64)
        for part in parts:
            total += part(question, rows)
        return total // max(len(parts), 1)

    def _parts(self, question: Question) -> Sequence[Callable[[Question, Rows], Ints]]:
        liking = question.task.liking
        parts: list[Callable[[Question, Rows], Ints]] = []
        if question.fleet.clique is not None and question.task.cards > 1:
            parts.append(_in_clique)
        if numa.concerned(question):
            parts.append(_in_zones)
        if liking is not None and liking.group:
            parts.append(_in_group)
        return parts


class Reuse:
    """What the node has at hand: the task's image, or what its last attempt left there."""

    name, normalised = "reuse", False

    def applies(self, question: Question) -> bool:
        """Whether the task names an image or earlier nodes."""
        liking = question.task.liking
        return liking is not None and bool(liking.image or liking.last_nodes)

    def score(self, question: Question, rows: Rows) -> Ints:
        """The part of both that the node has, of those that the task names."""
        fleet, liking = question.fleet, question.task.liking
        granted = np.zeros(fleet.cpu[rows].shape, np.int64)
        named = 0
        if liking is not None and liking.image:
            image = liking.image
            granted += _marked(fleet, ("image", image), lambda node: image in node.images)[rows]
            named += 1
        if liking is not None and liking.last_nodes:
            last = frozenset(liking.last_nodes)
            granted += _marked(fleet, ("last", last), lambda node: node.hostname in last)[rows]
            named += 1
        return FULL * granted // max(named, 1)


class Balance:
    """Use CPU and cards up together: what is free points the same way as what is asked.

    The cosine between both vectors as fractions of the node's size, the alignment of Tetris (Grandl et
    al., SIGCOMM 2014) without its length. A task without cards thus goes where cards are taken.
    """

    name, normalised = "balance", False

    def score(self, question: Question, rows: Rows) -> Ints:
        """The cosine in percent, cut to a whole number; 0 where nothing is asked or nothing free."""
        fleet, task = question.fleet, question.task
        cpu = np.maximum(fleet.cpu[rows], 1)
        cores = np.maximum((fleet.card_cores[rows] * fleet.present[rows]).sum(axis=1), 1)
        free_cpu = np.maximum(fleet.cpu_free[rows], 0) / cpu
        free_cores = np.maximum(fleet.cores_free[rows], 0).sum(axis=1) / cores
        asked_cpu, asked_cores = task.cpu / cpu, task.cards * task.cores / cores
        length = np.sqrt(free_cpu * free_cpu + free_cores * free_cores)
        length = length * np.sqrt(asked_cpu * asked_cpu + asked_cores * asked_cores)
        dot = free_cpu * asked_cpu + free_cores * asked_cores
        cosine = np.divide(dot, length, out=np.zeros_like(dot), where=length > 0)
        # Rounding first: two nodes that are the same share of their size free must tie.
        score: Ints = np.clip(np.round(FULL * cosine, 6).astype(np.int64), 0, FULL)
        return score


def _in_clique(question: Question, rows: Rows) -> Ints:
    clique = question.fleet.clique
    if clique is None:
        return np.zeros(question.fleet.cpu[rows].shape, np.int64)
    codes, fitting = clique[rows], question.fitting(rows)
    largest = np.zeros(len(codes), np.int64)
    for column in range(codes.shape[1]):
        code = codes[:, column]
        members = (fitting & (codes == code[:, None])).sum(axis=1)
        largest = np.maximum(largest, np.where(code >= 0, members, 1))
    return FULL * np.minimum(largest, question.task.cards) // question.task.cards


def _in_zones(question: Question, rows: Rows) -> Ints:
    spans = numa.spans(question, rows)
    return np.where(spans > 0, FULL // np.maximum(spans, 1), 0)


def _in_group(question: Question, rows: Rows) -> Ints:
    fleet, liking = question.fleet, question.task.liking
    score = np.zeros(len(fleet), np.int64)
    places = [] if liking is None else sorted(fleet.presences.groups.get(liking.group, ()))
    if liking is None or not places:
        return score[rows]
    for number, level in enumerate(liking.levels, start=1):
        codes = domains(fleet, level)
        near = (codes >= 0) & np.isin(codes, codes[places])
        score[near] = FULL * number // (len(liking.levels) + 1)
    score[places] = FULL
    return score[rows]


def _matching(fleet: Fleet, expressions: tuple[Expression, ...]) -> Bools:
    def matches(node: Node) -> bool:
        return bool(expressions) and all(holds(node.labels, wish) for wish in expressions)

    return _marked(fleet, ("matching", expressions), matches)


def _marked(fleet: Fleet, key: tuple[object, ...], marks: Callable[[Node], bool]) -> Bools:
    """The rows whose node is marked; kept until a node is revised, as there is no end of such wishes."""
    known = fleet.memo.get(key)
    if known is None:
        known = fleet.memo[key] = np.fromiter(map(marks, fleet.nodes), np.bool_, len(fleet))
    mask: Bools = known  # type: ignore[assignment]
    return mask


PREFERENCES = (Affinity(), Topology(), Reuse(), Balance())
