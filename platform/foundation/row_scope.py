"""Whose rows a statement may meet, told to PostgreSQL with every transaction (row-level security).

The second line behind the selectors: the policies on the tables (`tenants.row_policies`) read two settings,
and show nothing while they are empty. A request acts for somebody (`acting`); commands and workers see all.

Inside a request the settings are always local to a transaction: a statement outside of one gets a
transaction of its own. So they end with it by themselves, and a connection that is kept or pooled carries
nothing into the next request. A web process sees nothing outside of requests (`close_by_default`); elsewhere
new connections begin with the right to see all.

SQLite has no such policies, and nothing is told to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.db.backends.signals import connection_created
from psycopg import sql
from psycopg.pq import TransactionStatus

SCOPE: Final = "allotment.scope"
USER: Final = "allotment.user"
_ALL: Final = "all"
_BEGIN: Final = sql.SQL("BEGIN; SET LOCAL {} = {}; SET LOCAL {} = {}")
_TELL: Final = sql.SQL("SET LOCAL {} = {}; SET LOCAL {} = {}")


@dataclass(frozen=True, slots=True)
class RowScope:
    """What the settings say: `scope` is empty, `all`, or an array of paths of tenants; `user` is an id."""

    scope: str = ""
    user: str = ""


NOTHING: Final = RowScope()
EVERYTHING: Final = RowScope(_ALL)
_current: ContextVar[RowScope | None] = ContextVar("row_scope", default=None)


class _Process:
    """What holds where no request runs."""

    default = EVERYTHING


def of_paths(paths: Iterator[str] | list[str], user: uuid.UUID) -> RowScope:
    """The scope of a user with roles on the tenants with these paths, which hold ids and slashes."""
    return RowScope("{" + ",".join(sorted(set(paths))) + "}", str(user))


def close_by_default() -> None:
    """From here on this process sees nothing unless it acts for somebody; called where it begins to serve."""
    _Process.default = NOTHING


@contextmanager
def acting(scope: RowScope) -> Iterator[None]:
    """See what `scope` says within the block."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


whole: Final = partial(acting, EVERYTHING)
"""See all rows within the block or decorated function: for the platform's own look-ups and sums, whose answer
is checked or reduced before anybody is told. Asking on behalf of a user belongs outside."""


def narrow(scope: RowScope) -> None:
    """From here to the end of the request see what `scope` says: it is now known who asks."""
    if _current.get() is not None:
        _current.set(scope)


def current() -> RowScope:
    """What statements see here and now."""
    return _current.get() or _Process.default


def install() -> None:
    """Tell every connection; called once, when the apps are loaded."""
    connection_created.connect(_connected, dispatch_uid="row-scope")


def _connected(sender: object, connection: Any, **_: Any) -> None:
    if connection.vendor != "postgresql":
        return
    # Short queries: compiling what the policies add to them would take longer than running it.
    connection.connection.execute("SET jit = off")
    if _scoped not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, _scoped)
    if _Process.default is EVERYTHING:
        # For as long as the connection lasts: every process that shares it may see all.
        connection.connection.execute(f"SET {SCOPE} = '{_ALL}'")
    if not connection.connection.autocommit:
        connection.connection.commit()


def _scoped(execute: Callable[..., Any], query: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Runs before each statement of Django's, and tells what has not been told in this transaction."""
    wrapper, wanted = context["connection"], current()
    raw = wrapper.connection
    status = raw.info.transaction_status
    if status == TransactionStatus.IDLE:
        wrapper.row_scope_told = _Process.default
        if wanted == _Process.default:
            return execute(query, params, many, context)
        if raw.autocommit:
            return _in_transaction(raw, wanted, lambda: execute(query, params, many, context))
    if status in (TransactionStatus.IDLE, TransactionStatus.INTRANS) and wrapper.row_scope_told != wanted:
        raw.execute(_statement(_TELL, wanted))
        wrapper.row_scope_told = wanted
    try:
        return execute(query, params, many, context)
    finally:
        if isinstance(query, str) and query.startswith("ROLLBACK"):
            wrapper.row_scope_told = None  # what was told since the savepoint is undone


def _in_transaction(raw: Any, wanted: RowScope, execute: Callable[[], Any]) -> Any:
    raw.execute(_statement(_BEGIN, wanted))
    try:
        answer = execute()
    except BaseException:
        raw.execute("ROLLBACK")
        raise
    raw.execute("COMMIT")
    return answer


def _statement(template: sql.SQL, wanted: RowScope) -> sql.Composed:
    return template.format(
        sql.Identifier(*SCOPE.split(".")),
        sql.Literal(wanted.scope),
        sql.Identifier(*USER.split(".")),
        sql.Literal(wanted.user),
    )
