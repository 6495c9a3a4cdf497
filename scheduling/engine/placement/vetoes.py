"""The predicates on nodes, each under the code by which its refusals are counted.

They stand from the lasting to the passing: a node is counted under the first veto that refuses it,
so the most fundamental cause is the one shown. Those about cards narrow down the same set of cards
step by step; the last one is therefore the whole condition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.engine.model import Node
from scheduling.engine.placement.labels import carries, repels, satisfies
from scheduling.engine.placement.question import Question
from scheduling.engine.state.fleet import Bools, Rows


def _each_node(question: Question, rows: Rows, accepts: Callable[[Node], bool]) -> Bools:
    nodes = question.fleet.nodes
    chosen = nodes[rows] if isinstance(rows, slice) else [nodes[row] for row in rows.tolist()]
    return np.fromiter((accepts(node) for node in chosen), np.bool_, len(chosen))


def _everywhere(question: Question, rows: Rows) -> Bools:
    return np.ones(question.fleet.cpu[rows].shape, np.bool_)


class NodeReady:
    """The node reports ready."""

    name, fixed = "node-ready", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.fleet.ready[rows]


class Cordon:
    """The node is not cordoned."""

    name, fixed = "cordon", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.fleet.schedulable[rows]


class NodeName:
    """The node is the one that the job names."""

    name, fixed = "node-name", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        wanted = question.task.node_name
        if wanted is None:
            return _everywhere(question, rows)
        return _each_node(question, rows, lambda node: node.hostname == wanted)


class NodeSelector:
    """The node carries the labels that the job selects."""

    name, fixed = "node-selector", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        wanted = question.task.selector
        if not wanted:
            return _everywhere(question, rows)
        return _each_node(question, rows, lambda node: carries(node.labels, wanted))


class NodeAffinity:
    """The node satisfies one of the required affinity terms."""

    name, fixed = "node-affinity", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        terms = question.task.affinity
        if not terms:
            return _everywhere(question, rows)
        return _each_node(question, rows, lambda node: satisfies(node.labels, terms))


class TaintToleration:
    """Every repelling taint of the node is tolerated."""

    name, fixed = "taint", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        tolerations = question.task.tolerations
        return _each_node(
            question, rows, lambda node: not node.taints or not repels(node.taints, tolerations)
        )


class Cards:
    """The node has as many cards as the task asks for, whatever they are."""

    name, fixed = "cards", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.enough(question.fleet.present[rows])


class GpuModes:
    """The node has enough cards that are handed out in the asked way."""

    name, fixed = "gpu-mode", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.enough(question.of_mode[rows])


class CardModel:
    """Enough of those are of an accepted model."""

    name, fixed = "card-model", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.enough(question.of_model[rows])


class CardHealth:
    """Enough of those are healthy."""

    name, fixed = "card-health", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.enough(question.usable[rows])


class Cpu:
    """The node has the millicores free. A task that asks for none is not refused for overuse by others."""

    name, fixed = "cpu", False

    def allows(self, question: Question, rows: Rows) -> Bools:
        asked = question.task.cpu
        return question.fleet.cpu_free[rows] >= asked if asked else _everywhere(question, rows)


class Memory:
    """The node has the MiB free."""

    name, fixed = "memory", False

    def allows(self, question: Question, rows: Rows) -> Bools:
        asked = question.task.memory
        return question.fleet.memory_free[rows] >= asked if asked else _everywhere(question, rows)


class CardCores:
    """Enough cards have the cores free: for whole cards, enough are empty."""

    name, fixed = "card-cores", False

    def allows(self, question: Question, rows: Rows) -> Bools:
        if not question.task.cards:
            return _everywhere(question, rows)
        return question.enough(question.with_cores(rows))


class CardMemory:
    """Enough of those have the memory free as well."""

    name, fixed = "card-memory", False

    def allows(self, question: Question, rows: Rows) -> Bools:
        if not question.task.cards or not (question.task.whole or question.task.card_memory):
            return _everywhere(question, rows)
        return question.enough(question.fitting(rows))


VETOES = (
    NodeName(), NodeSelector(), NodeAffinity(), TaintToleration(), Cards(), GpuModes(), CardModel(),
    NodeReady(), Cordon(), CardHealth(), Cpu(), Memory(), CardCores(), CardMemory(),
)  # fmt: skip
