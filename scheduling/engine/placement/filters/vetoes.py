"""This module defines the predicates on nodes, each with the code by which its refusals are counted.

They are ordered from lasting to passing causes: a node is counted under the first veto that refuses it, so
the most fundamental cause is shown. Those about cards narrow the same set of cards step by step; the last one
is therefore the whole condition. A veto that is irrelevant to a task or a fleet is not evaluated (`applies`).
Source of the node rules: the scheduler filters of Kubernetes (NodeName, NodeAffinity, VolumeBinding,
TaintToleration, NodePorts, InterPodAffinity, NodeResourcesFit).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.engine.model import ClaimState, GpuMode, Node, Pressure, QosClass
from scheduling.engine.model.labels import has_labels, matches_any_term
from scheduling.engine.placement.index import relations
from scheduling.engine.placement.index.node_facts import marked_rows
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.taints import repelled_rows
from scheduling.engine.placement.index.volumes import VOLUME_CLAIM, VOLUME_NODE_AFFINITY, can_mount
from scheduling.engine.state.fleet import Bools, Fleet, Rows


def _each_node(question: Question, rows: Rows, accepts: Callable[[Node], bool]) -> Bools:
    chosen = question.nodes(rows)
    return np.fromiter((accepts(node) for node in chosen), np.bool_, len(chosen))


def _everywhere(question: Question, rows: Rows) -> Bools:
    return np.ones(question.fleet.cpu[rows].shape, np.bool_)


class _OfCards:
    """A veto for tasks that ask for cards."""

    def applies(self, question: Question) -> bool:
        """Return whether the task asks for cards."""
        return question.task.cards > 0


class NodeReady:
    """The node reports ready."""

    name, fixed = "node-ready", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.fleet.ready[rows]


class CordonVeto:
    """The node is not cordoned."""

    name, fixed = "cordon", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.fleet.schedulable[rows]


class NodePressureVeto:
    """The node is not short of what new tasks would use up: disk, process ids, for best effort memory."""

    name, fixed = "node-pressure", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        refusing = {Pressure.DISK, Pressure.PID}
        if question.task.qos is QosClass.BEST_EFFORT:
            refusing.add(Pressure.MEMORY)
        return ~_pressed(question.fleet, frozenset(refusing))[rows]


class NodeName:
    """The node is the one that the job names."""

    name, fixed = "node-name", True

    def applies(self, question: Question) -> bool:
        return question.task.node_name is not None

    def allows(self, question: Question, rows: Rows) -> Bools:
        wanted = question.task.node_name
        return _each_node(question, rows, lambda node: node.hostname == wanted)


class NodeSelector:
    """The node carries the labels that the job selects."""

    name, fixed = "node-selector", True

    def applies(self, question: Question) -> bool:
        return bool(question.task.selector)

    def allows(self, question: Question, rows: Rows) -> Bools:
        wanted = question.task.selector
        return _each_node(question, rows, lambda node: has_labels(node.labels, wanted))


class NodeAffinity:
    """The node satisfies one of the required affinity terms."""

    name, fixed = "node-affinity", True

    def applies(self, question: Question) -> bool:
        return bool(question.task.affinity)

    def allows(self, question: Question, rows: Rows) -> Bools:
        terms = question.task.affinity
        return _each_node(question, rows, lambda node: matches_any_term(node.labels, terms))


class VolumeClaimVeto:
    """Every volume claim that the task mounts is bound in the cluster of the flavor."""

    name, fixed = VOLUME_CLAIM, True

    def applies(self, question: Question) -> bool:
        return any(claim.state is not ClaimState.BOUND for claim in question.task.volume_claims)

    def allows(self, question: Question, rows: Rows) -> Bools:
        return ~_everywhere(question, rows)


class VolumeNodeAffinity:
    """The node satisfies a term of the required node affinity of each volume that the task mounts."""

    name, fixed = VOLUME_NODE_AFFINITY, True

    def applies(self, question: Question) -> bool:
        return any(claim.terms for claim in question.task.volume_claims)

    def allows(self, question: Question, rows: Rows) -> Bools:
        restricted = [claim for claim in question.task.volume_claims if claim.terms]
        return _each_node(question, rows, lambda node: all(can_mount(node, claim) for claim in restricted))


class TaintToleration:
    """Every taint of the node that keeps tasks away, or drives them out, is tolerated."""

    name, fixed = "taint", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return ~repelled_rows(question.fleet, question.task.tolerations, rows)


class CardCountVeto(_OfCards):
    """The node has as many cards as the task asks for, whatever they are."""

    name, fixed = "cards", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.fleet.present[rows])


class GpuModeVeto(_OfCards):
    """The node has enough cards that are handed out in the asked way."""

    name, fixed = "gpu-mode", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.of_mode[rows])


class MigProfileVeto:
    """Enough of those are instances of the asked profile."""

    name, fixed = "mig-profile", True

    def applies(self, question: Question) -> bool:
        return question.task.mode is GpuMode.MIG

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.of_profile[rows])


class CardModel(_OfCards):
    """Enough of those are of an accepted model."""

    name, fixed = "card-model", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.of_model[rows])


class CardHealth(_OfCards):
    """Enough of those are healthy."""

    name, fixed = "card-health", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.usable[rows])


class PodCountVeto:
    """The node takes one more task."""

    name, fixed = "pods", False

    def applies(self, question: Question) -> bool:
        return question.fleet.pods is not None

    def allows(self, question: Question, rows: Rows) -> Bools:
        fleet = question.fleet
        if fleet.pods is None:
            return _everywhere(question, rows)
        return fleet.used_pods[rows] < fleet.pods[rows]


class CpuVeto:
    """The node has the millicores free. A task that asks for none is not refused for overuse by others."""

    name, fixed = "cpu", False

    def applies(self, question: Question) -> bool:
        return question.task.cpu > 0

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.fleet.cpu_free[rows] >= question.task.cpu


class MemoryVeto:
    """The node has the MiB free."""

    name, fixed = "memory", False

    def applies(self, question: Question) -> bool:
        return question.task.memory > 0

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.fleet.memory_free[rows] >= question.task.memory


class ExtendedResources:
    """The node has enough of everything that the task asks for by name."""

    name, fixed = "extended", False

    def applies(self, question: Question) -> bool:
        return bool(question.task.extended)

    def allows(self, question: Question, rows: Rows) -> Bools:
        enough = _everywhere(question, rows)
        for item in question.task.extended:
            free_ports = question.fleet.extended_free.get(item.resource)
            enough &= np.False_ if free_ports is None else free_ports[rows] >= item.amount
        return enough


class CardCores(_OfCards):
    """Enough cards have the cores free: for whole cards, enough are empty."""

    name, fixed = "card-cores", False

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.with_cores(rows))


class CardMemoryVeto:
    """Enough of those have the memory free as well."""

    name, fixed = "card-memory", False
    # Tasks that pass this veto passed the covered one.
    covers = "card-cores"

    def applies(self, question: Question) -> bool:
        task = question.task
        return task.cards > 0 and (task.whole or task.card_memory > 0)

    def allows(self, question: Question, rows: Rows) -> Bools:
        return question.has_enough_cards(question.fitting(rows))


class PodAffinity:
    """The tasks that this one must be near are in the node's domain."""

    name, fixed = "pod-affinity", False

    def applies(self, question: Question) -> bool:
        related = question.task.pod_affinities
        return related is not None and bool(related.affinity)

    def allows(self, question: Question, rows: Rows) -> Bools:
        return relations.affinity_rows(question)[rows]


class PodAntiAffinity:
    """No task in the node's domain is one that this task avoids, or avoids this task."""

    name, fixed = "pod-anti-affinity", False

    def applies(self, question: Question) -> bool:
        return question.task.pod_affinities is not None

    def allows(self, question: Question, rows: Rows) -> Bools:
        return relations.anti_affinity_rows(question)[rows]


def _pressed(fleet: Fleet, kinds: frozenset[Pressure]) -> Bools:
    """Return the rows whose node is under one of these pressures."""
    return marked_rows(fleet, ("pressed", kinds), lambda node: not kinds.isdisjoint(node.pressure))


VETOES = (
    NodeName(), NodeSelector(), NodeAffinity(), VolumeClaimVeto(), VolumeNodeAffinity(),
    TaintToleration(),
    CardCountVeto(), GpuModeVeto(), MigProfileVeto(), CardModel(),
    NodeReady(), CordonVeto(), NodePressureVeto(), CardHealth(),
    PodCountVeto(), CpuVeto(), MemoryVeto(), ExtendedResources(), CardCores(), CardMemoryVeto(),
    PodAffinity(), PodAntiAffinity(),
)  # fmt: skip
