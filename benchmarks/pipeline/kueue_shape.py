"""The jobs of Kueue's own performance test, configuration `baseline`, and their creation times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of one size: `count` per queue, one every `every_ms`, each on `cards` GPUs for `run_ms`."""

    name: str
    priority: int
    count: int
    every_ms: int
    cards: int
    run_ms: int


CLASSES: Final = (
    JobClass(name="small", priority=50, count=350, every_ms=100, cards=1, run_ms=200),
    JobClass(name="medium", priority=100, count=100, every_ms=500, cards=5, run_ms=500),
    JobClass(name="large", priority=200, count=50, every_ms=1200, cards=20, run_ms=1000),
)


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """One job: created `at_s` seconds after the start."""

    at_s: float
    kind: JobClass
    queue: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.kind.name}-{self.queue}-{self.number}"

    def job_file(self) -> dict[str, Any]:
        """Return its job file. The job starts at once on its node, as a job of Kueue's runner does."""
        resources = {"cpu": "100m", "memory": "64Mi", "gpu": {"cards": self.kind.cards}}
        return {
            "name": self.name,
            "queue": self.queue,
            "priority_class": self.kind.name,
            "roles": [{"name": "main", "image": "bench:1", "resources": resources}],
            "simulate": {"start_s": 0, "run_s": self.kind.run_ms / 1000},
        }


def plan_workloads(queues: int, share: float = 1.0) -> Iterator[PlannedWorkload]:
    """Yield all jobs of one cohort, in the order of their creation; a `share` of each class."""
    every = (
        PlannedWorkload(number * kind.every_ms / 1000, kind, f"queue-{queue}", number)
        for kind in CLASSES
        for queue in range(queues)
        for number in range(max(1, round(kind.count * share)))
    )
    yield from sorted(every, key=lambda job: (job.at_s, job.name))
