"""This module lists the allocations whose release a claim waits for: its victims, and other terminating tasks
that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quotas.tree import is_at_least
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.model import Allocation, FlavorResource
from scheduling.engine.state.charges import sum_charges_cached
from scheduling.engine.state.snapshot import Snapshot


class AwaitedReleases:
    """Tracks the quota that is really allocated; a claim is not, until its job starts."""

    def __init__(self, snapshot: Snapshot, future_view: FutureView) -> None:
        self._snapshot, self._future_view = snapshot, future_view
        self._held = snapshot.quota.copy()

    def record_start(self, placed: Iterable[Allocation], replaced: Iterable[Allocation] = ()) -> None:
        """Count these allocations as held, and the ones that they replace as released."""
        for allocation in replaced:
            self._held.defer_usage(self._leaf(allocation), sum_charges_cached(allocation.charges), -1)
        for allocation in placed:
            self._held.defer_usage(self._leaf(allocation), sum_charges_cached(allocation.charges), 1)

    def find_awaited(self, nominated: NominatedJob, victims: tuple[str, ...]) -> tuple[str, ...]:
        """Return the victims, all terminating tasks on the claimed nodes, and further ones until quota
        suffices."""
        nodes = dict.fromkeys(allocation.node for allocation in nominated.placed if allocation.node)
        awaited = dict.fromkeys((*victims, *self._future_view.terminating_on(nodes)))
        released = [held for held in map(self._snapshot.find_present_allocation, awaited) if held is not None]
        for held in released:
            self._held.defer_usage(self._leaf(held), sum_charges_cached(held.charges), -1)
        others = self._others(nominated, awaited)
        while not self._fits(nominated) and (other := next(others, None)) is not None:
            self._held.defer_usage(self._leaf(other), sum_charges_cached(other.charges), -1)
            released.append(other)
        for held in released:
            self._held.defer_usage(self._leaf(held), sum_charges_cached(held.charges), 1)
        return tuple(held.id for held in released)

    def _others(self, nominated: NominatedJob, awaited: dict[str, None]) -> Iterator[Allocation]:
        """Yield further terminating tasks that hold some of the quota: those of the own queue first."""
        keys = frozenset(key for key, amount in nominated.assignment.usage.items() if amount)
        terminating = [key for key in self._future_view.terminating_ids() if key not in awaited]
        for own in (True, False):
            for held in map(self._snapshot.find_present_allocation, terminating):
                if held is not None and (held.queue == nominated.queue.id) is own and _uses(held, keys):
                    yield held

    def _fits(self, nominated: NominatedJob) -> bool:
        leaf = nominated.queue.quota_node
        return all(
            not amount or is_at_least(self._held.available(leaf, key), amount)
            for key, amount in nominated.assignment.usage.items()
        )

    def _leaf(self, held: Allocation) -> str:
        return self._snapshot.queues[held.queue].quota_node


def _uses(held: Allocation, keys: frozenset[FlavorResource]) -> bool:
    return any(charge.key in keys for charge in held.charges)
