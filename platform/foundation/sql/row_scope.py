"""The rows that a statement may reach, sent to PostgreSQL with every transaction (row-level security).

The second line behind the selectors: the policies on the tables (`tenants.access.row_policies`) read two
settings, and show nothing while they are empty. A request acts for somebody (`use_scope`); commands and
workers see all.

Inside a request the settings are always local to a transaction: a statement outside of one gets a
transaction of its own. So they end with it by themselves, and a connection that is kept or pooled carries
nothing into the next request. Code that reads several times does so in a `read_transaction`, which sets
them once. A web process sees nothing outside of requests (`close_by_default`); elsewhere new connections
begin with the right to see all.

SQLite has no such policies, and nothing is told to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final
from weakref import WeakSet

from django.db import connection, transaction
from django.db.backends.signals import connection_created
from psycopg import errors, sql
from psycopg.pq import ExecStatus, TransactionStatus

from foundation.sql.postgres import notice_lost_primary, prepare_connection

SCOPE: Final = "allotment.scope"
USER: Final = "allotment.user"
_ALL: Final = "all"
_SET_LOCAL: Final = sql.SQL("SET LOCAL {} = {}; SET LOCAL {} = {}")
_prepared: Final[WeakSet[Any]] = WeakSet()
"""Connections that were told what holds for as long as they last; pools hand them out many times."""


@dataclass(frozen=True, slots=True)
class RowScope:
    """The values of the settings: `scope` is empty, `all`, or an array of paths of tenants; `user` is an
    id.
    """

    scope: str = ""
    user: str = ""


NOTHING: Final = RowScope()
EVERYTHING: Final = RowScope(_ALL)
_current: ContextVar[RowScope | None] = ContextVar("row_scope", default=None)


class _ProcessScope:
    """The scope where no request runs."""

    default = EVERYTHING


def of_paths(paths: Iterator[str] | list[str], user: uuid.UUID) -> RowScope:
    """The scope of a user with roles on the tenants with these paths, which hold ids and slashes."""
    return RowScope("{" + ",".join(sorted(set(paths))) + "}", str(user))


def close_by_default() -> None:
    """Close the scope of this process from here on, unless it acts for a user; called where it begins to
    serve.
    """
    _ProcessScope.default = NOTHING


@contextmanager
def use_scope(scope: RowScope) -> Iterator[None]:
    """See what `scope` says within the block."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


whole: Final = partial(use_scope, EVERYTHING)
"""See all rows within the block or decorated function: for the platform's own look-ups and sums, whose answer
is checked or reduced before anybody is told. Asking on behalf of a user belongs outside."""


def narrow_scope(scope: RowScope) -> None:
    """Use `scope` until the end of the request: the caller is known now."""
    if _current.get() is not None:
        _current.set(scope)


def current_scope() -> RowScope:
    """Return the scope of statements at this moment."""
    return _current.get() or _ProcessScope.default


def install_scope() -> None:
    """Tell every connection; called once, when the apps are loaded."""
    connection_created.connect(_connected, dispatch_uid="row-scope")


@contextmanager
def read_transaction() -> Iterator[None]:
    """Read what is read within the block, or decorated function, in one transaction on PostgreSQL.

    No place for network calls, nor for what waits. Elsewhere nothing happens: embedded, a transaction takes
    the one write lock, and nothing has to be told.
    """
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        yield


def _connected(sender: object, connection: Any, **_: Any) -> None:
    if connection.vendor != "postgresql":
        return
    if _scoped not in connection.execute_wrappers:
        connection.execute_wrappers[:0] = [notice_lost_primary, _scoped]
    raw = connection.connection
    if raw in _prepared:
        return
    prepare_connection(raw)
    # Short queries: compiling what the policies add to them would take longer than running it.
    raw.execute("SET jit = off")
    if _ProcessScope.default is NOTHING:
        # A web process answers many at once: helpers take longer to start than most of its queries run.
        raw.execute("SET max_parallel_workers_per_gather = 0")
    if _ProcessScope.default is EVERYTHING:
        # For as long as the connection lasts: every process that shares it may see all.
        raw.execute(f"SET {SCOPE} = '{_ALL}'")
    if not raw.autocommit:
        raw.commit()
    _prepared.add(raw)


def _scoped(execute: Callable[..., Any], query: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Runs before each statement of Django's, and tells what has not been told in this transaction."""
    wrapper, wanted = context["connection"], current_scope()
    raw = wrapper.connection
    status = raw.info.transaction_status
    if status == TransactionStatus.IDLE:
        wrapper.row_scope_sent = _ProcessScope.default
        if wanted == _ProcessScope.default:
            return execute(query, params, many, context)
        if raw.autocommit:
            return _in_transaction(wrapper, wanted, lambda: execute(query, params, many, context))
    if status in (TransactionStatus.IDLE, TransactionStatus.INTRANS) and wrapper.row_scope_sent != wanted:
        begin = b"BEGIN; " if status == TransactionStatus.IDLE else b""
        _send(wrapper, begin + _scope_statement(wanted))
        wrapper.row_scope_sent = wanted
    try:
        return execute(query, params, many, context)
    finally:
        if isinstance(query, str) and query.startswith("ROLLBACK"):
            wrapper.row_scope_sent = None  # what was told since the savepoint is undone


def _in_transaction(wrapper: Any, wanted: RowScope, execute: Callable[[], Any]) -> Any:
    _send(wrapper, b"BEGIN; " + _scope_statement(wanted))
    try:
        answer = execute()
    except BaseException:
        _send(wrapper, b"ROLLBACK")
        raise
    _send(wrapper, b"COMMIT")
    return answer


def _send(wrapper: Any, statements: bytes) -> None:
    """Run statements without an answer; they need no cursor, which would cost more than they do.

    Raises: django.db.Error.
    """
    raw = wrapper.connection
    with wrapper.wrap_database_errors:
        result = raw.pgconn.exec_(statements)
        if result.status != ExecStatus.COMMAND_OK:
            raise errors.error_from_result(result, encoding=raw.info.encoding)


@lru_cache(maxsize=256)
def _scope_statement(wanted: RowScope) -> bytes:
    names = (sql.Identifier(*SCOPE.split(".")), sql.Identifier(*USER.split(".")))
    values = (sql.Literal(wanted.scope), sql.Literal(wanted.user))
    return _SET_LOCAL.format(names[0], values[0], names[1], values[1]).as_bytes()
