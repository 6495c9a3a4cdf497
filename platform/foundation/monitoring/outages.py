"""The response while the disk or the database fails: it names the failing part, and is no internal error.

The client may repeat the request; operators find the same text in the response and in the log.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from typing import Final

from django.db import InterfaceError, OperationalError
from django.utils.translation import gettext_lazy as _

from foundation.core.errors import AllotmentError

_DISK_FULL: Final = frozenset({"53100"})
_READ_ONLY: Final = frozenset({"25006"})
_UNREACHABLE: Final = ("08", "57P0", "53300")
"""Prefixes of SQLSTATEs: no connection, shut down or starting, too many connections."""
_FULL_ERRNO: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# The index of a write-ahead log cannot grow either; SQLite reports that as an error of its memory map.
_FULL_SQLITE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})


class StorageFull(AllotmentError):
    """A disk to which the platform writes is full."""

    code = "STORAGE_FULL"
    title = _("The platform's disk is full. No changes were made. Contact a platform admin.")
    status = 507


class DatabaseReadOnly(AllotmentError):
    """The database accepts no writes: its primary has moved."""

    code = "DATABASE_READ_ONLY"
    title = _("The platform's database is read-only. No changes were made. Try again later.")
    status = 503


class DatabaseUnavailable(AllotmentError):
    """The database cannot be reached."""

    code = "DATABASE_UNAVAILABLE"
    title = _("The platform's database is unreachable. Try again later.")
    status = 503


def find_outage(error: BaseException | None) -> AllotmentError | None:
    """Return the outage that an exception or one of its causes reports; None for any other error."""
    for each in _causes(error):
        sqlstate = str(getattr(each, "sqlstate", None) or "")
        if sqlstate in _DISK_FULL or _is_full(each):
            return StorageFull()
        if sqlstate in _READ_ONLY:
            return DatabaseReadOnly()
        if sqlstate.startswith(_UNREACHABLE) or _is_unreachable(each):
            return DatabaseUnavailable()
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_full(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) in _FULL_SQLITE
    return isinstance(error, OSError) and error.errno in _FULL_ERRNO


def _is_unreachable(error: BaseException) -> bool:
    """Return whether psycopg could not reach a server: then there is no SQLSTATE."""
    cause = error.__cause__
    if not isinstance(error, OperationalError | InterfaceError) or cause is None:
        return False
    return type(cause).__module__.startswith("psycopg") and getattr(cause, "sqlstate", None) is None
