"""NUMA zones of KAI's nodes as plug-ins of the engine: a veto, and the choice of a task's zones.

The CPUs of a zone are a named resource of its node, such as `numa-0`, whose usage the engine counts. Only
guaranteed tasks are aligned, as in the kubelet's Topology Manager. A set of zones suffices if together they
have the requested millicores; the smallest set is taken, and the first of equal ones. Cards belong to no zone
here. Source: https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import combinations
from typing import Any

import numpy as np

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kai.devices import PLUGINS
from scheduling.engine import Bools, DevicePicker, PluginSet, Question, Rows
from scheduling.engine.model import Allocation, Extended, Node, QosClass

OBSERVED = "kai.scheduler/numa-placement-observed"
CPU = "cpu"


class NumaPolicy(IntEnum):
    """The Topology Manager policy of a node, as KAI numbers it: how strictly it aligns tasks to zones.

    `SINGLE_NUMA_NODE` admits a task only if one zone has room for all of it, `RESTRICTED` only if it needs no
    more zones than on the idle node; `BEST_EFFORT` admits it anyway.
    """

    NONE = 0
    BEST_EFFORT = 1
    RESTRICTED = 2
    SINGLE_NUMA_NODE = 3


def zone_number(name: str) -> int:
    """Return the number of a zone by its name, such as `node-1`, or by the resource of its CPUs."""
    return int(name.rsplit("-", 1)[-1])


def cpu_of_zone(resources: Iterable[Extended], number: int) -> int:
    """Return the millicores of a zone among named resources."""
    return sum(item.amount for item in resources if item.resource == _resource(number))


def with_zones(node: Node, found: Mapping[str, Any]) -> Node:
    """Return a node of a case with the CPUs of its zones, and their usage.

    Raises:
        Skipped: when the node aligns other resources than CPUs.
    """
    if set(found.get("resources", ())) - {CPU}:
        raise Skipped("a node aligns other resources than CPUs to its NUMA zones")
    has, used = [], []
    for zone in found.get("zones", ()):
        name, size = _resource(zone_number(zone["id"])), int(zone["allocatable"][CPU])
        has.append(Extended(name, size))
        used.append(Extended(name, size - int(zone["available"][CPU])))
    return replace(node, extended=tuple(has), used_extended=tuple(used))


def read_observed(note: Mapping[str, str]) -> tuple[Extended, ...]:
    """Return the CPUs of a running task in each zone, from its annotations."""
    return tuple(
        Extended(_resource(zone_number(part["zone"])), int(float(part["amount"].get(CPU, 0)) * 1000))
        for part in json.loads(note.get(OBSERVED, "[]"))
    )


def add_usage(node: Node, held: Iterable[Allocation], sign: int = 1) -> Node:
    """Return a node with the usage of its zones by these tasks added, or with `sign` -1 removed."""
    used = {item.resource: item.amount for item in node.used_extended}
    for item in (item for allocation in held for item in allocation.extended if item.resource in used):
        used[item.resource] += sign * item.amount
    return replace(node, used_extended=tuple(Extended(name, max(0, left)) for name, left in used.items()))


@dataclass(frozen=True, slots=True, eq=False)
class ZoneSearch:
    """The search for the zones of a task; `policies` are those of the nodes that align tasks, by id."""

    policies: Mapping[str, NumaPolicy]

    def is_relevant(self, question: Question) -> bool:
        """Return whether a task is aligned."""
        return question.task.qos is QosClass.GUARANTEED and question.task.cpu > 0

    def find_zones(self, question: Question, row: int) -> tuple[Extended, ...]:
        """Return the free CPUs of the zones that a task gets on a row; empty if no set of zones suffices."""
        fleet, cpu = question.fleet, question.task.cpu
        sizes = fleet.nodes[row].extended
        free = [Extended(zone.resource, int(fleet.extended_free[zone.resource][row])) for zone in sizes]
        serving, policy = _smallest_set(free, cpu), self._policy_of(question, row)
        if policy is NumaPolicy.NONE:
            return ()
        if policy is NumaPolicy.SINGLE_NUMA_NODE and len(serving) > 1:
            return ()
        if policy is NumaPolicy.RESTRICTED and len(serving) > len(_smallest_set(sizes, cpu)):
            return ()
        return serving

    def admits(self, question: Question, row: int) -> bool:
        """Return whether the policy of a row's node admits a task."""
        lenient = self._policy_of(question, row) in (NumaPolicy.NONE, NumaPolicy.BEST_EFFORT)
        return lenient or bool(self.find_zones(question, row))

    def _policy_of(self, question: Question, row: int) -> NumaPolicy:
        return self.policies.get(question.fleet.nodes[row].id, NumaPolicy.NONE)


@dataclass(slots=True, eq=False)
class NumaVeto:
    """The veto of nodes whose NUMA policy does not admit the task."""

    zones: ZoneSearch
    name: str = "numa"
    fixed: bool = False

    def applies(self, question: Question) -> bool:
        """Return whether zones matter to the task."""
        return self.zones.is_relevant(question)

    def allows(self, question: Question, rows: Rows) -> Bools:
        """Return which of the rows admit the task."""
        numbers = np.arange(len(question.fleet))[rows].tolist()
        return np.array([self.zones.admits(question, row) for row in numbers], np.bool_)


@dataclass(slots=True, eq=False)
class AlignedDevices:
    """A device picker that wraps another one, and also allocates CPUs of zones to aligned tasks."""

    picker: DevicePicker
    zones: ZoneSearch
    name: str = "aligned"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """Return the columns that the other picker chooses."""
        return self.picker.pick(question, row)

    def pick_resources(self, question: Question, row: int) -> tuple[Extended, ...]:
        """Return the CPUs that a task gets of each of its zones: as many as are free, zone by zone."""
        if not self.zones.is_relevant(question):
            return ()
        left, found = question.task.cpu, list[Extended]()
        for zone in self.zones.find_zones(question, row):
            found.append(Extended(zone.resource, min(left, zone.amount)))
            left -= found[-1].amount
        return tuple(found)


def with_numa(policies: Mapping[str, NumaPolicy], devices: str) -> PluginSet:
    """Return the plug-ins with the veto `numa` and the picker `aligned`, which uses `devices`."""
    zones, pickers = ZoneSearch(policies), PLUGINS.device_pickers
    return replace(
        PLUGINS,
        vetoes=PLUGINS.vetoes.with_plugins(NumaVeto(zones)),
        device_pickers=pickers.with_plugins(AlignedDevices(pickers.get(devices), zones)),
    )


def _resource(number: int) -> str:
    return f"numa-{number}"


def _smallest_set(zones: Iterable[Extended], cpu: int) -> tuple[Extended, ...]:
    """Return the first of the smallest sets of zones that together have so many millicores."""
    known = sorted(zones, key=lambda zone: zone_number(zone.resource))
    for size in range(1, len(known) + 1):
        for chosen in combinations(known, size):
            if sum(max(0, zone.amount) for zone in chosen) >= cpu:
                return chosen
    return ()
