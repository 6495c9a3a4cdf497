"""Operations of a migration beside running processes: each in a transaction of its own.

A transaction that has changed one table and waits for another deadlocks with whoever has read the other and
asks for the first; PostgreSQL then ends one of the two, which may be a request. `atomic = False` alone would
leave half of an operation behind where SQLite makes a table anew. A migration that is tried again begins
anew, so it may only have operations that may be done twice; others stand in a migration per table.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.migrations.operations.base import Operation


def each_by_itself(operations: Iterable[Operation]) -> list[Operation]:
    """The operations of a migration that has `atomic = False`, each to run in one transaction."""
    found = list(operations)
    for operation in found:
        vars(operation)["atomic"] = True  # a class variable to Django's types
    return found
