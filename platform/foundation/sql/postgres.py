"""Requirements on Django's connections to PostgreSQL beyond Django's own.

Statements that never change are prepared: the server plans each once per connection. That needs parameters
separate from the statement; Django's own cursors write them into it. And times are parsed by Python's parser
in C: psycopg's loader, from which Django derives its own, matches a regular expression for each.
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
"""Prefixes of SQLSTATEs: a server that is read-only; one that was shut down, is starting or is stopping."""

if TYPE_CHECKING:
    _Cursor = psycopg.Cursor[Any]  # the published types of Django leave it open
else:
    _Cursor = ServerBindingCursor
_PREPARE_AFTER: Final = 2
"""How often a connection runs a statement before it prepares it: for a single use, that costs too much."""


class TimeLoader(BaseTzLoader):  # type: ignore[misc]  # which the published types do not know
    """Reads `timestamptz` in UTC, the time zone of all the platform's connections."""

    timezone = UTC

    def load(self, data: Any) -> datetime:
        text = bytes(data).decode()
        try:
            found = datetime.fromisoformat(text) if text.endswith("+00") else super().load(data)
        except ValueError:
            found = super().load(data)  # which raises the detailed error
        return cast(datetime, found)


class _PreparingCursor(_Cursor):
    """Records its last query for prepared statements, too: `connection.queries` reads it from the cursor."""

    def _convert_query(self, query: Any, params: Any = None) -> Any:
        self._query = converted = super()._convert_query(query, params)
        return converted


def prepare_connection(raw: Any) -> None:
    """Set how a new connection of psycopg reads times and when it prepares statements."""
    raw.adapters.register_loader("timestamptz", TimeLoader)
    raw.prepare_threshold = _PREPARE_AFTER


def transactions_in_turn(key: int) -> None:
    """Serialize transactions that call this with the same key: each waits for the end of the one before.

    SQLite has a single writer anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def notice_lost_primary(
    execute: Callable[..., Any], query: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Wrap each statement of Django: a connection to a server that accepts no more writes, or that shuts
    down, is closed, so that neither a process nor a pool keeps it. The next connection finds the primary.

    A demoted primary answers every health check of a connection, and refuses every write.
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
    """Close the connection, and have a pool replace all of its connections: they lead to the same server."""
    if wrapper.connection is not None:
        wrapper.connection.close()
    if wrapper.pool is not None:
        wrapper.pool.drain()


def release_pooled_connection() -> None:
    """Return this thread's connection to its pool, unless a transaction is open on it."""
    wrapper: Any = connection
    if wrapper.vendor == "postgresql" and wrapper.pool is not None and not wrapper.in_atomic_block:
        wrapper.close()


def preparing_cursor() -> Any:
    """Return a cursor for a statement that is always the same; an ordinary one on other databases."""
    return _open_cursor(Format.TEXT)


def binary_cursor() -> Any:
    """Return a cursor for many rows: PostgreSQL sends values in binary form, which is parsed faster than text
    and halves the length of bytes. On other databases it is an ordinary one."""
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
