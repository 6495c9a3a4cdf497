"""A statement changes a snapshot and undoes the changes unless they are committed (KAI-Scheduler: Statement).

The snapshot has one undo log; a statement knows the position at which it began. An undo costs microseconds
per change where a copy of the snapshot costs milliseconds. Statements nest: an inner commit leaves its
changes to the outer statement, which can still undo them.
"""

from __future__ import annotations

from types import TracebackType
from typing import NewType, Protocol

from scheduling.engine.model import Allocation

Mark = NewType("Mark", int)


class UndoLog(Protocol):
    """The interface that a statement needs of a snapshot: changes, and marks to which they can be undone."""

    def open_statement(self) -> Mark: ...

    def close_statement(self, start: Mark, *, committed: bool) -> None: ...

    def add_allocation(self, allocation: Allocation) -> None: ...

    def remove_allocation(self, allocation_id: str) -> Allocation: ...

    def current_mark(self) -> Mark: ...

    def undo_to(self, mark: Mark) -> None: ...


class StatementError(RuntimeError):
    """A statement was used after its end, or a change cannot be undone by a statement."""


class Statement:
    """Use it as a context manager; an exit without `commit` undoes all changes."""

    def __init__(self, snapshot: UndoLog) -> None:
        self._snapshot = snapshot
        self._start: Mark | None = None
        self._committed = False

    def __enter__(self) -> Statement:
        self._start = self._snapshot.open_statement()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        start = self._begun()
        self._snapshot.close_statement(start, committed=self._committed and kind is None)
        self._start = None

    def allocate(self, allocation: Allocation) -> None:
        """Allocate node, cards and quota to a task."""
        self._begun()
        self._snapshot.add_allocation(allocation)

    def release(self, allocation_id: str) -> Allocation:
        """Release the allocation of a task, and return it."""
        self._begun()
        return self._snapshot.remove_allocation(allocation_id)

    def checkpoint(self) -> Mark:
        """Return a mark to which `rollback` can return."""
        self._begun()
        return self._snapshot.current_mark()

    def rollback(self, mark: Mark) -> None:
        """Undo the changes since the checkpoint.

        Raises:
            StatementError: when the mark lies before this statement or after what was already undone.
        """
        if not self._begun() <= mark <= self._snapshot.current_mark():
            raise StatementError("this checkpoint is not inside the statement")
        self._snapshot.undo_to(mark)

    def commit(self) -> None:
        """Keep the changes when the statement ends."""
        self._begun()
        self._committed = True

    def _begun(self) -> Mark:
        if self._start is None:
            raise StatementError("the statement is not open")
        return self._start
