"""Describes the platform to its operators: its parts, its database and its versions."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import django
from django.db import connection

from foundation.core import clock
from foundation.messaging import outbox
from foundation.models import Heartbeat, Installation
from foundation.monitoring.health import CheckResult, run_checks

_PACKAGE: Final = "allotment"


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """Facts of the database; `size` is in bytes. Connections are those to this database, and the limit of its
    server for all databases; None if the database is a file."""

    vendor: str
    version: str
    size: int
    connections: int | None = None
    connections_most: int | None = None


@dataclass(frozen=True, slots=True)
class SystemReport:
    """The state of the platform. `last_work` is when each part last finished some work. `unsent` counts due
    messages that are not published yet, `unsent_since` is when the oldest of them was due."""

    checks: Sequence[CheckResult]
    last_work: dict[str, datetime]
    unsent: int
    unsent_since: datetime | None
    database: DatabaseFacts
    release: str
    python: str
    django: str
    installation: str


def describe_system() -> SystemReport:
    """Run every check and read the other facts; wait for the broker for a second at most.

    Raises: DatabaseError if the database doesn't answer.
    """
    due = outbox.unpublished_hints().filter(not_before__lte=clock.now()).order_by("not_before")
    installation = Installation.unscoped.values_list("uuid", flat=True).first()
    return SystemReport(
        checks=run_checks(),
        last_work=dict(Heartbeat.unscoped.values_list("name", "at")),
        unsent=due.count(),
        unsent_since=due.values_list("not_before", flat=True).first(),
        database=_describe_postgresql() if connection.vendor == "postgresql" else _describe_sqlite(),
        release=_find_release(),
        python=platform.python_version(),
        django=django.get_version(),
        installation=str(installation or ""),
    )


def _find_release() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:  # run from a source folder that was never installed
        return ""


def _describe_postgresql() -> DatabaseFacts:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), pg_database_size(current_database()),"
            " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),"
            " current_setting('max_connections')::int"
        )
        return DatabaseFacts("PostgreSQL", *cursor.fetchone())


def _describe_sqlite() -> DatabaseFacts:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sqlite_version(), page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        )
        return DatabaseFacts("SQLite", *cursor.fetchone())
