"""The time range of charts in an address."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import RequestFactory

from frontend.shell.time_range import TimeRange, read_time_range

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def read(query: str) -> TimeRange:
    return read_time_range(RequestFactory().get(f"/?{query}"), "6h")


@pytest.mark.parametrize(("query", "hours"), [("", 6), ("range=24h", 24), ("range=1000y", 6)])
def test_presets_end_now(query: str, hours: int) -> None:
    found = read(query)
    assert (found.end, found.end - found.start) == (NOW, timedelta(hours=hours))
    assert found.every_s > 0


def test_a_stretch_of_its_own_is_kept_and_not_asked_for_again() -> None:
    found = read("from=2026-03-01T10:00:00Z&to=2026-03-01T12:00:00%2B01:00&compare=1")
    assert (found.start, found.end) == (
        datetime(2026, 3, 1, 10, tzinfo=UTC),
        datetime(2026, 3, 1, 11, tzinfo=UTC),
    )
    assert found.every_s == 0
    assert found.before == (datetime(2026, 3, 1, 9, tzinfo=UTC), found.start)
    assert found.query == {"from": "2026-03-01T10:00:00Z", "to": "2026-03-01T11:00:00Z", "compare": "1"}
    assert read("&".join(f"{key}={value}" for key, value in found.query.items())) == found


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("from=yesterday&to=2026-03-01T12:00", "Enter start and end"),
        ("from=2026-03-01T12:00", "Enter start and end"),
        ("from=2026-03-01T12:00&to=2026-03-01T12:00", "at least one minute"),
        ("from=2026-03-01T12:00&to=2026-03-01T11:00", "at least one minute"),
        ("from=2026-04-01T12:00&to=2026-04-02T12:00", "in the past"),
        ("from=2020-01-01T12:00&to=2026-03-01T12:00", "400 days"),
        ("from=0001-01-01T00:00%2B14:00&to=2026-03-01T12:00", "Enter start and end"),
    ],
)
def test_a_stretch_that_cannot_be_shown_says_why_and_the_usual_one_is(query: str, problem: str) -> None:
    found = read(query)
    assert problem in found.problem
    assert (found.key, found.end - found.start) == ("6h", timedelta(hours=6))
