"""A full disk and a database that fails are reported, to programs and to users; no change is half done."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, InternalError, OperationalError, connection
from django.test import Client
from psycopg import errors

from foundation.core.errors import Conflict
from foundation.monitoring.outages import find_outage
from foundation.web.problems import exception_handler
from scheduling.models import Job
from tests.api.conftest import As
from tests.builders.world import World

JOBS = "/api/v1/workspaces/team-a/jobs"
BODY = {"roles": [{"resources": {"gpu": {"cards": 1}}, "command": ["x" * 1000]}]}


@pytest.fixture
def full_disk(w: World) -> Iterator[None]:
    """SQLite meets the end of its room at the next page; PostgreSQL is played, for it would need a disk."""
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's own limit; what PostgreSQL says is in the table below")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        pages = cursor.fetchone()[0]
        cursor.execute("PRAGMA max_page_count")
        before = cursor.fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        yield
        cursor.execute(f"PRAGMA max_page_count = {before}")


def test_a_submission_to_a_full_disk_is_reported_as_such(w: World, full_disk: None, as_user: As) -> None:
    client = as_user(w.editor)
    seen = []
    while not seen or (seen[-1].status_code == 202 and len(seen) < 40):
        seen.append(client.post(JOBS, {**BODY, "name": f"job-{len(seen)}"}))

    last = seen[-1]
    assert (last.status_code, last["Content-Type"]) == (507, "application/problem+json")
    assert last.json()["code"] == "STORAGE_FULL"
    assert "disk is full" in last.json()["detail"]
    accepted = [answer.json()["id"] for answer in seen if answer.status_code == 202]
    assert {answer.status_code for answer in seen} <= {202, 507}
    assert sorted(str(pk) for pk in Job.unscoped.values_list("pk", flat=True)) == sorted(accepted)
    assert client.get(JOBS).status_code == 200, "reading goes on"


def _caused(outer: type[Exception], cause: Exception) -> Exception:
    error = outer("no")
    error.__cause__ = cause
    return error


def _sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("no")
    error.sqlite_errorcode = code
    return error


TABLE: Any = {
    "a full PostgreSQL": (_caused(OperationalError, errors.DiskFull()), 507, "STORAGE_FULL"),
    "a full SQLite": (_caused(OperationalError, _sqlite(sqlite3.SQLITE_FULL)), 507, "STORAGE_FULL"),
    "a full file system": (OSError(errno.ENOSPC, "no"), 507, "STORAGE_FULL"),
    "an exceeded quota of files": (OSError(errno.EDQUOT, "no"), 507, "STORAGE_FULL"),
    "full, one cause further": (_caused(RuntimeError, OSError(errno.ENOSPC, "no")), 507, "STORAGE_FULL"),
    "a standby": (_caused(InternalError, errors.ReadOnlySqlTransaction()), 503, "DATABASE_READ_ONLY"),
    "a shutdown": (_caused(OperationalError, errors.AdminShutdown()), 503, "DATABASE_UNAVAILABLE"),
    "a start": (_caused(OperationalError, errors.CannotConnectNow()), 503, "DATABASE_UNAVAILABLE"),
    "too many": (_caused(OperationalError, errors.TooManyConnections()), 503, "DATABASE_UNAVAILABLE"),
    "nobody": (_caused(OperationalError, psycopg.OperationalError("refused")), 503, "DATABASE_UNAVAILABLE"),
}
OTHERS: Any = {
    "a bug": RuntimeError("secret"),
    "a missing file": FileNotFoundError(errno.ENOENT, "no"),
    "a locked SQLite": _caused(OperationalError, _sqlite(sqlite3.SQLITE_BUSY)),
    "a deadlock": _caused(OperationalError, errors.DeadlockDetected()),
    "a duplicate": _caused(IntegrityError, errors.UniqueViolation()),
    "nothing": None,
}


@pytest.mark.parametrize(("error", "status", "code"), TABLE.values(), ids=TABLE)
@pytest.mark.parametrize("path", ["/api/v1/me", "/jobs"])
def test_each_outage_has_its_code_outside_of_views_as_well(
    w: World, monkeypatch: pytest.MonkeyPatch, path: str, error: Exception, status: int, code: str
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(w.editor)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("django_htmx.middleware.HtmxMiddleware.__call__", fail)
    answer = client.get(path, headers={"Accept-Language": "zh-hans"})
    assert answer.status_code == status
    if path.startswith("/api"):
        assert answer.json()["code"] == code
    else:
        assert ("磁盘" if status == 507 else "数据库") in answer.content.decode()


@pytest.mark.parametrize("error", OTHERS.values(), ids=OTHERS)
def test_other_faults_are_no_outage(error: Exception | None) -> None:
    assert find_outage(error) is None


def test_a_refusal_that_an_outage_led_to_keeps_its_own_code(w: World) -> None:
    refusal = Conflict("the first still runs", code="IN_USE")
    refusal.__cause__ = OSError(errno.ENOSPC, "no")
    answer = exception_handler(refusal, {})
    assert answer is not None
    assert (answer.status_code, answer.data["code"]) == (409, "IN_USE")
