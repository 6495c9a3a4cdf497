"""The simulated clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.backends.simulated.timeline import MAX_SPEED, Timeline

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
speeds = st.floats(min_value=0.1, max_value=1000)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_simulated_time_passes_at_its_speed() -> None:
    timeline = Timeline.start_at(START, 10)
    assert timeline.sim_at(after(3)) == 30_000
    assert timeline.real_at(30_000) == after(3)


def test_a_new_speed_starts_where_the_old_one_stopped() -> None:
    timeline = Timeline.start_at(START).with_speed(100, after(10)).with_speed(2, after(11))
    assert [timeline.sim_at(after(s)) for s in (5, 10, 10.5, 11, 12)] == [
        5000,
        10_000,
        60_000,
        110_000,
        112_000,
    ]
    assert [timeline.real_at(ms) for ms in (5000, 60_000, 112_000)] == [after(5), after(10.5), after(12)]
    assert timeline.speed == 2


def test_before_the_beginning_it_is_zero_and_a_clock_set_back_adds_no_time() -> None:
    assert Timeline.start_at(START).sim_at(after(-5)) == 0
    timeline = Timeline.start_at(START).with_speed(5, after(100)).with_speed(1, after(50))
    assert timeline.sim_at(after(100)) == 100_000
    assert timeline.sim_at(after(101)) == 101_000


def test_it_survives_being_stored() -> None:
    timeline = Timeline.start_at(START, 0.5).with_speed(60, after(9))
    assert Timeline.from_json(timeline.to_json()) == timeline


def test_old_anchors_are_dropped_at_last() -> None:
    timeline = Timeline.start_at(START)
    for second in range(1, 400):
        timeline = timeline.with_speed(1 + second % 2, after(second))
    assert len(timeline.anchors) == 200


@pytest.mark.parametrize("speed", [0, -1, MAX_SPEED * 2, float("nan"), float("inf")])
def test_a_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed must be above 0"):
        Timeline.start_at(START, speed)


@given(st.lists(st.tuples(speeds, st.floats(min_value=0.01, max_value=5000)), max_size=6), st.data())
def test_time_never_runs_backwards(changes: list[tuple[float, float]], data: st.DataObject) -> None:
    timeline, passed = Timeline.start_at(START), 0.0
    for speed, pause in changes:
        passed += pause
        timeline = timeline.with_speed(speed, after(passed))
    moments = sorted(data.draw(st.lists(st.floats(min_value=0, max_value=passed + 100), max_size=8)))
    told = [timeline.sim_at(after(moment)) for moment in moments]
    assert told == sorted(told)
    for moment, sim_ms in zip(moments, told, strict=True):
        # Whole milliseconds of both clocks: one of the slower clock is the most that is lost.
        assert timeline.real_at(sim_ms) <= after(moment) + timedelta(milliseconds=1)
