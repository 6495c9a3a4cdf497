"""Operations of a migration concurrent with running processes: each in its own transaction.

A transaction that has changed one table and waits for another deadlocks with a session that has read the
other and waits for the first; PostgreSQL then aborts one of the two, which may be a request. `atomic = False`
alone would leave a half-done operation behind where SQLite rebuilds a table. A migration that is tried again
starts from its beginning, so it may only have operations that may be repeated; each other operation needs a
migration of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.migrations.operations.base import Operation


def each_by_itself(operations: Iterable[Operation]) -> list[Operation]:
    """Return the operations of a migration with `atomic = False`, each to run in its own transaction."""
    found = list(operations)
    for operation in found:
        vars(operation)["atomic"] = True  # a class variable to Django's types
    return found
