"""The PostgreSQL of concurrency tests has row locks and is empty for each test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.utils import timezone

from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_a_migrated_database_of_its_own(on_postgres: PostgresServer, attempt: int) -> None:
    assert connection.vendor == "postgresql"
    assert Session.objects.count() == 0
    Session.objects.create(session_key="one", expire_date=timezone.now())


def test_rows_are_locked_across_threads(on_postgres: PostgresServer) -> None:
    Session.objects.create(session_key="one", expire_date=timezone.now())

    def free_rows() -> int:
        try:
            with transaction.atomic():
                return len(Session.objects.select_for_update(skip_locked=True))
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert len(Session.objects.select_for_update()) == 1
            assert pool.submit(free_rows).result(20) == 0
        assert pool.submit(free_rows).result(20) == 1


def test_the_usual_database_is_back() -> None:
    assert connection.settings_dict["NAME"] != ""
    assert "test_" not in str(connection.settings_dict["HOST"])
