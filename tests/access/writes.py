"""Records the tables that a request has written, except what the request rolled back itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import connection

_WRITE: Final = re.compile(r'\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+"(\w+)"', re.IGNORECASE)
_SAVEPOINT: Final = re.compile(
    r'\s*(SAVEPOINT|RELEASE SAVEPOINT|ROLLBACK TO SAVEPOINT)\s+"(\w+)"', re.IGNORECASE
)


class WriteLog:
    """Statements in the order of execution; those that a savepoint rolls back are removed."""

    def __init__(self) -> None:
        self._marks: list[tuple[str, int]] = []
        self._tables: list[str] = []

    @property
    def tables(self) -> set[str]:
        """Return the tables with a statement that was not rolled back."""
        return set(self._tables)

    def note(self, statement: str) -> None:
        """Record one statement."""
        if found := _WRITE.match(statement):
            self._tables.append(found[1])
        elif found := _SAVEPOINT.match(statement):
            self._mark(found[1].upper(), found[2])

    def _mark(self, verb: str, name: str) -> None:
        if verb == "SAVEPOINT":
            self._marks.append((name, len(self._tables)))
            return
        while self._marks:
            marked, length = self._marks.pop()
            if marked == name:
                if verb.startswith("ROLLBACK"):
                    del self._tables[length:]
                    self._marks.append((name, length))  # it goes on after that, until it is released
                return


@contextmanager
def written() -> Iterator[WriteLog]:
    """Record what is written within the block."""
    log = WriteLog()

    def follow(
        execute: Callable[..., Any], query: Any, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        answer = execute(query, params, many, context)
        log.note(str(query))
        return answer

    with connection.execute_wrapper(follow):
        yield log
