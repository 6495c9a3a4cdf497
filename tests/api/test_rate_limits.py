"""Rate limits count per caller, report exact numbers, and never take the API down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from django.conf import LazySettings
from django.core.cache import cache
from redis.exceptions import ConnectionError as RedisConnectionError
from rest_framework.test import APIClient

from foundation.models import AuditRecord
from foundation.web import rate_limit
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

ME = "/api/v1/me"
TEAM = "/api/v1/workspaces/team-a"


@pytest.fixture(autouse=True)
def limits(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set small limits and freeze the clock, so that no window ends in the middle of a test."""
    settings.ALLOTMENT_RATES = {"read": 3, "write": 1, "sign-in": 2}
    monkeypatch.setattr(rate_limit, "counter", rate_limit._Counter())
    cache.clear()
    with time_machine.travel("2026-11-21T12:00:10Z", tick=False):
        yield
    cache.clear()


def bearer(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_each_answer_has_the_remaining_requests_and_the_last_one_the_time_to_retry(w: World) -> None:
    client = bearer(tenancy.access_key(w.editor))

    answers = [client.get(ME) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert {answer["RateLimit-Limit"] for answer in answers} == {"3"}
    assert answers[0]["RateLimit-Policy"] == "3;w=60"
    assert (
        answers[3]["Retry-After"] == answers[3]["RateLimit-Reset"] == "50" and "Retry-After" not in answers[2]
    )
    assert answers[3]["Content-Type"] == "application/problem+json"
    assert answers[3].json()["code"] == "THROTTLED"


def test_keys_users_reads_and_writes_are_counted_apart(w: World, as_user: As) -> None:
    first, second = bearer(tenancy.access_key(w.editor)), bearer(tenancy.access_key(w.editor))
    for _ in range(4):
        first.get(ME)

    assert first.get(ME).status_code == 429
    assert second.get(ME).status_code == 200
    assert as_user(w.editor).get(ME).status_code == 200
    assert first.post(f"{TEAM}/jobs", {"roles": [{}]}).status_code != 429
    assert first.post(f"{TEAM}/jobs", {"roles": [{}]}).status_code == 429


def test_guessing_keys_is_stopped_before_anything_is_looked_up(
    w: World, django_assert_num_queries: Any
) -> None:
    guess = bearer("alt_dead_beef")

    assert [guess.get(ME).status_code for _ in range(2)] == [401, 401]
    with django_assert_num_queries(0):
        answer = guess.get(ME)
    assert (answer.status_code, answer.json()["code"]) == (429, "THROTTLED")
    assert int(answer["Retry-After"]) > 0
    assert AuditRecord.unscoped.count() == 1, "the second of a stranger in one minute is counted"


def test_without_the_cache_no_caller_is_counted_and_no_limit_is_reported(
    w: World, as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fail(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise RedisConnectionError("gone")

    monkeypatch.setattr(cache, "add", fail)
    answers = [as_user(w.editor).get(ME) for _ in range(5)]

    assert {answer.status_code for answer in answers} == {200}
    assert not any(name.startswith("RateLimit") for answer in answers for name in answer.headers)
    assert len(asked) == 1, "a cache that failed is left alone for a while"
