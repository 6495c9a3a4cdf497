"""Cutting a time range into buckets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from foundation.core.errors import Invalid
from telemetry.series.windows.window import Window, window_of

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
KEPT = timedelta(hours=2)


def window(length: timedelta, step: int | None = None, *, points: int = 240) -> Window:
    with time_machine.travel(NOW, tick=False):
        return window_of(NOW - length, NOW, step, retention=KEPT, points=points)


@pytest.mark.parametrize(
    ("length", "step_s"),
    [
        (timedelta(minutes=10), 20),
        (timedelta(hours=1), 20),
        (timedelta(hours=2), 30),
        (timedelta(hours=24), 600),
        (timedelta(days=7), 3600),
        (timedelta(days=30), 10_800),
    ],
)
def test_the_step_gives_at_most_240_points(length: timedelta, step_s: int) -> None:
    made = window(length)
    assert made.step_ms == step_s * 1000
    assert len(list(made.bucket_times())) in range(1, 242)  # both ends may be cut


@pytest.mark.parametrize(
    ("length", "step", "step_s", "grain_s"),
    [
        (timedelta(hours=2), 20, 20, 0),
        (timedelta(hours=2), 60, 60, 60),
        (timedelta(hours=2), 600, 600, 600),
        (timedelta(hours=3), 400, 420, 60),
        (timedelta(days=2), 300, 300, 60),
        (timedelta(days=3), 300, 600, 600),
        (timedelta(days=30), 10_800, 10_800, 600),
        (timedelta(days=30), 21_600, 21_600, 7_200),
        (timedelta(days=31), 10_800, 14_400, 7_200),
        (timedelta(days=400), None, 144_000, 7_200),
    ],
)
def test_the_coarsest_grain_that_divides_the_step_is_read(
    length: timedelta, step: int | None, step_s: int, grain_s: int
) -> None:
    made = window(length, step)
    assert (made.step_ms, made.grain_ms) == (step_s * 1000, grain_s * 1000)


def test_the_future_is_cut_off() -> None:
    with time_machine.travel(NOW, tick=False):
        made = window_of(NOW - timedelta(minutes=1), NOW + timedelta(hours=1), 20, retention=KEPT)
    assert made.end == NOW
    assert len(list(made.bucket_times())) == 3


def test_buckets_start_at_whole_steps() -> None:
    with time_machine.travel(NOW, tick=False):
        made = window_of(NOW - timedelta(seconds=65), NOW, 60, retention=KEPT)
    assert [at.minute for _, at in made.bucket_times()] == [58, 59]


@pytest.mark.parametrize(
    ("start", "end", "step", "points"),
    [
        (NOW, NOW, None, 240),
        (NOW - timedelta(days=401), NOW, None, 240),
        (NOW - timedelta(hours=1), NOW, 5, 240),
        (NOW - timedelta(days=7), NOW, 10, 240),
        (NOW - timedelta(hours=1), NOW, None, 1001),
        (NOW - timedelta(hours=1), NOW, None, 0),
    ],
)
def test_a_bad_range_is_refused(start: datetime, end: datetime, step: int | None, points: int) -> None:
    with time_machine.travel(NOW, tick=False), pytest.raises(Invalid):
        window_of(start, end, step, retention=KEPT, points=points)
