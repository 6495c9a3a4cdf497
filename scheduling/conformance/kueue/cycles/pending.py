"""Kueue's queue manager between cycles: the pending workloads that are active, and those that are
inadmissible.

A ClusterQueue has an active heap and a set of parked (inadmissible) workloads. A workload that was not
admitted returns to the heap if an immediate retry may succeed, and is parked otherwise until something
changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduling.conformance.kueue.manifests.objects import Aside, Setup
from scheduling.conformance.kueue.scheduler.turns import JobEvaluation
from scheduling.engine.model import Queue, Strategy, Verdict

RETRIED = (Verdict.PREEMPTING, Verdict.DEFERRED, Verdict.OVERLAPS, Verdict.OVERTAKEN)
LIKE_FAIL_TOO = (Verdict.NO_FIT, Verdict.NO_ROOM, Verdict.NO_VICTIMS)


class Bar(StrEnum):
    """The reason why a head is requeued before its quota is evaluated."""

    NAMESPACE = "namespace"
    CHECKS = "checks"
    INVALID = "invalid"


@dataclass(slots=True)
class Heaps:
    """The active and the parked workloads of each ClusterQueue, by key."""

    setup: Setup
    objects: Mapping[str, Mapping[str, Any]]
    equivalent: bool = True
    active: dict[str, dict[str, None]] = field(default_factory=dict)
    parked: dict[str, dict[str, None]] = field(default_factory=dict)

    def enqueue_pending(self, queue_of: Mapping[str, str], ready: Mapping[str, bool]) -> None:
        """Add all pending workloads; those that must not be retried yet are parked."""
        for key, queue in queue_of.items():
            heap = self.active if ready[key] else self.parked
            heap.setdefault(queue, {})[key] = None

    def remove_workload(self, queue: str, key: str) -> None:
        """Remove a workload from the active heap of its queue."""
        self.active.get(queue, {}).pop(key, None)

    def requeue_barred(self, queue: Queue, key: str, why: Bar) -> None:
        """Park a head that was requeued at once; a strict queue keeps it active unless its namespace
        mismatches."""
        if queue.strategy is Strategy.STRICT_FIFO and why is not Bar.NAMESPACE:
            return
        self._park(queue.id, key)

    def requeue_considered(self, queue: Queue, turn: JobEvaluation) -> None:
        """Park a head that was evaluated and not admitted, unless a retry may succeed."""
        if queue.strategy is Strategy.STRICT_FIFO or turn.verdict in RETRIED:
            return
        if turn.more_flavors and turn.verdict in LIKE_FAIL_TOO:
            return
        self._park(queue.id, turn.job)
        if self.equivalent and turn.verdict in LIKE_FAIL_TOO:
            shape = self._shape(turn.job)
            for key in list(self.active.get(queue.id, {})):
                if self._shape(key) == shape:
                    self._park(queue.id, key)

    def active_workloads(self) -> dict[str, list[str]]:
        """Return the active workloads by ClusterQueue, without empty queues."""
        return _lists(self.active)

    def parked_workloads(self) -> dict[str, list[str]]:
        """Return the parked workloads by ClusterQueue, without empty queues."""
        return _lists(self.parked)

    def _park(self, queue: str, key: str) -> None:
        self.remove_workload(queue, key)
        self.parked.setdefault(queue, {})[key] = None

    def _shape(self, key: str) -> str:
        spec = self.objects[key].get("spec", {})
        shape = {name: spec.get(name) for name in ("podSets", "priority")}
        return json.dumps(shape, sort_keys=True)


def lined_up(setup: Setup) -> Iterable[str]:
    """Yield the pending workloads that are queued in a ClusterQueue."""
    away = (Aside.DEACTIVATED, Aside.LOCAL_QUEUE_STOPPED, Aside.FINISHED)
    for job in setup.jobs:
        if job.state.value in ("queued", "suspended") and setup.aside.get(job.id) not in away:
            yield job.id


def _lists(heaps: Mapping[str, Mapping[str, None]]) -> dict[str, list[str]]:
    return {name: sorted(keys) for name, keys in sorted(heaps.items()) if keys}
