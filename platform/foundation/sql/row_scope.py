"""The rows that a statement may reach, sent to PostgreSQL with every transaction (row-level security).

A second check behind the selectors: the policies on the tables (`tenants.access.row_policies`) read two
settings, and show no rows while these are empty. A request acts for a user (`use_scope`); commands and
workers see all rows.

Inside a request the settings are always local to a transaction: a statement outside of one gets its own
transaction. So they end with it, and a connection that is kept or pooled carries nothing into the next
request. Code that reads several times does so in a `read_transaction`, which sets them once. A web process
sees no rows outside of requests (`close_by_default`); in other processes new connections begin with access to
all rows.

SQLite has no such policies, and gets no settings.
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
"""Connections that have their default settings, which last as long as they do; pools reuse connections."""


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
    """The scope outside of requests."""

    default = EVERYTHING


def of_paths(paths: Iterator[str] | list[str], user: uuid.UUID) -> RowScope:
    """Return the scope of a user with roles on the tenants with these paths, which hold ids and slashes."""
    return RowScope("{" + ",".join(sorted(set(paths))) + "}", str(user))


def close_by_default() -> None:
    """Let this process see no rows unless it acts for a user; called when it begins to
    serve.
    """
    _ProcessScope.default = NOTHING


@contextmanager
def use_scope(scope: RowScope) -> Iterator[None]:
    """Use `scope` within the block."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


whole: Final = partial(use_scope, EVERYTHING)
"""See all rows within the block or decorated function: for the platform's own queries and sums, whose result
is checked or reduced before any user sees it. Queries on behalf of a user must run outside."""


def narrow_scope(scope: RowScope) -> None:
    """Use `scope` until the end of the request; called once the caller is authenticated."""
    if _current.get() is not None:
        _current.set(scope)


def current_scope() -> RowScope:
    """Return the scope of statements at this moment."""
    return _current.get() or _ProcessScope.default


def install_scope() -> None:
    """Install the scope on every connection; called once, when the apps are loaded."""
    connection_created.connect(_connected, dispatch_uid="row-scope")


@contextmanager
def read_transaction() -> Iterator[None]:
    """Run the queries of the block, or decorated function, in one transaction on PostgreSQL.

    Do not make network calls or wait inside. On other databases nothing happens: with SQLite, a transaction
    would take the only write lock, and there are no settings to send.
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
    # For short queries: compiling the conditions of the policies would take longer than running them.
    raw.execute("SET jit = off")
    if _ProcessScope.default is NOTHING:
        # A web process answers many requests at once: parallel workers take longer to start than most queries
        # run.
        raw.execute("SET max_parallel_workers_per_gather = 0")
    if _ProcessScope.default is EVERYTHING:
        # For the lifetime of the connection: every process that shares it may see all rows.
        raw.execute(f"SET {SCOPE} = '{_ALL}'")
    if not raw.autocommit:
        raw.commit()
    _prepared.add(raw)


def _scoped(execute: Callable[..., Any], query: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Wrap each statement of Django, and send the settings that this transaction does not have yet."""
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
            wrapper.row_scope_sent = None  # settings sent since the savepoint are undone


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
    """Run statements without a result; a cursor would cost more than they do.

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
