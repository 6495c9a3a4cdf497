"""Liveness and readiness.

`/livez` answers if this process runs. `/readyz` answers whether it can serve: the database accepts writes and
its schema is not older than the code. `/readyz/platform` answers whether the whole platform works: upper
packages register their own checks, and a part that no longer finishes work counts as failed even if its
process runs. Both list every check. A web process stays ready while workers or the broker are down, because
users need the console most at that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from foundation.core import clock
from foundation.models import Heartbeat
from foundation.sql.prepared import PreparedUpdate

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the readiness addresses and of `allotment doctor`; `help` says what to do when not ok."""

    name: str
    ok: bool
    message: str
    help: str = ""


Check = Callable[[], CheckResult]
OWN: Final = frozenset({"database", "migrations"})
"""The checks that must pass for a web process to serve."""
_checks: dict[str, Check] = {}
_BEAT: Final = PreparedUpdate(
    lambda name, now: Heartbeat.unscoped.filter(name=name), lambda name, now: {"at": now}
)


def register_check(name: str, check: Check) -> None:
    """Add a readiness check; called once from an `AppConfig.ready()`."""
    _checks[name] = check


def record_heartbeat(name: str) -> None:
    """Record that the part `name` has just finished some work."""
    now = clock.now()
    if not _BEAT(name, now):
        Heartbeat.unscoped.update_or_create(name=name, defaults={"at": now})


def heartbeat_check(name: str, *, within_s: int, help_text: str) -> Check:
    """Return a check that the part `name` finished work within the last `within_s` seconds."""

    def check() -> CheckResult:
        row = Heartbeat.unscoped.filter(name=name).first()
        if row is None:
            return CheckResult(name, False, "has not reported yet", help_text)
        age = (clock.now() - row.at).total_seconds()
        ok = age <= within_s
        return CheckResult(name, ok, f"reported {age:.0f} s ago", "" if ok else help_text)

    return check


def _database() -> CheckResult:
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            cursor.execute("SELECT 1")
            return CheckResult("database", True, connection.vendor)
        # A former primary, now a standby, still answers, and refuses every write.
        cursor.execute("SELECT current_setting('transaction_read_only')")
        read_only = cursor.fetchone() != ("off",)
    if read_only:
        text = "check that ALLOTMENT_DATABASE_URL points to the primary and that its disk isn't full"
        return CheckResult("database", False, "read-only", text)
    return CheckResult("database", True, connection.vendor)


def _migrations() -> CheckResult:
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    text = f"{len(pending)} pending" if pending else "applied"
    return CheckResult("migrations", not pending, text, "run: allotment migrate" if pending else "")


def run_checks() -> list[CheckResult]:
    """Run every check; a check that cannot run has failed, and a database that is down ends the list."""
    try:
        results = [_database(), _migrations()]
    except (DatabaseError, InterfaceError) as error:
        return [
            CheckResult(
                "database", False, str(error), "check ALLOTMENT_DATABASE_URL and that the database is running"
            )
        ]
    for name, check in _checks.items():
        try:
            results.append(check())
        except Exception as error:
            log.exception("readiness check failed", check=name)
            results.append(CheckResult(name, False, f"{type(error).__name__}: {error}"))
    return results


@require_safe
def answer_liveness(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def answer_readiness(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process can serve; `degraded` names every check that fails."""
    results = run_checks()
    return _answer(results, ready=all(result.ok for result in results if result.name in OWN))


@require_safe
def platform_readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if every check passes."""
    results = run_checks()
    return _answer(results, ready=all(result.ok for result in results))


def _answer(results: list[CheckResult], *, ready: bool) -> JsonResponse:
    body = {
        "ready": ready,
        "degraded": [result.name for result in results if not result.ok],
        "checks": [asdict(result) for result in results],
    }
    return JsonResponse(body, status=200 if ready else 503)


def worker_heartbeat() -> Check:
    """Return the standard check of the worker's heartbeat task."""
    return heartbeat_check(
        "worker",
        within_s=int(timedelta(seconds=60).total_seconds()),
        help_text="check that a worker is running",
    )
