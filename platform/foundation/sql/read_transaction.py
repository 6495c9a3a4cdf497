"""Reading several tables as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def one_moment() -> Iterator[None]:
    """Open a block in which nothing is written, and on PostgreSQL all of it is read as of one moment.

    Elsewhere, and inside a transaction, each statement sees what is there when it runs: embedded, a
    transaction would take the one write lock.
    """
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
