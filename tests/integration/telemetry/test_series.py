"""Series at three levels: exact numbers, scoping, and the seam between readings and roll-ups."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from clusters.backends.base import DeviceSample
from foundation.core.errors import NotFound, PermissionDenied
from frontend.pages.charts.definitions import CLUSTER
from frontend.pages.charts.drawing import draw_chart
from scheduling.models import Allocation, DeviceSlice
from telemetry.models import Channel, Reading, TelemetryGap, Tick
from telemetry.series import (
    SeriesQuery,
    SeriesSet,
    cluster_series,
    job_series,
    node_series,
    read_series,
    workspace_series,
)
from telemetry.series.levels.distribution import SHARE_LINES
from telemetry.services.roll_up import roll_up
from tenants.models import Role
from tests.builders import clusters, jobs, tenancy
from tests.integration.telemetry.conftest import START, Bench

_SHARES = tuple(name for name, _label in SHARE_LINES)


def values(found: SeriesSet, measure: str, subject: str = "") -> list[float | None]:
    line = found.get(measure, subject)
    assert line is not None, [s.key for s in found.series]
    return [value for _, value in line.points]


def test_a_clusters_lines(bench: Bench, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    at = bench.ticks(2)
    end = bench.ticks(2, at, load=3.0)
    with django_assert_num_queries(4):  # memberships, channels, gaps, ticks
        found = cluster_series(bench.world.platform_admin, bench.world.cluster, START, end, 20)
    assert (found.start, found.step_s, found.gaps) == (START, 20, ())
    assert values(found, "cards_total") == [16.0, 16.0]
    assert values(found, "cards_allocated") == [2.0, 2.0]
    assert values(found, "cores_allocated") == [10.0, 10.0]  # 160 of 1600 percent points
    assert values(found, "utilisation") == [40.0, 42.0]  # of the three cards that answered
    assert values(found, "memory_used") == [41_004.0, 41_004.0]
    assert values(found, "memory_allocated") == [80_960.0, 80_960.0]
    assert values(found, "power") == [300.0, 300.0]
    assert values(found, "temperature_max") == [41.0, 41.0]


def test_the_compute_of_a_cluster_of_many_gpus_has_a_mean(bench: Bench) -> None:
    end = bench.ticks(2)
    Tick.unscoped.update(cards=30_000, cores_allocated=2_400_000)  # times 10,000 ms is more than 32 bits hold
    found = cluster_series(bench.world.platform_admin, bench.world.cluster, START, end, 20)
    assert values(found, "cores_allocated") == [80.0]


def test_gpus_are_spread_over_four_steps_of_utilization(bench: Bench) -> None:
    """Of three measured GPUs (30, 90 and 0 %, later 30, 90 and 60 %); what is in a gap is unknown."""
    at = bench.ticks(2)
    bench.clock.move_to(at)
    bench.write(
        bench.card(at, 0, 30.0, 100), bench.card(at, 1, 90.0, 100), bench.card(at, 0, 60.0, 4, node=1)
    )
    end = at + timedelta(seconds=20)
    bench.clock.move_to(end)
    named = ("gpus_below_25", "cards_total")
    query = SeriesQuery(level="cluster", start=START, end=end, step=20, lines=named)
    found = read_series(bench.world.platform_admin, query)
    assert [line.measure for line in found.series] == ["cards_total", "gpus_below_25"]
    shares = read_series(bench.world.platform_admin, replace(query, lines=_SHARES))
    third = pytest.approx(100 / 3)
    assert [values(shares, name)[0] for name in _SHARES] == [third, third, 0, third]
    assert [values(shares, name)[1] for name in _SHARES] == [0, third, third, third]
    TelemetryGap.unscoped.create(
        cluster=bench.world.cluster, started_at=at, ended_at=end, cause="unreachable", message=""
    )
    shares = read_series(bench.world.platform_admin, replace(query, lines=_SHARES))
    assert values(shares, "gpus_from_75") == [third, None]
    span = (START, end)
    drawn = draw_chart(CLUSTER[-1], shares, span)
    bars = drawn.figure["data"]
    assert [bar["y"][0] for bar in bars] == [third, third, 0, third]
    assert {bar["type"] for bar in bars} == {"bar"}
    assert "75–100 % 33.33 %" in drawn.summary
    with pytest.raises(PermissionDenied):
        read_series(bench.world.viewer, replace(query, lines=_SHARES))


def test_clusters_together_are_unknown_while_one_is_in_a_gap(bench: Bench) -> None:
    other = clusters.cluster(bench.world.cell, "beta")
    clusters.node(clusters.flavor(other), "far-1", cards=1)
    end = bench.ticks(3)
    assert bench.write_to(other, DeviceSample(START, "far-1", "GPU-beta-far-1-0", 50.0, 100)) == 1
    TelemetryGap.unscoped.create(
        cluster=other, started_at=START + timedelta(seconds=10), ended_at=START + timedelta(seconds=20),
        cause="unreachable", message="timed out",
    )  # fmt: skip
    found = cluster_series(bench.world.platform_admin, None, START, end, 10)
    assert values(found, "cards_total") == [17.0, None, 16.0]
    assert [gap.cluster for gap in found.gaps] == ["beta"]


def test_a_day_continues_from_roll_ups_into_ticks(bench: Bench) -> None:
    at = bench.ticks(31, START - timedelta(hours=25))  # 300 s of one and 10 s of the next bucket
    bench.ticks(29, at, load=15.0)
    bench.clock.move_to(START)
    roll_up()
    at = bench.ticks(6, START)
    found = cluster_series(bench.world.platform_admin, bench.world.cluster, START - timedelta(hours=25), at)
    line = values(found, "utilisation")
    assert found.step_s == 600
    # One bucket of ten minutes, half rolled from 30 ticks of 40, half from one of 40 and 29 of 50.
    assert line[0] == pytest.approx((31 * 40.0 + 29 * 50.0) / 60)
    assert line[-1] == 40.0
    assert set(line[1:-1]) == {None}


def test_the_seam_inside_one_bucket_is_weighted_by_rows(bench: Bench) -> None:
    early = START - timedelta(hours=3)
    bench.ticks(1, early)
    at = bench.ticks(30, START - timedelta(minutes=10))
    bench.clock.move_to(START - timedelta(minutes=4))
    roll_up()
    assert bench.ticks(10, at, load=15.0) == START - timedelta(minutes=3, seconds=20)
    bench.clock.move_to(START)
    found = cluster_series(bench.world.platform_admin, bench.world.cluster, early - timedelta(days=1), START)
    assert found.step_s == 600
    assert values(found, "utilisation")[-1] == pytest.approx((30 * 40.0 + 10 * 50.0) / 40)


def test_a_nodes_cards(bench: Bench, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    end = bench.ticks(2)
    node = bench.world.nodes[0]
    with django_assert_num_queries(6):  # memberships, ticks, readings, channels, cards, gaps
        found = node_series(bench.world.platform_admin, node, START, end, 20)
    first, second, third = (str(bench.device(index).pk) for index in (0, 1, 2))
    assert values(found, "cards_total") == [8.0]
    assert values(found, "cores_allocated") == [20.0]
    assert values(found, "card_utilisation", first) == [30.0]
    assert values(found, "card_cores_allocated", first) == [60.0]
    assert values(found, "card_memory_used", second) == [30_000.0]
    assert values(found, "card_temperature", second) == [41.0]
    assert values(found, "card_power", second) == [100.0]
    assert values(found, "card_utilisation", third) == [None]
    labels = [line.label for line in found.series if line.measure == "card_utilisation"]
    assert labels == [f"GPU {index}" for index in range(8)]


def test_a_jobs_lines(bench: Bench, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    end = bench.ticks(2)
    with django_assert_num_queries(6):  # memberships, channels, readings, tasks, cards, gaps
        found = job_series(bench.world.viewer, bench.sliced, START, end, 20)
    card = bench.device(0).pk
    first, second = (f"{task.pk}/{card}" for task in bench.sliced.tasks.order_by("index"))
    assert values(found, "utilisation", first) == [10.0]
    assert values(found, "utilisation_of_grant", first) == pytest.approx([100 / 3])
    assert values(found, "cores_granted", second) == [30.0]
    assert values(found, "memory_used", second) == [6_000.0]
    assert values(found, "memory_granted", second) == [20_000.0]
    assert values(found, "utilisation", "average") == [15.0]
    assert values(found, "utilisation_of_grant", "average") == [50.0]
    assert values(found, "memory_used", "total") == [11_000.0]
    assert values(found, "memory_granted", "total") == [40_000.0]
    assert values(found, "memory_of_grant", second) == [30.0]
    assert values(found, "memory_of_grant", "average") == [27.5]
    line = found.get("utilisation", second)
    assert line is not None
    assert line.label == "worker-1 · node-1 · GPU 0"


def test_a_second_attempt_is_not_added_to_the_first(bench: Bench) -> None:
    at = bench.ticks(1)
    slices = DeviceSlice.unscoped.filter(allocation__task__job=bench.sliced)
    slices.update(released=True)
    Allocation.unscoped.filter(task__job=bench.sliced).update(released_at=at)
    bench.sliced.attempts.update(ended_at=at)
    jobs.allocate(bench.sliced, bench.world.nodes[1])
    bench.write(bench.pod(at, bench.sliced, 0, 25.0, 7_000), bench.pod(at, bench.sliced, 1, 25.0, 7_000))
    bench.clock.move_to(at + timedelta(seconds=10))
    found = job_series(bench.world.viewer, bench.sliced, START, START + timedelta(seconds=20), 20)
    assert values(found, "memory_used", "total") == [12_500.0], "half of the time each"
    assert values(found, "memory_granted", "total") == [40_000.0]
    assert values(found, "utilisation", "average") == [20.0]


def test_a_workspace_that_holds_nothing_has_none_while_its_cluster_is_measured(bench: Bench) -> None:
    at = bench.ticks(6)
    Allocation.unscoped.filter(task__job=bench.whole).update(released_at=at)
    DeviceSlice.unscoped.filter(allocation__task__job=bench.whole).update(released=True)
    for _ in range(6):
        bench.clock.move_to(at)
        bench.write(bench.card(at, 1, 0.0, 4))
        at += timedelta(seconds=10)
    bench.clock.move_to(at + timedelta(minutes=1))
    found = workspace_series(
        bench.world.outsider, bench.world.other_workspace.pk, START, bench.clock_now(), 60
    )
    assert values(found, "cards_allocated") == [1.0, 0.0, None]
    assert values(found, "memory_used") == [30_000.0, 0.0, None]
    assert values(found, "utilisation") == [90.0, None, None]
    two = workspace_series(
        bench.world.outsider, bench.world.other_workspace.pk, START, bench.clock_now(), 120
    )
    assert values(two, "cards_allocated")[0] == 0.5
    assert values(two, "utilisation")[0] == 90.0


def test_lines_are_limited_but_averages_are_not(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.series.levels.job.MAX_LINES", 1)
    end = bench.ticks(1)
    found = job_series(bench.world.viewer, bench.sliced, START, end, 10)
    assert found.omitted == 1
    assert values(found, "utilisation", "average") == [15.0]


def test_another_tenants_job_does_not_exist(bench: Bench) -> None:
    end = bench.ticks(1)
    with pytest.raises(NotFound):
        job_series(bench.world.viewer, bench.whole, START, end)
    assert job_series(bench.world.platform_admin, bench.whole, START, end).series


def test_an_auditor_sees_no_jobs_and_no_clusters(bench: Bench) -> None:
    auditor = tenancy.user("audra", None, Role.AUDITOR)
    end = bench.ticks(1)
    with pytest.raises(NotFound):
        job_series(auditor, bench.sliced, START, end)
    with pytest.raises(PermissionDenied):
        cluster_series(auditor, bench.world.cluster, START, end)


@pytest.mark.parametrize("who", ["viewer", "admin", "outsider"])
def test_clusters_and_nodes_are_for_operators(bench: Bench, who: str) -> None:
    viewer = getattr(bench.world, who)
    end = bench.ticks(1)
    with pytest.raises(PermissionDenied):
        cluster_series(viewer, None, START, end)
    with pytest.raises(PermissionDenied):
        node_series(viewer, bench.world.nodes[0], START, end)


def test_history_outlives_its_rows(bench: Bench) -> None:
    """Deleting a job takes its rows away but not the numbers of its cluster."""
    end: datetime = bench.ticks(1)
    before = Reading.unscoped.count(), Channel.unscoped.count()
    DeviceSlice.unscoped.all().delete()
    bench.whole.delete()
    assert (Reading.unscoped.count(), Channel.unscoped.count()) == before
    assert values(cluster_series(bench.world.platform_admin, None, START, end, 10), "cards_allocated") == [
        2.0
    ]
