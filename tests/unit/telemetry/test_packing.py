"""Packing values and statistics: nothing is lost or invented, and merging in parts changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.gpu.measures import MEASURES, MeasureKind
from telemetry.store.packing import (
    Stats,
    add_beside,
    add_following,
    kind_of,
    pack_stats,
    pack_values,
    stats_of,
    unpack_stats,
    unpack_values,
)


def _value(name: str) -> st.SearchStrategy[float]:
    if kind_of(name) is MeasureKind.GAUGE:
        return st.floats(0, 1e9, width=32)
    return st.integers(0, 2**40).map(float)


READING = st.fixed_dictionaries({}, optional={measure.name: _value(measure.name) for measure in MEASURES})


def near(stats: Stats) -> dict[str, Any]:
    return {name: pytest.approx(tuple(stat), rel=1e-5, abs=1e-5) for name, stat in stats.items()}


def test_places_of_measures_are_what_is_on_disk() -> None:
    """Only append to the catalogue: what is stored names a measure by its place."""
    names = [measure.name for measure in MEASURES]
    assert len(names) <= 64
    assert names[:8] == [
        "utilization_percent", "memory_used_mib", "memory_total_mib", "memory_reserved_mib",
        "memory_limit_mib", "idle_s", "memory_copy_percent", "encoder_percent",
    ]  # fmt: skip
    assert (names.index("energy_j"), names.index("xid"), names.index("dram_active_percent")) == (13, 22, 33)


@given(READING)
def test_values_come_back_as_they_were(values: dict[str, float]) -> None:
    packed = pack_values(values)
    assert (packed is None) == (not values)
    assert unpack_values(packed) == values


@given(st.lists(READING, min_size=1, max_size=6))
def test_statistics_come_back_as_they_were(readings: list[dict[str, float]]) -> None:
    stats = stats_of(readings)
    assert set(stats) == {name for values in readings for name in values}
    assert unpack_stats(pack_stats(stats)) == near(stats)


@given(st.lists(READING, min_size=2, max_size=12), st.data())
def test_roll_ups_of_roll_ups_say_the_same(readings: list[dict[str, float]], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(1, len(readings) - 1), max_size=4)))
    parts = [stats_of(readings[a:b]) for a, b in zip([0, *cuts], [*cuts, len(readings)], strict=True)]
    merged: Stats = {}
    for part in parts:
        add_following(merged, part)
    assert merged == near(stats_of(readings))


def test_a_counter_that_begins_anew_counts_from_nought() -> None:
    (stat,) = stats_of([{"energy_j": value} for value in (100.0, 150.0, 10.0, 40.0)]).values()
    assert (stat.mean, stat.low, stat.last, stat.seconds) == (90.0, 100.0, 40.0, 60)


def test_states_keep_the_last_value_and_the_bits_that_were_seen() -> None:
    (stat,) = stats_of([{"throttle_reasons": value} for value in (4.0, 0.0, 8.0, 0.0)]).values()
    assert (stat.last, stat.high) == (0.0, 12.0)


def test_things_beside_each_other_are_a_distribution() -> None:
    merged = stats_of([{"temperature_c": 40.0, "energy_j": 5.0}, {"temperature_c": 60.0, "energy_j": 9.0}])
    add_beside(merged, stats_of([{"temperature_c": 80.0, "energy_j": 1.0}, {"energy_j": 7.0}]))
    heat = merged["temperature_c"]
    assert (heat.seconds, heat.mean, heat.low, heat.high) == (45, 60.0, 40.0, 80.0)
    assert merged["energy_j"].mean == 10.0


def test_what_does_not_change_is_stored_once() -> None:
    full = {measure.name: 7.0 for measure in MEASURES}
    still, moving = pack_stats(stats_of([full] * 4)), pack_stats(stats_of([full, dict.fromkeys(full, 8.0)]))
    assert still is not None and moving is not None
    assert len(still) < 80 + 4.2 * len(MEASURES)
    assert len(moving) < 210 + 16.2 * len(MEASURES)
