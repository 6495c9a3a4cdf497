"""Counts the tasks and slices that fit in each domain, in the leaves and then upwards.

Every count also exists with the leader: the number of workers that fit in a domain together with the group's
leader. Above the leaves the leader is assumed in the child where it displaces the fewest workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduling.conformance.kueue.topology_aware.eligibility import Eligibility
from scheduling.conformance.kueue.topology_aware.request import Plan, RoleRequest
from scheduling.conformance.kueue.topology_aware.result import Exclusions
from scheduling.conformance.kueue.topology_aware.stock import Stock
from scheduling.conformance.kueue.topology_aware.tree import Ints, Mask, TopologyTree

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class LevelRoom:
    """The room of the domains of one level, as arrays.

    `slices` is 0 on levels finer than that of the slices. `leaders` is 1 if the leader fits, `liking` is the
    sum of the preference weights of the leaves inside.
    """

    tasks: Ints
    led_tasks: Ints
    slices: Ints
    led_slices: Ints
    leaders: Ints
    liking: Ints

    def count_units(self, size: int, in_slices: bool) -> tuple[Ints, Ints]:
        """Return the room without and with the leader, in slices or in groups of `size` tasks."""
        if in_slices:
            return self.slices, self.led_slices
        return self.tasks // size, self.led_tasks // size


Room = tuple[LevelRoom, ...]


def count_leaves(
    stock: Stock,
    left: Ints,
    eligible: tuple[Eligibility, Eligibility],
    workers: RoleRequest,
    leader: RoleRequest | None,
    within: range | None = None,
) -> tuple[LevelRoom, Exclusions]:
    """Return the room in the leaves, and the numbers of excluded leaves; `within` limits tasks to a range of
    leaves.

    `eligible` is that of the workers and that of the leader, which is only placed where workers may be.
    """
    for_workers, for_leader = eligible
    exclusions = for_workers.exclusions.copy()
    allowed = for_workers.allowed
    if within is not None:
        inside = np.zeros(len(allowed), dtype=np.bool_)
        inside[within.start : within.stop] = True
        exclusions.outside += int((allowed & ~inside).sum())
        allowed = allowed & inside
    tasks, tightest, names = stock.count_tasks(left, workers.per_task)
    for resource in tightest[allowed & (tasks == 0)].tolist() if names else ():
        exclusions.resources[names[resource]] = exclusions.resources.get(names[resource], 0) + 1
    tasks = np.where(allowed, tasks, 0)
    leaders = np.zeros(len(left), dtype=np.int64)
    led_tasks = tasks
    if leader is not None:
        hosts = allowed & for_leader.allowed & (stock.count_tasks(left, leader.per_task)[0] > 0)
        leaders = hosts.astype(np.int64)
        less = stock.subtract_amounts(left, leader.per_task, np.flatnonzero(hosts))
        led_tasks = np.where(allowed, stock.count_tasks(less, workers.per_task)[0], 0)
    nothing = np.zeros(len(left), dtype=np.int64)
    return LevelRoom(tasks, led_tasks, nothing, nothing, leaders, for_workers.liking), exclusions


def add_up(tree: TopologyTree, leaves: LevelRoom, plan: Plan) -> Room:
    """Return the room on every level, coarsest first."""
    if plan.slice_level == tree.lowest:
        leaves = _in_slices(leaves, plan.slice_size)
    levels = [leaves]
    for level in range(tree.lowest - 1, -1, -1):
        group = plan.inner_sizes.get(level + 1, 1)
        summed = _sum_children(tree.starts[level][:-1], levels[0], group, plan.leaders > 0)
        levels.insert(0, _in_slices(summed, plan.slice_size) if level == plan.slice_level else summed)
    return tuple(levels)


def _in_slices(room: LevelRoom, size: int) -> LevelRoom:
    return replace(room, slices=room.tasks // size, led_slices=room.led_tasks // size)


def _sum_children(starts: Ints, child: LevelRoom, group: int, with_leader: bool) -> LevelRoom:
    if not len(starts):
        return child
    # Only whole groups of a child count for its parent.
    tasks, led_tasks = child.tasks // group * group, child.led_tasks // group * group
    hosts = child.leaders > 0 if with_leader else np.ones(len(tasks), dtype=np.bool_)
    all_tasks, all_slices = np.add.reduceat(tasks, starts), np.add.reduceat(child.slices, starts)
    return LevelRoom(
        tasks=all_tasks,
        led_tasks=_less_cheapest(all_tasks, tasks - led_tasks, hosts, starts),
        slices=all_slices,
        led_slices=_less_cheapest(all_slices, child.slices - child.led_slices, hosts, starts),
        leaders=np.maximum.reduceat(child.leaders, starts),
        liking=np.add.reduceat(child.liking, starts),
    )


def _less_cheapest(total: Ints, cost: Ints, hosts: Mask, starts: Ints) -> Ints:
    """Return the total minus the smallest cost of the leader among the children that can host it."""
    cheapest = np.minimum.reduceat(np.where(hosts, cost, _NEVER), starts)
    return np.where(cheapest == _NEVER, 0, total - np.where(cheapest == _NEVER, 0, cheapest))
