"""The assignment of a job to flavors of one cluster, because its tasks cannot reach each other across two.

If the flavors of a queue belong to several clusters and the free choice would spread a job over them, each
cluster is tried alone, in the order in which the queue names them, and the best one is taken by the rules
of flavor fungibility.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduling.engine.model import Flavor, Queue, ResourceName
from scheduling.engine.placement.index.clusters import CLUSTERS, clusters_of, queue_clusters
from scheduling.engine.quota.assignment import SEVERITY, Assignment, AssignmentMode
from scheduling.engine.quota.fungibility import FlavorRank, is_preferred, tries_next_flavor

FlavorFilter = Callable[[str, ResourceName, str], bool]
"""A predicate of role, resource and flavor: the role may use the flavor for the resource."""


def assign_in_one_cluster(
    search: Callable[[FlavorFilter | None], Assignment],
    flavors: Mapping[str, Flavor],
    queue: Queue,
    allowed: FlavorFilter | None,
) -> Assignment:
    """Return what `search` finds among the allowed flavors, restricted to one cluster.

    The refusal of a job that fits into no single cluster names the clusters that were tried (`CLUSTERS`).
    """
    free = search(allowed)
    if not _is_spread(free, flavors):
        return free
    tried = queue_clusters(flavors, queue)
    best = search(_restrict_to_cluster(tried[0], flavors, allowed))
    for cluster in tried[1:]:
        if not tries_next_flavor(rank_assignment(best), queue.fungibility):
            break
        found = search(_restrict_to_cluster(cluster, flavors, allowed))
        if is_better(found, best, queue):
            best = found
    if free.mode is not AssignmentMode.FIT or best.mode is AssignmentMode.FIT:
        return best
    return _name_clusters(best, tried)


def _is_spread(found: Assignment, flavors: Mapping[str, Flavor]) -> bool:
    """Return whether the flavors of an assignment have nodes in several clusters."""
    names = {choice.flavor for role in found.roles for choice in role.choices.values()}
    names.update(role.node_flavor for role in found.roles if role.node_flavor)
    return len(names) > 1 and len(clusters_of(flavors, names)) > 1


def _restrict_to_cluster(
    cluster: str, flavors: Mapping[str, Flavor], allowed: FlavorFilter | None
) -> FlavorFilter:
    def may(role: str, resource: ResourceName, flavor: str) -> bool:
        known = flavors.get(flavor)
        if known is not None and known.placed and known.cluster != cluster:
            return False
        return allowed is None or allowed(role, resource, flavor)

    return may


def rank_assignment(found: Assignment) -> FlavorRank:
    """Return the rank of an assignment as of a flavor."""
    return FlavorRank(found.mode, found.borrow_level)


def is_better(found: Assignment, best: Assignment, queue: Queue) -> bool:
    """Return whether one is better by the rules for flavors, or without fit less severely refused."""
    if found.mode is AssignmentMode.NO_FIT and best.mode is AssignmentMode.NO_FIT:
        return _severity(found) < _severity(best)
    return is_preferred(rank_assignment(found), rank_assignment(best), queue.fungibility.preference)


def _severity(found: Assignment) -> int:
    return 0 if found.refusal is None else SEVERITY[found.refusal.reason]


def _name_clusters(found: Assignment, tried: tuple[str, ...]) -> Assignment:
    """Return the assignment with the tried clusters in its refusals."""
    roles = (
        role
        if role.refusal is None
        else replace(role, refusal=role.refusal.with_numbers(**{CLUSTERS: ",".join(tried)}))
        for role in found.roles
    )
    return replace(found, roles=tuple(roles))
