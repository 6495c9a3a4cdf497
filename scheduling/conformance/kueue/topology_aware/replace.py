"""Moves the tasks of a failed leaf to other leaves, so that the role's topology request is still
satisfied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduling.conformance.kueue.topology_aware.place import DomainGangPlacer
from scheduling.conformance.kueue.topology_aware.request import RoleRequest
from scheduling.conformance.kueue.topology_aware.result import Failure, Misfit, Placement, SliceLayer
from scheduling.conformance.kueue.topology_aware.tree import TopologyTree
from scheduling.engine.model import TopologyMode


@dataclass(frozen=True, slots=True)
class Replacement:
    """The whole new placement, and the part of it that was moved."""

    placement: Placement
    moved: Placement


def replace_leaf(
    placer: DomainGangPlacer, tree: TopologyTree, request: RoleRequest, existing: Placement, failed: str
) -> Replacement | Failure:
    """Return new leaves for the tasks in the leaf whose last label value is `failed`.

    The other tasks stay. The new leaves are in the same domain of a required level, and complete the slice
    that lost tasks, if there is one; slices that failed completely may be placed anywhere that the role
    allows. The placer takes the new capacity.
    """
    rest = existing.without_domain(failed)
    missing = existing.tasks - rest.tasks
    stale = placer.find_stale(rest)
    if stale is not None:
        return stale
    asked = replace(request, tasks=missing, previous=None)
    broken = _broken_layer(asked)
    within = _confinement(tree, asked, rest, broken)
    if broken is not None and within is not None:
        asked = _regrouped(asked)
    found = placer.find_domains(asked, None, within)
    if isinstance(found, Failure):
        return found
    moved = found[request.name]
    if not moved.shares:
        return Failure(Misfit.NO_REPLACEMENT, level=failed)
    placer.take_placement(moved, request.per_task)
    return Replacement(placer.merge_placements(moved, rest), moved)


def _broken_layer(request: RoleRequest) -> SliceLayer | None:
    """Return the finest slice layer that lost part of a slice; None if only whole slices are missing."""
    layers = request.layers
    if not layers or request.tasks % layers[0].size == 0:
        return None
    return next(layer for layer in reversed(layers) if request.tasks % layer.size)


def _confinement(
    tree: TopologyTree, request: RoleRequest, rest: Placement, broken: SliceLayer | None
) -> range | None:
    """Return the range of leaves in which the new tasks must be placed; None for anywhere."""
    if not rest.shares:
        return None
    if broken is not None:
        return _incomplete_slice(tree, rest, request.tasks, broken)
    level = tree.level_named(request.level or "")
    if request.mode is not TopologyMode.REQUIRED or level is None:
        return None
    leaf = tree.leaf_index[rest.shares[0].domain]
    return tree.domains_inside(level, tree.domain_around(leaf, level), tree.lowest)


def _incomplete_slice(tree: TopologyTree, rest: Placement, missing: int, layer: SliceLayer) -> range | None:
    """Return the leaves of the first domain whose tasks, with the missing ones, are whole slices again."""
    level = tree.level_named(layer.level)
    if level is None:
        return None
    tasks: dict[int, int] = {}
    for share in rest.shares:
        domain = tree.domain_around(tree.leaf_index[share.domain], level)
        tasks[domain] = tasks.get(domain, 0) + share.tasks
    for domain, placed in sorted(tasks.items()):
        if (placed + missing) % layer.size == 0:
            return tree.domains_inside(level, domain, tree.lowest)
    return None


def _regrouped(request: RoleRequest) -> RoleRequest:
    """Return the request with only the finest layer whose size divides the number of tasks."""
    dividing: Sequence[SliceLayer] = [layer for layer in request.layers if request.tasks % layer.size == 0]
    return replace(request, layers=tuple(dividing[-1:]))
