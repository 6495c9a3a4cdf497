"""A what-if: changes that are undone unless they are committed.

The snapshot keeps one undo log; a statement remembers where in it it began. Undoing costs
microseconds per change where copying a snapshot costs milliseconds. Statements nest: an inner commit
keeps its changes for the outer statement, which can still take them back.
"""

from __future__ import annotations

from types import TracebackType
from typing import NewType, Protocol

from scheduling.engine.model import Allocation

Mark = NewType("Mark", int)


class UndoLog(Protocol):
    """What a statement needs of a snapshot: changes, and points to which they can be undone."""

    def open_statement(self) -> Mark: ...

    def close_statement(self, start: Mark, *, kept: bool) -> None: ...

    def take(self, allocation: Allocation) -> None: ...

    def give_back(self, allocation_id: str) -> Allocation: ...

    def mark(self) -> Mark: ...

    def undo_to(self, mark: Mark) -> None: ...


class StatementError(RuntimeError):
    """A statement used after its end, or changes that a statement cannot undo."""


class Statement:
    """Use as a context manager; leaving it without `commit` takes everything back."""

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
        self._snapshot.close_statement(start, kept=self._committed and kind is None)
        self._start = None

    def allocate(self, allocation: Allocation) -> None:
        """Let a task hold its node, its cards and its quota."""
        self._begun()
        self._snapshot.take(allocation)

    def release(self, allocation_id: str) -> Allocation:
        """Take back what a task holds; returns what it was."""
        self._begun()
        return self._snapshot.give_back(allocation_id)

    def checkpoint(self) -> Mark:
        """A point to which `rollback` can return."""
        self._begun()
        return self._snapshot.mark()

    def rollback(self, mark: Mark) -> None:
        """Undo what was done since the checkpoint.

        Raises:
            StatementError: when the mark lies before this statement or after what was already undone.
        """
        if not self._begun() <= mark <= self._snapshot.mark():
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
