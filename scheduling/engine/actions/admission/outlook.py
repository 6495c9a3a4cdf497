"""What is about to leave, and the state of things once it has left.

A task that was told to go holds its place and its quota until it is confirmed gone. Nobody can start in
that place before, but a job that would fit there needs nobody else to leave for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from scheduling.engine.state.snapshot import Snapshot


class Outlook:
    """The allocations of one snapshot that are leaving; those told in this cycle are added.

    The snapshot shows them as still there (`present`) or as gone (`later`).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.changes = 0
        self._shown_later = False
        self._leaving: dict[str, None] = {}
        self._jobs: set[str] = set()
        self._on: dict[str, list[str]] = {}
        snapshot.join()
        self._note(snapshot.leaving())

    def __bool__(self) -> bool:
        return bool(self._leaving)

    def add(self, allocation_ids: Iterable[str]) -> None:
        """These were told to leave; they are still there."""
        self._note(allocation_ids)
        self.changes += 1

    def ids(self) -> tuple[str, ...]:
        """Everything that is leaving and still holds something."""
        return tuple(key for key in self._leaving if self._snapshot.standing(key) is not None)

    def on(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those of them that stand on these nodes."""
        keys = (key for node in nodes for key in self._on.get(node, ()))
        return tuple(key for key in keys if self._snapshot.standing(key) is not None)

    def unseen(self) -> Set[str]:
        """The jobs of which tasks that are leaving are shown as gone at the moment."""
        return self._jobs if self._shown_later else frozenset()

    def later(self) -> None:
        """Show everything that is leaving as gone."""
        self._show(later=True)

    def present(self) -> None:
        """Show it as still there."""
        self._show(later=False)

    def _show(self, *, later: bool) -> None:
        self._snapshot.show(later=later)
        self._shown_later = later

    def _note(self, allocation_ids: Iterable[str]) -> None:
        for key in allocation_ids:
            held = self._snapshot.standing(key)
            if held is not None and key not in self._leaving:
                self._leaving[key] = None
                self._jobs.add(held.job)
                self._on.setdefault(held.node, []).append(key)
                self._snapshot.leave((key,))
