"""Compares the expectations of a case with the current state of its cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.conformance.kai.numa import cpu_of_zone, zone_number
from scheduling.conformance.kai.world import KaiTask, Status, World

EXACT = 1e-9


class CaseComparison:
    """The differences between an expectation and a world, in the order in which they are found."""

    def __init__(self, expected: Mapping[str, Any], world: World) -> None:
        self._expected, self._world = expected, world
        self._names: dict[tuple[str, str], str] = {}

    def first_difference(self) -> str | None:
        """Return the first difference as `expected …, got …`; None if there is none."""
        return next(self.all_differences(), None)

    def all_differences(self) -> Iterator[str]:
        """Yield all differences."""
        jobs, tasks = self._expected.get("jobs", {}), self._expected.get("tasks", {})
        # KAI's own tests ignore expectations for jobs and tasks that the case does not have.
        for name, gang in sorted(self._world.gangs.items()):
            if name in jobs:
                yield from self._tasks(name, gang.tasks, jobs[name])
        for task in self._world.all_tasks():
            if task.uid in tasks:
                yield from self._tasks(task.uid, [task], tasks[task.uid])
        for name in sorted(self._expected.get("nodes", {})):
            yield from self._node(name, self._expected["nodes"][name])

    def _tasks(self, name: str, tasks: Sequence[KaiTask], wanted: Mapping[str, Any]) -> Iterator[str]:
        for task in tasks:
            place = wanted.get("NodeName", "")
            if task.status != wanted["Status"] or (place and task.node != place):
                yield _differs(task.uid, _at(wanted["Status"], place), _at(task.status, task.node))
            yield from self._zones(task, wanted.get("NUMAZones"))
        for what, asked in (
            ("GPUsRequired", sum(task.gpus for task in tasks)),
            ("MilliCpuRequired", sum(task.cpu for task in tasks)),
            ("MemoryRequired", sum(task.memory for task in tasks)),
            ("GPUsAccepted", sum(_accepted(task) for task in tasks)),
        ):
            if what in wanted and abs(float(wanted[what]) - asked) > EXACT:
                yield _differs(f"{name} {what}", wanted[what], asked)
        if not wanted.get("DontValidateGPUGroup"):
            yield from self._groups(name, tasks, wanted.get("GPUGroups", ()))

    def _zones(self, task: KaiTask, wanted: Sequence[int] | None) -> Iterator[str]:
        if wanted is None:
            return
        zones = [] if task.hold is None else [zone_number(part.resource) for part in task.hold.extended]
        if zones != list(wanted):
            yield _differs(f"{task.uid} zones", list(wanted), zones)

    def _groups(self, name: str, tasks: Sequence[KaiTask], wanted: Sequence[str]) -> Iterator[str]:
        """Yield differences of shared cards: tasks on one card must have one group name. Cards of pipelined
        tasks are not compared."""
        cards = [
            (task.node, part.device)
            for task in tasks
            if task.is_placed() and task.hold is not None
            for part in task.hold.slices
            if not part.exclusive
        ]
        for group, card in zip(wanted, cards, strict=False):
            known = self._names.setdefault(card, group)
            if known != group:
                yield _differs(f"{name} on card", group, f"{known} on {card[1]}")

    def _node(self, name: str, wanted: Mapping[str, Any]) -> Iterator[str]:
        idle, leaving = self._idle_and_leaving(name)
        got = {"IdleGPUs": idle, "ReleasingGPUs": leaving}
        for what, count in got.items():
            if what in wanted and wanted[what] != count:
                yield _differs(f"{name} {what}", wanted[what], count)
        for zone, free in wanted.get("NUMAZonesAvailable", {}).items():
            left = self._zone_left(name, int(zone))
            if "cpu" in free and float(free["cpu"]) * 1000 != left:
                yield _differs(f"{name} zone {zone} cpu", free["cpu"], left / 1000)

    def _idle_and_leaving(self, name: str) -> tuple[int, int]:
        node = next(node for node in self._world.nodes if node.id == name)
        stays: set[str] = set()
        leaves: set[str] = set()
        for task, allocation in self._world.all_allocations():
            if allocation.node == name:
                devices = {part.device for part in allocation.slices}
                (leaves if allocation.leaving or task.former is not None else stays).update(devices)
        promised = {
            part.device
            for task in self._world.all_tasks()
            if task.status is Status.PIPELINED and task.hold is not None and task.hold.node == name
            for part in task.hold.slices
        }
        cards = [device.uuid for device in node.devices if not device.profile]
        idle = sum(card not in stays and card not in leaves for card in cards)
        return idle, sum(card in leaves and card not in stays and card not in promised for card in cards)

    def _zone_left(self, name: str, number: int) -> int:
        """Return the free millicores of a zone once all evictions have ended and all claims are fulfilled."""
        node = next(node for node in self._world.nodes if node.id == name)
        left = cpu_of_zone(node.extended, number) - cpu_of_zone(node.used_extended, number)
        for task in self._world.all_tasks():
            if task.status is Status.RELEASING or task.hold is None or task.hold.node != name:
                continue
            left -= cpu_of_zone(task.hold.extended, number)
        return left


def _accepted(task: KaiTask) -> float:
    return 0.0 if task.hold is None else sum(part.cores for part in task.hold.slices) / 1000


def _at(status: str, node: str) -> str:
    return f"{status} on {node}" if node else str(status)


def _differs(where: str, expected: object, got: object) -> str:
    return f"expected {where}: {expected}, got {got}"
