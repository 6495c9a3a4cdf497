"""This module lists the allocations whose release a claim waits for: its victims, and other terminating tasks
that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quotas.tree import is_at_least
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.model import Allocation
from scheduling.engine.state.charges import sum_charges_cached
from scheduling.engine.state.snapshot import Snapshot


class AwaitedReleases:
    """Tracks the quota that is really allocated; a claim is not, until its job starts."""

    def __init__(self, snapshot: Snapshot, future_view: FutureView) -> None:
        self._snapshot, self._future_view = snapshot, future_view
        self._held = snapshot.quota.copy()
        # What was placed and replaced since `_held` was read last.
        self._placed: list[Allocation] = []
        self._replaced: list[Allocation] = []

    def record_start(self, placed: Iterable[Allocation], replaced: Iterable[Allocation] = ()) -> None:
        """Count these allocations as held, and the ones that they replace as released."""
        self._placed.extend(placed)
        self._replaced.extend(replaced)

    def find_awaited(self, nominated: NominatedJob, victims: tuple[str, ...]) -> tuple[str, ...]:
        """Return the victims, all terminating tasks on the claimed nodes, and more until quota suffices."""
        self._count(self._replaced, -1)
        self._count(self._placed, 1)
        self._placed, self._replaced = [], []
        nodes = dict.fromkeys(allocation.node for allocation in nominated.placed if allocation.node)
        awaited = dict.fromkeys((*victims, *self._future_view.terminating_on(nodes)))
        released = [held for held in map(self._snapshot.find_present_allocation, awaited) if held is not None]
        self._count(released, -1)
        others = self._others(nominated, awaited)
        while not self._fits(nominated) and (other := next(others, None)) is not None:
            self._count((other,), -1)
            released.append(other)
        self._count(released, 1)
        return tuple(held.id for held in released)

    def _count(self, tasks: Iterable[Allocation], sign: int) -> None:
        for task in tasks:
            leaf = self._snapshot.queues[task.queue].quota_node
            self._held.defer_usage(leaf, sum_charges_cached(task.charges), sign)

    def _others(self, nominated: NominatedJob, awaited: dict[str, None]) -> Iterator[Allocation]:
        """Yield further terminating tasks that hold some of the quota: those of the own queue first."""
        keys = frozenset(key for key, amount in nominated.assignment.usage.items() if amount)
        terminating = [key for key in self._future_view.terminating_ids() if key not in awaited]
        for own in (True, False):
            for held in map(self._snapshot.find_present_allocation, terminating):
                if held is None or (held.queue == nominated.queue.id) is not own:
                    continue
                if any(charge.key in keys for charge in held.charges):
                    yield held

    def _fits(self, nominated: NominatedJob) -> bool:
        leaf = nominated.queue.quota_node
        return all(
            not amount or is_at_least(self._held.available(leaf, key), amount)
            for key, amount in nominated.assignment.usage.items()
        )
