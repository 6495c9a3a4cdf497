"""The match of roles with flavors, whatever the quota.

All nodes of a flavor have its labels. A condition on any other label says nothing about the flavor and is
left to placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from scheduling.engine.model import Expression, Flavor, Job, PlacementRules, ResourceGroup, Role, TopologyMode
from scheduling.engine.model.labels import has_labels, has_untolerated_taint, matches_expression
from scheduling.engine.state.charges import node_resources_of


class Mismatch(StrEnum):
    """The reason why a role cannot use a flavor."""

    MISSING = "missing"  # a queue names a flavor that does not exist
    TAINT = "taint"
    LABELS = "labels"
    CARD_MODEL = "card-model"
    NO_NODES = "no-nodes"  # a topology level is requested, and the flavor is quota only
    LEVEL = "level"  # the flavor's nodes do not have the requested level
    NODES_ONLY = "nodes-only"  # the queue's other flavors are quota only, and the role requests no topology
    REPLACED = "replaced"  # the job replaces one that uses another flavor


def find_mismatch(
    flavor: Flavor, job: Job, role: Role, group: ResourceGroup, *, mixed: bool
) -> Mismatch | None:
    """Return why a role may not use a flavor of a resource group, or None.

    `mixed` means that the queue has flavors with nodes and flavors without.
    """
    rules = job.rules_of(role)
    found = _find_topology_mismatch(flavor, job, role, group, mixed)
    if found is not None:
        return found
    if flavor.taints and has_untolerated_taint(flavor.taints, (*rules.tolerations, *flavor.tolerations)):
        return Mismatch.TAINT
    if flavor.node_labels and not _labels_agree(flavor.node_labels, rules):
        return Mismatch.LABELS
    gpu = role.request.gpu
    if gpu is not None and gpu.models and flavor.card_model and flavor.card_model not in gpu.models:
        return Mismatch.CARD_MODEL
    return None


def requests_topology(job: Job, role: Role) -> bool:
    """Return whether a role requests placement by topology; a name of its group alone does not."""
    rule = job.topology if role.topology is None else role.topology
    if rule is None:
        return False
    return bool(rule.level or rule.slice_level or rule.mode is TopologyMode.UNCONSTRAINED)


def _find_topology_mismatch(
    flavor: Flavor, job: Job, role: Role, group: ResourceGroup, mixed: bool
) -> Mismatch | None:
    rule = job.topology if role.topology is None else role.topology
    if rule is None or not requests_topology(job, role):
        return Mismatch.NODES_ONLY if mixed and flavor.placed else None
    if not flavor.placed:
        # A resource that nodes do not have may come from a flavor without nodes.
        offered = node_resources_of(role.request)
        touched = offered if not group.resources else offered & set(group.resources)
        return Mismatch.NO_NODES if touched else None
    if role.topology is not None and flavor.topology and not flavor.topology_aware:
        return Mismatch.LEVEL  # only an action of another package places by the topology of a role
    return Mismatch.LEVEL if flavor.topology and not set(rule.levels) <= set(flavor.topology) else None


def _labels_agree(labels: Mapping[str, str], rules: PlacementRules) -> bool:
    known = ((key, value) for key, value in rules.node_selector.items() if key in labels)
    if not has_labels(labels, known):
        return False
    terms = [_narrow_term(term, labels) for term in rules.node_affinity]
    # A term without expressions on these labels holds for every flavor, and one term is enough.
    return not terms or any(
        all(matches_expression(labels, expression) for expression in term) for term in terms
    )


def _narrow_term(term: tuple[Expression, ...], labels: Mapping[str, str]) -> tuple[Expression, ...]:
    return tuple(expression for expression in term if expression.key in labels)
