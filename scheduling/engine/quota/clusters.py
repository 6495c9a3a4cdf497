"""A job stays in one cluster: its tasks could not find each other across two.

Where the flavors of a queue lie in several clusters and the free choice would spread a job over them, each
cluster is tried by itself, in the order in which the queue names them, and the best is taken by the rules
that hold for flavors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduling.engine.model import Flavor, Queue, ResourceName
from scheduling.engine.placement.index.clusters import CLUSTERS, clusters_of, queue_clusters
from scheduling.engine.quota.assignment import SEVERITY, Assignment, Mode
from scheduling.engine.quota.fungibility import Rank, goes_on, is_preferred

Allowed = Callable[[str, ResourceName, str], bool]
"""Whether a role may look at a flavor for a resource: role, resource, flavor."""


def in_one_cluster(
    search: Callable[[Allowed | None], Assignment],
    flavors: Mapping[str, Flavor],
    queue: Queue,
    allowed: Allowed | None,
) -> Assignment:
    """What `search` finds among the flavors that it may look at, all of it in one cluster.

    A refusal of a job that no single cluster holds names those that were tried (`CLUSTERS`).
    """
    free = search(allowed)
    if not _is_spread(free, flavors):
        return free
    tried = queue_clusters(flavors, queue)
    best = search(_within(tried[0], flavors, allowed))
    for cluster in tried[1:]:
        if not goes_on(_rank(best), queue.fungibility):
            break
        found = search(_within(cluster, flavors, allowed))
        if _is_better(found, best, queue):
            best = found
    if free.mode is not Mode.FIT or best.mode is Mode.FIT:
        return best
    return _told(best, tried)


def _is_spread(found: Assignment, flavors: Mapping[str, Flavor]) -> bool:
    """Return whether the flavors of an assignment have nodes in several clusters."""
    names = {name for role in found.roles for name in role.flavors}
    return len(names) > 1 and len(clusters_of(flavors, names)) > 1


def _within(cluster: str, flavors: Mapping[str, Flavor], allowed: Allowed | None) -> Allowed:
    def may(role: str, resource: ResourceName, flavor: str) -> bool:
        known = flavors.get(flavor)
        if known is not None and known.placed and known.cluster != cluster:
            return False
        return allowed is None or allowed(role, resource, flavor)

    return may


def _rank(found: Assignment) -> Rank:
    return Rank(found.mode, found.borrow_level)


def _is_better(found: Assignment, best: Assignment, queue: Queue) -> bool:
    """By the rules for flavors; of two that do not fit the one whose refusal is less grave."""
    if found.mode is Mode.NO_FIT and best.mode is Mode.NO_FIT:
        return _severity(found) < _severity(best)
    return is_preferred(_rank(found), _rank(best), queue.fungibility.preference)


def _severity(found: Assignment) -> int:
    return 0 if found.refusal is None else SEVERITY[found.refusal.reason]


def _told(found: Assignment, tried: tuple[str, ...]) -> Assignment:
    """The assignment whose refusals name the clusters that were tried."""
    roles = (
        role
        if role.refusal is None
        else replace(role, refusal=role.refusal.but(**{CLUSTERS: ",".join(tried)}))
        for role in found.roles
    )
    return replace(found, roles=tuple(roles))
