"""This module scores nodes by the preferences of a task, apart from how well it packs: from 0 to 100, higher
is better.

Each score is the weighted part of its preferences that a node satisfies, so it does not depend on other
nodes. A score that is irrelevant to a task is not evaluated (`applies`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.engine.model import Expression, Node
from scheduling.engine.model.labels import matches_expression
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relations import number_domains, rows_with_match
from scheduling.engine.placement.index.taints import count_soft_taints, has_soft_taints
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Rows
from scheduling.engine.state.memo import read_memo

FULL = 100
# The weight of a soft taint against the task's own preferences.
TAINT_WEIGHT = 100


class AffinityScore:
    """Scores preferred nodes, preferred and avoided pods, and soft taints.

    Nodes and pods count with the weights of their terms, as in Kubernetes' NodeAffinity and InterPodAffinity.
    Each untolerated soft taint (`PreferNoSchedule`) divides the score further: by two, three, …
    """

    name, normalised = "affinity", False

    def applies(self, question: Question) -> bool:
        """Return whether the task prefers anything, or a node prefers to have no tasks."""
        liking = question.task.preferences
        return has_soft_taints(question.fleet) or (
            liking is not None and bool(liking.preferred_nodes or liking.affinity or liking.anti_affinity)
        )

    def score(self, question: Question, rows: Rows) -> Ints:
        """Return the weight of all satisfied preferences, in percent."""
        fleet, liking = question.fleet, question.task.preferences
        satisfied = np.zeros(fleet.cpu[rows].shape, np.int64)
        total = 0
        if has_soft_taints(fleet):
            satisfied += TAINT_WEIGHT // (1 + count_soft_taints(fleet, question.task.tolerations, rows))
            total += TAINT_WEIGHT
        if liking is not None:
            for wish in liking.preferred_nodes:
                satisfied += wish.weight * _matching(fleet, wish.expressions)[rows]
                total += wish.weight
            for weight, term in liking.affinity:
                satisfied += weight * rows_with_match(fleet, term)[rows]
                total += weight
            for weight, term in liking.anti_affinity:
                satisfied += weight * ~rows_with_match(fleet, term)[rows]
                total += weight
        return FULL * satisfied // max(total, 1)


class TopologyScore:
    """Scores how near a task is to the tasks of its group, by the finest level that it shares with one."""

    name, normalised = "topology", False

    def applies(self, question: Question) -> bool:
        """Return whether the task has a group."""
        liking = question.task.preferences
        return liking is not None and bool(liking.group)

    def score(self, question: Question, rows: Rows) -> Ints:
        """Return the level in percent of all levels; 100 on a node with a task of the group."""
        fleet, liking = question.fleet, question.task.preferences
        score = np.zeros(len(fleet), np.int64)
        places = [] if liking is None else sorted(fleet.pod_index.groups.get(liking.group, ()))
        if liking is None or not places:
            return score[rows]
        for number, level in enumerate(liking.levels, start=1):
            codes = number_domains(fleet, level)
            near = (codes >= 0) & np.isin(codes, codes[places])
            score[near] = FULL * number // (len(liking.levels) + 1)
        score[places] = FULL
        return score[rows]


class BalanceScore:
    """Uses CPU and cards up together: the free amounts point the same way as the request.

    It is the cosine between both vectors as fractions of the node's size, the alignment of Tetris (Grandl et
    al., SIGCOMM 2014) without its length. A task without cards thus goes where cards are taken.
    """

    name, normalised = "balance", False

    def score(self, question: Question, rows: Rows) -> Ints:
        """Return the cosine in percent, cut to a whole number; 0 if nothing is asked for or free."""
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
        # Rounding comes first: two nodes with the same share of their size free must tie.
        score: Ints = np.clip(np.round(FULL * cosine, 6).astype(np.int64), 0, FULL)
        return score


def _matching(fleet: Fleet, expressions: tuple[Expression, ...]) -> Bools:
    def matches_node(node: Node) -> bool:
        return bool(expressions) and all(matches_expression(node.labels, wish) for wish in expressions)

    return _marked(fleet, ("matching", expressions), matches_node)


def _marked(fleet: Fleet, key: tuple[object, ...], marks: Callable[[Node], bool]) -> Bools:
    """Return the rows whose node is marked; kept until a node is revised, because such preferences are
    unlimited in number."""
    return read_memo(fleet.memo, key, lambda: np.fromiter(map(marks, fleet.nodes), np.bool_, len(fleet)))


PREFERENCES = (AffinityScore(), TopologyScore(), BalanceScore())
