"""A repeated request gets the first answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.core.identifiers import new_id
from foundation.models import IdempotencyKey
from foundation.web import idempotency
from foundation.web.idempotency import (
    KeyInUse,
    KeyReused,
    Repeatable,
    StoredAnswer,
    answer_once,
    checked_key,
    content_fingerprint,
    idempotency_prune,
)
from tests.fixtures.postgres import PostgresServer

SCOPE = new_id()
ONE = Repeatable(SCOPE, "jobs", "abc", content_fingerprint({"a": 1, "b": 2}))


def done() -> StoredAnswer:
    return StoredAnswer(201, {"made": True})


@pytest.mark.django_db
def test_the_second_time_the_first_answer_is_given() -> None:
    calls: list[int] = []

    def make() -> StoredAnswer:
        calls.append(1)
        return StoredAnswer(202, {"number": len(calls)}, {"Location": "/x"})

    assert answer_once(ONE, make) == (StoredAnswer(202, {"number": 1}, {"Location": "/x"}), False)
    assert answer_once(ONE, make) == (StoredAnswer(202, {"number": 1}, {"Location": "/x"}), True)


@pytest.mark.django_db
def test_the_same_key_with_another_body_is_refused_and_elsewhere_it_is_another_key() -> None:
    answer_once(ONE, done)

    with pytest.raises(KeyReused):
        answer_once(Repeatable(SCOPE, "jobs", "abc", "other"), done)
    for other in (Repeatable(SCOPE, "keys", "abc", "other"), Repeatable(new_id(), "jobs", "abc", "other")):
        assert answer_once(other, done) == (done(), False)


@pytest.mark.django_db
def test_a_refused_request_leaves_its_key_free() -> None:
    def refuse() -> StoredAnswer:
        raise Invalid("no")

    with pytest.raises(Invalid):
        answer_once(ONE, refuse)

    assert answer_once(ONE, done) == (done(), False)


def test_order_of_keys_does_not_change_a_fingerprint() -> None:
    assert content_fingerprint({"a": 1, "b": [1, 2]}) == content_fingerprint({"b": [1, 2], "a": 1})
    assert content_fingerprint({"a": 1}) != content_fingerprint({"a": 2})


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(Invalid):
        checked_key(key)


@pytest.mark.django_db
def test_old_answers_are_forgotten() -> None:
    answer_once(ONE, done)

    assert idempotency_prune(before=clock.now() - timedelta(hours=24)) == 0
    assert idempotency_prune(before=clock.now() + timedelta(seconds=1)) == 1
    assert not IdempotencyKey.unscoped.exists()


@pytest.mark.server
def test_a_repeated_request_waits_for_the_first_and_is_then_refused(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "WAIT_MS", 100)
    started, go_on = threading.Event(), threading.Event()

    def slow() -> StoredAnswer:
        started.set()
        assert go_on.wait(30)
        return done()

    def first() -> tuple[StoredAnswer, bool]:
        try:
            return answer_once(ONE, slow)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first)
        assert started.wait(30)
        with pytest.raises(KeyInUse):
            answer_once(ONE, done)
        go_on.set()
        assert running.result(30) == (done(), False)
    assert answer_once(ONE, done) == (done(), True)
