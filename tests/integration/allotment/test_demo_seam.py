"""The charts of a new demo show no step and no gap where its history meets the measurements that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import time_machine

from allotment.demo.history import seed, telemetry
from allotment.demo.history.seed import history_tick
from allotment.demo.start import prepare_installation
from clusters.models import Cluster, ClusterHealth
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.models import Heartbeat
from quotas.models import Queue
from quotas.selectors.tables.quota import queue_quota
from telemetry.models import Reading, Rolled, RolledMinute, RolledTenMinutes, Scope, Tick
from telemetry.services.collect import samples_collect
from telemetry.services.roll_up import roll_up
from telemetry.store.times import MINUTE_MS, TEN_MINUTES_MS, TICK_MS, floor_ms, to_ms
from telemetry.usage.queue_history import queue_demand

NOW: Final = "2026-12-03T15:23:47Z"
_SHORTENED: Final = timedelta(hours=2)
_MEASURES: Final = (
    "cores_used", "cores_allocated", "memory_used_mib", "memory_allocated_mib", "temperature_c", "power_w",
)  # fmt: skip


def _write_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the history, interrupted before its GPUs, and once more: both end at the same time."""
    with monkeypatch.context() as broken:
        broken.setattr(seed, "write_gpus", _interrupt)
        with pytest.raises(_Interrupted):
            history_tick()
    Heartbeat.unscoped.filter(name="demo-measured-begun").delete()
    assert history_tick() > 0


class _Interrupted(Exception):
    """The process ended."""


def _interrupt(week: telemetry.WeekMeasured) -> int:
    raise _Interrupted


@pytest.mark.django_db
@pytest.mark.timeout(300)
def test_nothing_shows_where_the_history_of_the_demo_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened = {
        model: (step_ms, min(length, _SHORTENED)) for model, (step_ms, length) in telemetry.STORED.items()
    }
    monkeypatch.setattr(telemetry, "STORED", shortened)  # the rest takes long to write
    with time_machine.travel(NOW, tick=False) as traveller:
        prepare_installation(home=tmp_path, demo=True)
        end = clock.now()
        Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
        assert history_tick() == 0  # the platform has not measured yet
        for _ in range(50):
            traveller.shift(10)
            samples_collect()
            if clock.now() == end + timedelta(seconds=40):
                _write_twice(monkeypatch)
        roll_up()
        _values_vary_as_before(Tick, Scope.CLUSTER, TICK_MS, end)
        _values_vary_as_before(Tick, Scope.NODE, TICK_MS, end)
        _values_vary_as_before(Tick, Scope.WORKSPACE, TICK_MS, end)
        _values_vary_as_before(Reading, Scope.CARD, TICK_MS, end)
        _values_vary_as_before(RolledMinute, Scope.CLUSTER, MINUTE_MS, end)
        _values_vary_as_before(RolledTenMinutes, Scope.CLUSTER, TEN_MINUTES_MS, end)
        _queues_are_as_long_as_before(end)


def _values_vary_as_before(
    model: type[Tick | Reading | Rolled], scope: Scope, step_ms: int, end: datetime
) -> None:
    """At the end every value changes by no more than values did before, or by 6 % or 0.5.

    The history has the value at the middle of each tick and the platform the one at which it measured, so
    that the step between them may span one and a half ticks.
    """
    series: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    rows = model._base_manager.filter(channel__scope=scope).order_by("at_ms")
    for row in rows.values("channel_id", "at_ms", *_MEASURES):
        series[row["channel_id"]].append(row)
    assert series
    for points in series.values():
        times = [floor_ms(point["at_ms"], step_ms) for point in points]
        assert {after - before for before, after in pairwise(times)} == {step_ms}, (model, scope)
        place = next(n for n, point in enumerate(points) if point["at_ms"] + step_ms > to_ms(end))
        for measure in _MEASURES:
            values = [point[measure] for point in points]
            if values[0] is not None:
                _step_is_usual(values, place, (model, scope, measure))


def _step_is_usual(values: Sequence[float], place: int, what: object) -> None:
    steps = [abs(after - before) for before, after in pairwise(values)]
    level = max(map(abs, values))
    at_end = steps[max(0, place - 2) : place + 6]
    usual = max(steps[: max(1, place - 2)])
    assert max(at_end) <= max(0.06 * level, 0.5, 1.5 * usual), what


def _queues_are_as_long_as_before(end: datetime) -> None:
    """Nothing was submitted or admitted since, so that the demand at both ends is the same."""
    for queue in Queue.unscoped.select_related("workspace"):
        for quota in queue_quota(SYSTEM, queue):
            parts = queue_demand(SYSTEM, queue, quota.flavor, end - timedelta(minutes=5), clock.now())
            lengths = {(round(part.allocated, 6), round(part.pending, 6)) for part in parts[-5:]}
            assert len(lengths) == 1
