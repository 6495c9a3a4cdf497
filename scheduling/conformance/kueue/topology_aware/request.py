"""The topology request of a role, and its validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from scheduling.conformance.kueue.topology_aware.result import Failure, Misfit, Placement, SliceLayer
from scheduling.conformance.kueue.topology_aware.tree import TopologyTree
from scheduling.engine.model import Expression, PlacementRules, TopologyMode


@dataclass(frozen=True, slots=True)
class NodePreference:
    """A preference: nodes that satisfy all of `term` are preferred by `weight`."""

    weight: int
    term: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """Equal tasks of one role that are to be placed together.

    `per_task` has integers by resource. `level` is a node label: with mode `REQUIRED` all tasks are in one
    domain of it; with `PREFERRED` in one domain of it, else of the finest coarser level with enough room,
    else in as few domains as possible. `layers` are from coarse to fine. Of two roles with the same
    `companions` name the smaller one is a single leader, which is placed near the workers. `previous` is the
    current placement of the role's tasks, if it only grows or shrinks.
    """

    name: str
    tasks: int
    per_task: Mapping[str, int]
    mode: TopologyMode = TopologyMode.UNCONSTRAINED
    level: str | None = None
    layers: tuple[SliceLayer, ...] = ()
    rules: PlacementRules = field(default_factory=PlacementRules)
    preferences: tuple[NodePreference, ...] = ()
    companions: str | None = None
    previous: Placement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOptions:
    """The rules by which domains are chosen.

    mixed_profile: unconstrained roles fill the domains with the least free capacity first, so that large
        domains stay free for other roles; without it they use best fit like the others.
    balanced: preferred roles are spread evenly over the fewest domains if that is possible.
    heed_preferences: preferred node affinity ranks domains before their fit.
    grow_in_place: a role with a previous placement keeps its tasks in their domains.
    avoid_lost: tasks of a failed node are not placed there again, even if it is healthy again.
    """

    mixed_profile: bool = True
    balanced: bool = False
    heed_preferences: bool = False
    grow_in_place: bool = False
    avoid_lost: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request resolved for one tree: levels as numbers, counts in slices.

    `slice_size` tasks share a domain of `slice_level`; a role without slices has slices of one task on the
    lowest level. `inner_sizes` has the sizes of groups that must not be split, by finer level. `leaders` is 1
    if there is a leader, else 0.
    """

    tasks: int
    leaders: int
    level: int
    slice_level: int
    slice_size: int
    inner_sizes: Mapping[int, int]
    layers: tuple[SliceLayer, ...]
    required: bool
    unconstrained: bool

    @property
    def slices(self) -> int:
        """The number of slices to place."""
        return self.tasks // self.slice_size

    def size_at(self, level: int) -> int:
        """Return the number of tasks that must not be split on a level."""
        return self.slice_size if level <= self.slice_level else self.inner_sizes.get(level, 1)


def draw_plan(tree: TopologyTree, request: RoleRequest, leaders: int) -> Plan | Failure:
    """Return the plan of a request, or the failure if a part of it is invalid for this topology."""
    layers = request.layers
    if layers and layers[0].size <= 0:
        return Failure(Misfit.NO_SLICE_SIZE)
    wanted = request.level
    if wanted is None:
        # With slices only, the tasks as a whole may be anywhere.
        wanted = tree.levels[0] if layers else tree.levels[-1]
    level = tree.level_named(wanted)
    if level is None:
        return Failure(Misfit.UNKNOWN_LEVEL, level=wanted)
    slice_label = layers[0].level if layers else tree.levels[-1]
    slice_level = tree.level_named(slice_label)
    if slice_level is None:
        return Failure(Misfit.UNKNOWN_SLICE_LEVEL, level=slice_label)
    if level > slice_level:
        return Failure(Misfit.SLICE_LEVEL_TOO_COARSE, level=slice_label, other=wanted)
    if layers and request.tasks % layers[0].size:
        return Failure(Misfit.UNEVEN_SLICES, needed=request.tasks, slice_size=layers[0].size)
    inner = _inner_sizes(tree, slice_level, layers)
    if isinstance(inner, Failure):
        return inner
    return Plan(
        tasks=request.tasks,
        leaders=leaders,
        level=level,
        slice_level=slice_level,
        slice_size=layers[0].size if layers else 1,
        inner_sizes=inner,
        layers=layers,
        required=request.mode is TopologyMode.REQUIRED,
        unconstrained=request.mode is TopologyMode.UNCONSTRAINED,
    )


def _inner_sizes(
    tree: TopologyTree, slice_level: int, layers: tuple[SliceLayer, ...]
) -> dict[int, int] | Failure:
    """Return the size of groups that must not be split, by level below the slices."""
    sizes: dict[int, int] = {}
    above = slice_level
    for outer, inner in pairwise(layers):
        level = tree.level_named(inner.level)
        if level is None:
            return Failure(Misfit.UNKNOWN_LAYER_LEVEL, level=inner.level)
        if level <= above:
            return Failure(Misfit.LAYER_NOT_FINER, level=inner.level, other=tree.levels[above])
        if inner.size <= 0 or outer.size % inner.size:
            return Failure(Misfit.LAYER_DOES_NOT_DIVIDE, needed=outer.size, fitting=inner.size)
        sizes.update(dict.fromkeys(range(above + 1, level + 1), inner.size))
        above = level
    return sizes
