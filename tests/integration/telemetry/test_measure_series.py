"""Any measure, at every level, in groups: exact over scripted shifts, with gaps, each tenant's own alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from clusters.gpu.batches import DeviceValues, MeasureBatch, SliceValues
from foundation.core.errors import Invalid, NotFound, PermissionDenied
from scheduling.models import Allocation, Job
from telemetry.models import Channel, Scope
from telemetry.series import (
    MeasuredThing,
    SeriesSet,
    cluster_series,
    job_series,
    measure_series,
    node_series,
    workspace_series,
)
from telemetry.services.roll_up import roll_up
from telemetry.services.summing import sum_live
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms
from tenants.models import Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.integration.telemetry.conftest import START, Bench

MINUTE: Final = timedelta(minutes=1)
# Minutes of the day in which there are readings, and the utilization of the whole card and of each slice.
SHIFTS: Final = ((0, 40, 90.0, 10.0, 25.0), (180, 215, 30.0, 5.0, 0.0), (600, 623, 66.0, 30.0, 12.5))


def name_pods() -> None:
    for hold in Allocation.unscoped.all():
        Allocation.unscoped.filter(pk=hold.pk).update(pod_uid=f"uid-{hold.pk}")


def slice_of(job: Job, task: int, **values: float) -> SliceValues:
    hold = Allocation.unscoped.get(task__job=job, task__index=task)
    (part,) = hold.slices.select_related("device")
    return SliceValues(part.device.uuid, values, pod_uid=hold.pod_uid)


def batch(bench: Bench, minute: int, whole: float, first: float, second: float, parts: Any) -> MeasureBatch:
    return MeasureBatch(
        "node-1",
        to_ms(START + minute * MINUTE),
        interval_ms=15_000,
        devices=(
            DeviceValues(bench.device(0).uuid, {"utilization_percent": first + second, "power_w": 100.0}),
            DeviceValues(
                bench.device(1).uuid,
                {"utilization_percent": whole, "sm_clock_mhz": 1000 + minute, "energy_j": 60.0 * minute},
            ),
        ),
        slices=tuple(
            SliceValues(part.device, {"utilization_percent": use}, pod_uid=part.pod_uid)
            for part, use in zip(parts, (first, second), strict=True)
        ),
    )


@pytest.fixture
def day(bench: Bench) -> Iterator[Bench]:
    """A day with three shifts, one batch a minute, rolled up in every grain."""
    name_pods()
    parts = [slice_of(bench.sliced, task) for task in (0, 1)]
    for begin, end, *uses in SHIFTS:
        batches = [batch(bench, minute, *uses, parts) for minute in range(begin, end)]
        bench.clock.move_to(START + end * MINUTE)
        store_batches(bench.world.cluster.pk, batches)
    bench.clock.move_to(START + timedelta(hours=24))
    roll_up()
    roll_up()
    yield bench


def integral(found: SeriesSet, measure: str, subject: str = "") -> float:
    """Sum of value times covered time, in percent-minutes, of a series whose steps lie within shifts."""
    line = found.get(measure, subject)
    assert line is not None
    return sum(value for _, value in line.points if value is not None) * found.step_s / 60


def scripted(*columns: int) -> float:
    return sum((end - begin) * sum(uses[c] for c in columns) for begin, end, *uses in SHIFTS)


def test_integrals_of_every_level_are_the_scripted_ones(day: Bench) -> None:
    world, end = day.world, START + timedelta(hours=24)
    admin, step = world.platform_admin, 60
    half, rest = START + timedelta(hours=12), end
    total = sum(
        integral(cluster_series(admin, world.cluster, a, b, step), "utilisation")
        for a, b in ((START, half), (half, rest))
    )
    assert total == pytest.approx(scripted(0, 1, 2) / 2, rel=0.005)  # the mean of two cards
    node = node_series(admin, world.nodes[0], START, half, step)
    assert integral(node, "utilisation") == pytest.approx(scripted(0, 1, 2) / 2, rel=0.005)
    assert integral(node, "card_utilisation", str(day.device(1).pk)) == pytest.approx(scripted(0), rel=0.005)
    assert integral(node, "card_utilisation", str(day.device(0).pk)) == pytest.approx(
        scripted(1, 2), rel=0.005
    )
    job = job_series(world.viewer, day.sliced, START, half, step)
    assert integral(job, "utilisation", "average") == pytest.approx(scripted(1, 2) / 2, rel=0.005)
    mine = workspace_series(world.viewer, world.workspace.pk, START, half, step)
    theirs = workspace_series(world.outsider, world.other_workspace.pk, START, half, step)
    assert integral(mine, "utilisation") == pytest.approx(scripted(1, 2) / 2, rel=0.005)
    assert integral(theirs, "utilisation") == pytest.approx(scripted(0), rel=0.005)


@pytest.mark.parametrize("step", [60, 600, 7200])
def test_means_of_every_grain_are_weighted_by_what_was_measured(day: Bench, step: int) -> None:
    """Per bucket: the minutes of a shift in it, weighted; None where there are none."""
    found = measure_series(
        day.world.platform_admin, MeasuredThing("gpu", day.device(1).pk), ["utilization_percent"],
        START, START + timedelta(hours=12), step,
    )  # fmt: skip
    (line,) = found.series
    wanted: list[float | None] = []
    for first in range(0, 720, step // 60):
        uses = [u[0] for b, e, *u in SHIFTS for minute in range(b, e) if first <= minute < first + step // 60]
        wanted.append(sum(uses) / len(uses) if uses else None)
    assert [value for _, value in line.points] == [
        None if value is None else pytest.approx(value, rel=1e-5) for value in wanted
    ]


def one(found: SeriesSet) -> list[float | None]:
    (line,) = found.series
    return [value for _, value in line.points]


def test_statistics_of_gauges_counters_and_groups(day: Bench) -> None:
    admin, card = day.world.platform_admin, MeasuredThing("gpu", day.device(1).pk)
    span = (START, START + timedelta(hours=2), 7200)

    def read(thing: MeasuredThing, measure: str, **more: Any) -> SeriesSet:
        return measure_series(admin, thing, [measure], *span, **more)

    assert one(read(card, "sm_clock_mhz", statistic="min")) == [1000.0]
    assert one(read(card, "sm_clock_mhz", statistic="max")) == [1039.0]
    assert one(read(card, "sm_clock_mhz", statistic="last")) == [1039.0]
    assert one(read(card, "energy_j")) == [39 * 60.0]
    assert one(read(MeasuredThing("cluster"), "energy_j")) == [39 * 60.0]
    assert one(read(MeasuredThing("cluster"), "utilization_percent")) == [pytest.approx((90 + 35) / 2)]
    assert one(read(MeasuredThing("cluster"), "utilization_percent", statistic="max")) == [90.0]
    pools = read(MeasuredThing("cluster", day.world.cluster.pk), "utilization_percent", group_by="pool")
    assert [line.label for line in pools.series] == ["a100"]
    gpus = read(MeasuredThing("node", day.world.nodes[0].pk), "utilization_percent", group_by="gpu")
    assert [(line.label, line.points[0][1]) for line in gpus.series] == [
        ("node-1 · GPU 0", pytest.approx(35.0)), ("node-1 · GPU 1", pytest.approx(90.0)),
    ]  # fmt: skip
    owners = read(MeasuredThing("cluster"), "utilization_percent", group_by="workspace")
    assert {line.label: line.points[0][1] for line in owners.series} == {
        "team-a": pytest.approx(17.5), "team-b": pytest.approx(90.0),
    }  # fmt: skip
    assert one(read(card, "memory_temperature_c")) == [None]
    with pytest.raises(Invalid):
        read(card, "energy_j", statistic="mean")


def test_use_of_a_whole_gpu_belongs_to_its_job_while_the_job_holds_it(day: Bench) -> None:
    world, thing = day.world, MeasuredThing("job", day.whole.pk)
    names, span = ["sm_clock_mhz", "energy_j", "utilization_percent"], (START, START + timedelta(hours=1), 60)

    def values_by_measure() -> dict[str, list[float | None]]:
        found = measure_series(world.outsider, thing, names, *span)
        return {line.measure: [value for _, value in line.points] for line in found.series}

    lines = values_by_measure()
    assert lines["sm_clock_mhz"] == [1000 + minute if minute < 40 else None for minute in range(60)]
    assert lines["energy_j"] == [0.0] + [60.0] * 39 + [None] * 20
    assert lines["utilization_percent"][:40] == [90.0] * 40
    Allocation.unscoped.filter(task__job=day.whole).update(released_at=START + 20.5 * MINUTE)
    assert values_by_measure()["sm_clock_mhz"] == [
        1000 + minute if minute < 20 else None for minute in range(60)
    ]
    with pytest.raises(NotFound):
        measure_series(world.viewer, thing, names, *span)
    shared = measure_series(world.viewer, MeasuredThing("job", day.sliced.pk), ["power_w"], *span)
    assert {value for line in shared.series for _, value in line.points} == {None}, "others use the GPU too"
    grouped = measure_series(world.outsider, thing, ["sm_clock_mhz"], *span, group_by="gpu")
    assert [line.subject for line in grouped.series] == [str(day.device(1).pk)]


def test_what_is_not_rolled_up_yet_is_read_as_it_came(bench: Bench) -> None:
    name_pods()
    parts = [slice_of(bench.sliced, task) for task in (0, 1)]
    store_batches(
        bench.world.cluster.pk, [batch(bench, minute, 50.0, 10.0, 30.0, parts) for minute in (0, 1)]
    )
    bench.clock.move_to(START + 2 * MINUTE)
    sum_live()
    roll_up()  # the first minute alone
    span = (START, START + 2 * MINUTE, 60)
    for thing, wanted in (
        (MeasuredThing("cluster"), 45.0), (MeasuredThing("gpu", bench.device(1).pk), 50.0),
        (MeasuredThing("workspace", bench.world.workspace.pk), 20.0),
        (MeasuredThing("job", bench.sliced.pk), 20.0),
    ):  # fmt: skip
        found = measure_series(bench.world.platform_admin, thing, ["utilization_percent"], *span)
        assert one(found) == [pytest.approx(wanted)] * 2, thing


def get(user: Any, **query: Any) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    return client.get("/api/v1/metrics/series", query)


def test_the_api_reads_measures(day: Bench) -> None:
    admin = day.world.platform_admin
    base = {"start": START.isoformat(), "end": (START + timedelta(hours=2)).isoformat(), "step": 7200}
    answer = get(admin, level="gpu", id=day.device(1).pk, measure="sm_clock_mhz,energy_j", **base)
    assert answer.status_code == 200, answer.data
    assert [(line["measure"], line["unit"]) for line in answer.json()["series"]] == [
        ("sm_clock_mhz", "MHz"), ("energy_j", "J"),
    ]  # fmt: skip
    mine = get(day.world.viewer, level="workspace", id=day.world.workspace.pk, **base)
    assert mine.status_code == 200
    refused: tuple[tuple[Any, dict[str, Any], int], ...] = (
        (day.world.viewer, {"level": "workspace", "id": day.world.other_workspace.pk}, 404),
        (day.world.viewer, {"level": "gpu", "id": day.device(1).pk, "measure": "power_w"}, 403),
        (day.world.viewer, {"level": "gpu", "id": day.device(1).pk}, 403),
        (admin, {"level": "cluster", "measure": "flux"}, 400),
        (admin, {"level": "node", "id": day.world.nodes[0].pk, "measure": "power_w", "groupBy": "pool"}, 400),
        (admin, {"level": "cluster", "groupBy": "pool"}, 400),
        (admin, {"level": "cluster", "measure": "energy_j", "statistic": "mean"}, 400),
    )
    for user, query, status in refused:
        assert get(user, **query).status_code == status, query


def _random_tenants(dice: random.Random, bench: Bench) -> dict[Tenant, list[Job]]:
    """Workspaces with jobs on cards of their own or parts of shared ones, at random."""
    made: dict[Tenant, list[Job]] = {}
    node = clusters.node(bench.world.flavor, "node-9", cards=12)
    for number in range(dice.randint(2, 4)):
        workspace = tenancy.workspace(f"random-{number}")
        user = tenancy.user(f"user-{number}", workspace, Role.EDITOR)
        queue = quotas.queue(bench.world.cell, workspace, [bench.world.flavor], cards=8)
        made[workspace] = []
        for index in range(dice.randint(1, 2)):
            shared = dice.random() < 0.5
            role = jobs.RoleOf(mode="slice", cores=30, gpu_memory=10_000) if shared else jobs.RoleOf()  # type: ignore[arg-type]
            job = jobs.job(queue, user, f"j{number}-{index}", roles=[role])
            jobs.allocate(job, node)
            made[workspace].append(job)
    return made


_USE: Final = "utilization_percent"


def _views(user: User, of: Tenant, own: list[Job], span: tuple[Any, ...]) -> list[Callable[[], SeriesSet]]:
    """Every way to the series of a workspace and its jobs."""
    thing = MeasuredThing("workspace", of.pk)
    return [
        *(partial(measure_series, user, thing, [_USE], *span, group_by=g) for g in (None, "gpu", "job")),
        partial(workspace_series, user, of.pk, *span),
        *(partial(job_series, user, job, *span) for job in own),
        *(partial(measure_series, user, MeasuredThing("job", job.pk), [_USE], *span) for job in own),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_no_view_of_a_tenant_includes_anothers_series(bench: Bench, seed: int) -> None:
    """Each tenant's slices use an amount that only they use, so that a foreign one shows in any number."""
    dice = random.Random(seed)
    made = _random_tenants(dice, bench)
    name_pods()
    use = {workspace: 10.0 + number for number, workspace in enumerate(made)}
    slices = tuple(
        slice_of(job, 0, utilization_percent=use[workspace], memory_used_mib=100 * use[workspace])
        for workspace, own in made.items()
        for job in own
    )
    store_batches(
        bench.world.cluster.pk,
        [MeasureBatch("node-9", to_ms(START) + 15_000 * n, slices=slices) for n in range(8)],
    )
    bench.clock.move_to(START + 5 * MINUTE)
    roll_up()
    measured = Channel.unscoped.filter(scope=Scope.WORKSPACE, workspace_id__in=[w.pk for w in made])
    assert measured.count() == len(made)
    span = (START, START + 4 * MINUTE, dice.choice([15, 60, 120]))
    for workspace, jobs_of in made.items():
        user = jobs_of[0].submitted_by
        for other, own in made.items():
            for read in _views(user, other, own, span):
                if other != workspace:
                    with pytest.raises(NotFound):
                        read()
                    continue
                lines = [line for line in read().series if line.measure.startswith("utili")]
                values = [v for line in lines if "of_grant" not in line.key for _, v in line.points]
                shown = [value for value in values if value is not None]
                assert shown == [pytest.approx(use[workspace])] * len(shown) != []
        for level in ("cluster", "node", "gpu"):
            with pytest.raises(PermissionDenied):
                measure_series(user, MeasuredThing(level, bench.world.cluster.pk), [_USE], *span)
