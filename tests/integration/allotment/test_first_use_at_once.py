"""Installations that are set up twice at the same moment, on PostgreSQL."""

from __future__ import annotations

import io
import threading

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tenants.models import Member, User
from tests.fixtures.postgres import PostgresServer


@pytest.mark.server
def test_two_that_begin_at_once_make_one_admin(on_postgres: PostgresServer) -> None:
    def begin(name: str) -> None:
        try:
            call_command("init", "--user", name, stdout=io.StringIO())
        except CommandError as error:
            refused.append(str(error))
        finally:
            connection.close()

    refused: list[str] = []
    threads = [threading.Thread(target=begin, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Member.unscoped.count() == User.objects.count() == 1
    assert len(refused) == 2
