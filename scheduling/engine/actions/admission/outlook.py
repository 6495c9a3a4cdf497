"""What is about to leave, and the state of things once it has left.

A task that was told to go holds its place and its quota until it is confirmed gone. Nobody can start in
that place before, but a job that would fit there needs nobody else to leave for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from scheduling.engine.model import Allocation, FlavorResource, JobState
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


class Outlook:
    """The allocations of one snapshot that are leaving; those told in this cycle are added."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._leaving: dict[str, None] = {
            key: None
            for key in sorted(snapshot.allocations)
            if snapshot.allocations[key].leaving or _job_leaves(snapshot, snapshot.allocations[key])
        }

    def __bool__(self) -> bool:
        return bool(self._leaving)

    def add(self, allocation_ids: Iterable[str]) -> None:
        """These were told to leave."""
        self._leaving.update(dict.fromkeys(allocation_ids))

    def ids(self) -> tuple[str, ...]:
        """Everything that is leaving and still holds something."""
        return tuple(key for key in self._leaving if key in self._snapshot.allocations)

    def nodes(self) -> frozenset[str]:
        """The nodes on which something is leaving."""
        return frozenset(self._snapshot.allocations[key].node for key in self.ids())

    def touches(self, keys: Iterable[FlavorResource]) -> bool:
        """Whether something leaves that holds one of these quotas."""
        wanted = frozenset(keys)
        held = (charge.key for key in self.ids() for charge in self._snapshot.allocations[key].charges)
        return any(key in wanted for key in held)

    @contextmanager
    def later(self) -> Iterator[Statement]:
        """The snapshot as it will be when all that is leaving has left; taken back at the end."""
        with self._snapshot.statement() as statement:
            for key in self.ids():
                statement.release(key)
            yield statement


def _job_leaves(snapshot: Snapshot, allocation: Allocation) -> bool:
    job = snapshot.jobs.get(allocation.job)
    return job is not None and job.state is JobState.LEAVING
