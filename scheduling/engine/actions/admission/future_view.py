"""This module tracks terminating tasks, and shows the snapshot before or after their end.

A task that was evicted holds its node and its quota until its end is confirmed. No job can start there
before, but a job that would fit there needs no victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from scheduling.engine.state.snapshot import Snapshot


class FutureView:
    """The terminating allocations of one snapshot; evictions of this cycle are added.

    The snapshot shows them as running (`show_present`) or as gone (`show_future`). Without any, both are the
    same, and the snapshot keeps one state only.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.change_count = 0
        self._shows_future = False
        self._terminating: dict[str, None] = {}
        self._jobs: set[str] = set()
        self._by_node: dict[str, list[str]] = {}
        self._add(snapshot.leaving_allocations())

    def __bool__(self) -> bool:
        return bool(self._terminating)

    def mark_terminating(self, allocation_ids: Iterable[str]) -> None:
        """Add allocations that were evicted in this cycle; they still hold their nodes."""
        self._add(allocation_ids)
        self.change_count += 1

    def terminating_ids(self) -> tuple[str, ...]:
        """Return all terminating allocations that still hold something."""
        return tuple(
            key for key in self._terminating if self._snapshot.find_present_allocation(key) is not None
        )

    def terminating_on(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return those of them on these nodes."""
        keys = (key for node in nodes for key in self._by_node.get(node, ()))
        return tuple(key for key in keys if self._snapshot.find_present_allocation(key) is not None)

    def hidden_jobs(self) -> Set[str]:
        """Return the jobs with terminating tasks that are not shown at the moment."""
        return self._jobs if self._shows_future else frozenset()

    def show_future(self) -> None:
        """Show all terminating tasks as gone."""
        self._show(later=True)

    def show_present(self) -> None:
        """Show all terminating tasks as running."""
        self._show(later=False)

    def _show(self, *, later: bool) -> None:
        if self._terminating:
            self._snapshot.select_view(future=later)
        self._shows_future = later

    def _add(self, allocation_ids: Iterable[str]) -> None:
        for key in allocation_ids:
            held = self._snapshot.find_present_allocation(key)
            if held is not None and key not in self._terminating:
                if not self._terminating:
                    self._snapshot.open_future()
                    self._snapshot.select_view(future=self._shows_future)
                self._terminating[key] = None
                self._jobs.add(held.job)
                self._by_node.setdefault(held.node, []).append(key)
                self._snapshot.release_in_future((key,))
