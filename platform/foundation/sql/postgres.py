"""Requirements on Django's connections to PostgreSQL beyond Django's own.

Statements that never change are prepared: the server plans each once per connection. That needs parameters
which travel beside the statement; Django's own cursors write them into it. And times are read by Python's
parser in C: psycopg's loader, in the shape that Django derives its own from, matches an expression for each.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
import structlog
from django.db import DatabaseError, connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from psycopg.pq import Format

log = structlog.get_logger(__name__)
_LOST: Final = ("25006", "57P0")
"""Beginnings of SQLSTATEs: a server that is read-only; one that was shut down, is starting or was told to."""

if TYPE_CHECKING:
    _Cursor = psycopg.Cursor[Any]  # the published types of Django's do not tell what it is
else:
    _Cursor = ServerBindingCursor
_PREPARE_AFTER: Final = 2
"""Uses of a statement on one connection before it is prepared: what is asked once is not worth it."""


class TimeLoader(BaseTzLoader):  # type: ignore[misc]  # which the published types do not know
    """Reads `timestamptz` in UTC, the time zone of all our connections."""

    timezone = UTC

    def load(self, data: Any) -> datetime:
        text = bytes(data).decode()
        try:
            found = datetime.fromisoformat(text) if text.endswith("+00") else super().load(data)
        except ValueError:
            found = super().load(data)  # which tells what is wrong with it
        return cast(datetime, found)


class _PreparingCursor(_Cursor):
    """Knows what it ran when that was prepared, too: `connection.queries` asks a cursor for it."""

    def _convert_query(self, query: Any, params: Any = None) -> Any:
        self._query = converted = super()._convert_query(query, params)
        return converted


def prepare_connection(raw: Any) -> None:
    """Tell a new connection of psycopg's how to read times and when to prepare."""
    raw.adapters.register_loader("timestamptz", TimeLoader)
    raw.prepare_threshold = _PREPARE_AFTER


def transactions_in_turn(key: int) -> None:
    """Let transactions that call this with the same key run one after the other, each to its end.

    SQLite has one writer at a time anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def notice_lost_primary(
    execute: Callable[..., Any], query: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Runs around each statement of Django's: a connection to a server that takes no more writes, or that
    shuts down, is closed, so that neither a process nor a pool keeps it. The next one finds the primary.

    A demoted primary answers every check of a connection, and refuses every write.
    """
    try:
        return execute(query, params, many, context)
    except DatabaseError as error:
        sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
        if sqlstate.startswith(_LOST):
            log.warning("database connection given up", sqlstate=sqlstate, why=str(error).strip())
            _give_up(context["connection"])
        raise


def _give_up(wrapper: Any) -> None:
    """Close the connection, and have a pool replace all that it has: they lead to the same server."""
    if wrapper.connection is not None:
        wrapper.connection.close()
    if wrapper.pool is not None:
        wrapper.pool.drain()


def release_pooled_connection() -> None:
    """Give this thread's connection back to the pool that it is from, unless a transaction is open on it."""
    wrapper: Any = connection
    if wrapper.vendor == "postgresql" and wrapper.pool is not None and not wrapper.in_atomic_block:
        wrapper.close()


def preparing_cursor() -> Any:
    """A cursor for a statement that is always the same; elsewhere than on PostgreSQL an ordinary one."""
    return _open_cursor(Format.TEXT)


def binary_cursor() -> Any:
    """A cursor for many rows: PostgreSQL sends values as it stores them, which are read faster than texts,
    and bytes in half the length. Elsewhere an ordinary one."""
    return _open_cursor(Format.BINARY)


def _open_cursor(values: Format) -> Any:
    if connection.vendor != "postgresql":
        return connection.cursor()
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    wrapper: Any = connection
    with connection.wrap_database_errors:
        opened: Any = _PreparingCursor(wrapper.connection)
        opened.format = values
        return wrapper._prepare_cursor(opened)
