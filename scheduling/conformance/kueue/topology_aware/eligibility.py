"""Finds the leaves that a role's tasks may use, regardless of free capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.conformance.kueue.topology_aware.request import NodePreference
from scheduling.conformance.kueue.topology_aware.result import Exclusions
from scheduling.conformance.kueue.topology_aware.tree import Ints, Mask, TopologyNode, TopologyTree
from scheduling.engine import has_labels as has_labels
from scheduling.engine import matches_expression as matches_expression
from scheduling.engine.extension import matches_any_term as matches_any_term
from scheduling.engine.model import Expression, PlacementRules, Taint, TaintEffect, Toleration


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The result: `allowed` and `liking` (the sum of preference weights) of each leaf, and counts of
    refusals."""

    allowed: Mask
    liking: Ints
    exclusions: Exclusions


Rules = tuple[
    tuple[tuple[str, str], ...],
    tuple[tuple[Expression, ...], ...],
    tuple[Toleration, ...],
    tuple[NodePreference, ...],
]
Known = dict[Rules, Eligibility]
"""A cache of eligibility on the same nodes, by the rules on which it depends."""


def recall_leaves(
    known: Known,
    tree: TopologyTree,
    rules: PlacementRules,
    preferences: tuple[NodePreference, ...],
    tolerations: tuple[Toleration, ...],
) -> Eligibility:
    """Return `eligible_leaves` from the cache, because roles of all queues often have equal rules."""
    accepted = rules.tolerations + tolerations
    key = (tuple(sorted(rules.node_selector.items())), rules.node_affinity, accepted, preferences)
    if key not in known:
        known[key] = eligible_leaves(tree, rules, preferences, tolerations)
    return known[key]


def eligible_leaves(
    tree: TopologyTree,
    rules: PlacementRules,
    preferences: tuple[NodePreference, ...] = (),
    tolerations: tuple[Toleration, ...] = (),
) -> Eligibility:
    """Return which leaves' nodes satisfy the rules. Leaves that are groups of nodes are all allowed.

    `tolerations` are those of the flavor, in addition to those of the rules.
    """
    count = tree.domain_count(tree.lowest)
    found = Eligibility(
        np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.int64), Exclusions(leaves=count)
    )
    accepted = rules.tolerations + tolerations
    for leaf, node in enumerate(tree.nodes):
        found.allowed[leaf] = _admits(node, rules, accepted, found.exclusions)
        if found.allowed[leaf]:
            found.liking[leaf] = sum(
                preference.weight
                for preference in preferences
                if preference.term and all(matches_expression(node.labels, wish) for wish in preference.term)
            )
    return found


def _admits(
    node: TopologyNode, rules: PlacementRules, accepted: tuple[Toleration, ...], refused: Exclusions
) -> bool:
    taint = _first_repelling(node.taints, accepted)
    if taint is not None:
        refused.taints[taint] = refused.taints.get(taint, 0) + 1
        return False
    if not has_labels(node.labels, rules.node_selector.items()):
        refused.selector += 1
        return False
    if rules.node_affinity and not matches_any_term(node.labels, rules.node_affinity):
        refused.affinity += 1
        return False
    return True


def _first_repelling(taints: tuple[Taint, ...], accepted: tuple[Toleration, ...]) -> Taint | None:
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(
            toleration.tolerates_taint(taint) for toleration in accepted
        ):
            return taint
    return None
