"""What is about to leave, and the state of things once it has left.

A task that was told to go holds its place and its quota until it is confirmed gone. Nobody can start in
that place before, but a job that would fit there needs nobody else to leave for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.model import Allocation
from scheduling.engine.state.snapshot import Snapshot


class Outlook:
    """The allocations of one snapshot that are leaving; those told in this cycle are added.

    The snapshot shows them as still there (`present`) or as gone (`later`); going from one to the other
    costs as many steps as there are leavers, so whoever asks stays where the last one was.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._gone: dict[str, Allocation] = {}
        self._away: set[str] = set()
        self.changes = 0
        self._leaving: dict[str, None] = dict.fromkeys(snapshot.leaving())

    def __bool__(self) -> bool:
        return bool(self._leaving)

    def add(self, allocation_ids: Iterable[str]) -> None:
        """These were told to leave; they are still there."""
        self._leaving.update(dict.fromkeys(allocation_ids))
        self.changes += 1

    def ids(self) -> tuple[str, ...]:
        """Everything that is leaving and still holds something."""
        return tuple(key for key in self._leaving if key in self._gone or key in self._snapshot.allocations)

    def holds(self, job_id: str) -> bool:
        """Whether tasks of a job that are leaving are shown as gone at the moment."""
        return job_id in self._away

    def later(self) -> None:
        """Show everything that is leaving as gone."""
        for key in self._leaving:
            if key not in self._gone and key in self._snapshot.allocations:
                self._gone[key] = self._snapshot.give_back(key)
                self._away.add(self._gone[key].job)

    def present(self) -> None:
        """Show it as still there."""
        for held in self._gone.values():
            self._snapshot.take(held)
        self._gone.clear()
        self._away.clear()
