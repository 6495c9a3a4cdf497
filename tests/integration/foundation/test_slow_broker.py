"""A slow broker holds up the relay, and no other process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from foundation.messaging import outbox
from foundation.messaging.outbox import Topic
from foundation.models import Hint
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server


def test_adding_the_same_hint_while_it_is_published_does_not_wait(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wish() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
                outbox.add_hint(Topic.EXECUTE, "cell-1")
        finally:
            connection.close()

    def publish(key: str) -> None:
        with ThreadPoolExecutor(1) as another:
            another.submit(wish).result()

    monkeypatch.setitem(outbox._publishers, Topic.EXECUTE.value, publish)
    outbox.add_hint(Topic.EXECUTE, "cell-1")

    assert outbox.publish_due() == 1

    monkeypatch.setitem(outbox._publishers, Topic.EXECUTE.value, lambda key: None)
    assert outbox.publish_due() == 1, "the second wish was lost with the first"
    assert not Hint.unscoped.exists()
