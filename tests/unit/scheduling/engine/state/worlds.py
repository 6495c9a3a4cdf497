"""A world with allocations to undo."""

from __future__ import annotations

from scheduling.engine import Snapshot
from scheduling.engine.model import Allocation
from tests.unit.scheduling.engine.builders import cycle, job, node, quotas, role, world


def crowded() -> tuple[Snapshot, list[Allocation]]:
    """A world with two teams, and twelve allocations that could be made in it."""
    jobs = [job(f"w{index}", "a" if index % 2 else "b", at=index) for index in range(4)]
    jobs += [job(f"s{index}", "a", role(2, 1, cores=30, cpu=500), at=9 + index) for index in range(4)]
    teams = {"a": quotas(3), "b": quotas(2, lend=1)}
    snapshot = world([node("n1"), node("n2", 4)], jobs, teams=teams)
    made = [task for entry in cycle(snapshot).decisions for task in entry.allocations]
    return snapshot, made
