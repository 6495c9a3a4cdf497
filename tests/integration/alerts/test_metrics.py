"""Each metric of the catalogue reads existing values, and returns nothing where nothing is known."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from alerts.evaluation.evaluate import evaluate_rules
from alerts.metrics.base import Unit
from alerts.metrics.catalogue import BY_NAME, METRICS
from alerts.models import AlertRule
from clusters.gpu.batches import DeviceValues, MeasureBatch
from clusters.gpu.measures import MEASURES, Level
from clusters.models import Cluster, Device, Node
from foundation.core import clock
from foundation.core.quantities import Resource
from scheduling.models import Allocation, Job
from telemetry.models import (
    GpuEvent,
    GpuProcess,
    NodeAgent,
    SourceStatus,
    TelemetryGap,
    TelemetrySource,
)
from telemetry.services.roll_up import roll_up
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms
from tests.builders import clusters, quotas
from tests.integration.telemetry.conftest import START, Bench, make_bench


@pytest.fixture
def bench(db: None) -> Any:
    with make_bench() as made:
        yield made


def _read(name: str) -> dict[str, float | None]:
    return {each.label: each.value for each in BY_NAME[name].read(clock.now())}


def _run(*jobs: Job) -> None:
    Job.unscoped.filter(pk__in=[job.pk for job in jobs]).update(state="running")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_subject_has_a_unique_key_and_a_name_and_belongs_somewhere(bench: Bench, metric: Any) -> None:
    bench.ticks(3)
    _run(bench.sliced, bench.whole)
    found = metric.read(clock.now())
    assert len({each.subject for each in found}) == len(found)
    assert all(each.label and len(each.subject) <= 200 for each in found)
    assert all((each.tenant_path != "") == metric.for_tenants for each in found)
    if metric.of_cluster:
        assert all(each.cluster_id == bench.world.cluster.pk for each in found)


def test_gpu_metrics_are_the_last_sample_and_unknown_without_one(bench: Bench) -> None:
    bench.ticks(3)
    assert _read("gpu.utilization_percent")["node-1, GPU 1"] == 90.0
    assert _read("gpu.temperature_c")["node-1, GPU 1"] == 41.0
    assert _read("gpu.power_w")["node-1, GPU 1"] == 100.0
    memory = Device.unscoped.get(node__name="node-1", index=1).memory_mib
    assert _read("gpu.memory_percent")["node-1, GPU 1"] == pytest.approx(100 * 30_000 / memory)
    assert _read("gpu.temperature_c")["node-1, GPU 5"] is None
    bench.clock.shift(timedelta(minutes=5))
    assert set(_read("gpu.temperature_c").values()) == {None}


def test_job_metrics_follow_the_samples_of_its_slices(bench: Bench) -> None:
    bench.ticks(3)
    _run(bench.sliced, bench.whole)
    granted = 2 * 20_000
    shares = _read("job.memory_percent")
    assert shares["team-a/sliced"] == pytest.approx(100 * 11_000 / granted)
    assert _read("job.idle_gpus") == {"team-a/sliced": 0.0, "team-b/whole": 0.0}
    bench.clock.shift(timedelta(minutes=5))
    assert _read("job.idle_gpus") == {"team-a/sliced": None, "team-b/whole": None}


def test_idle_gpus_are_counted_after_five_minutes(bench: Bench) -> None:
    _run(bench.whole)
    hold = Allocation.unscoped.get(task__job=bench.whole, released_at__isnull=True)
    assert hold is not None
    at = START
    for _ in range(32):
        bench.clock.move_to(at)
        bench.write(bench.card(at, 1, 0.0, 4), bench.pod(at, bench.whole, 0, 0.0, 4))
        at += timedelta(seconds=10)
    assert _read("job.idle_gpus") == {"team-a/sliced": None, "team-b/whole": 1.0}


def test_a_pending_job_waits_since_its_submission(bench: Bench) -> None:
    now = clock.now()
    Job.unscoped.filter(pk=bench.whole.pk).update(state="queued", submitted_at=now - timedelta(minutes=7))
    Job.unscoped.filter(pk=bench.sliced.pk).update(state="suspended")
    assert _read("job.pending_s") == {"team-b/whole": 420.0}


def test_a_job_that_was_queued_again_waits_since_then(bench: Bench) -> None:
    now = clock.now()
    Job.unscoped.update(state="queued", submitted_at=now - timedelta(days=5))
    for job, seconds in ((bench.sliced, 20), (bench.whole, 40)):
        Job.unscoped.filter(pk=job.pk).update(queued_at=now - timedelta(seconds=seconds))
    assert _read("job.pending_s") == {"team-a/sliced": 20.0, "team-b/whole": 40.0}


def test_quota_is_the_reserved_share_of_the_nominal(bench: Bench) -> None:
    w = bench.world
    name = "Team A, a100, GPUs"
    before = _read("quota.reserved_percent")[name]
    quotas.reserve(w.queue, w.flavor, Resource.GPU_CARDS, 2)
    after = _read("quota.reserved_percent")[name]
    assert (before, after) == (0.0, 25.0)


def test_nodes_clusters_and_gaps_count_seconds_since_they_failed(bench: Bench) -> None:
    now = clock.now()
    Node.unscoped.filter(name="node-1").update(ready=False, not_ready_since=now - timedelta(seconds=90))
    assert _read("node.unready_s") == {"node-1": 90.0, "node-2": 0.0}
    Device.unscoped.filter(node__name="node-1", index=0).update(healthy=False)
    unhealthy = _read("gpu.unhealthy")
    assert unhealthy.pop("node-1, GPU 0") == 1.0
    assert set(unhealthy.values()) == {0.0}
    cluster = bench.world.cluster
    Cluster.unscoped.filter(pk=cluster.pk).update(
        health="unreachable", health_since=now - timedelta(seconds=30)
    )
    assert _read("cluster.unreachable_s") == {"sim": 30.0}
    TelemetryGap.unscoped.create(cluster=cluster, started_at=now - timedelta(seconds=45), cause="unreachable")
    assert _read("cluster.no_samples_s") == {"sim": 45.0}
    Cluster.unscoped.filter(pk=cluster.pk).update(health="unknown")
    assert _read("cluster.unreachable_s") == {"sim": None}
    Cluster.unscoped.filter(pk=cluster.pk).update(health="disowned")
    assert _read("cluster.unreachable_s") == {"sim": None}


def test_errors_and_unknown_processes_are_counted_where_an_agent_reports(bench: Bench) -> None:
    now, node = clock.now(), bench.world.nodes[0]
    NodeAgent.unscoped.create(node=node, seen_at=now)
    device, at_ms = bench.device(2), to_ms(now)
    event = {"cluster_id": node.cluster_id, "node_id": node.pk}
    for number, (uuid, kind) in enumerate(((device.uuid, "xid"), ("", "xid"), (device.uuid, "lost"))):
        GpuEvent.unscoped.create(**event, device_uuid=uuid, kind=kind, code=79, at_ms=at_ms - number)
    GpuEvent.unscoped.create(**event, device_uuid=device.uuid, kind="xid", code=79, at_ms=at_ms - 3_600_000)
    for pid, owner in ((1, None), (2, None), (3, uuid4())):
        GpuProcess.unscoped.create(
            id=uuid4(), **event, device_id=device.pk, pid=pid, name="python3", allocation_id=owner,
            first_seen_ms=at_ms, last_seen_ms=at_ms,
        )  # fmt: skip
    assert _read("gpu.xid_errors")["node-1, GPU 2"] == 2.0
    assert _read("gpu.xid_errors")["node-1, GPU 0"] == 1.0, "an error of the whole node is one of each GPU"
    assert _read("gpu.faults")["node-1, GPU 2"] == 1.0
    assert _read("gpu.unknown_processes")["node-1, GPU 2"] == 2.0
    assert _read("gpu.unknown_processes")["node-2, GPU 0"] is None
    bench.clock.shift(timedelta(minutes=5))
    assert set(_read("gpu.unknown_processes").values()) == {None}


def test_every_measure_of_gpus_has_a_metric_or_a_reason_for_none() -> None:
    of_gpus = {measure.name for measure in MEASURES if Level.DEVICE in measure.levels}
    named = {metric.name.partition(".")[2] for metric in METRICS if metric.name.startswith("gpu.")}
    unnamed = {
        "memory_total_mib", "memory_reserved_mib",  # what the GPU is
        "energy_j", "app_sm_clock_mhz", "app_memory_clock_mhz",  # grows always, and settings
        "xid",  # as an event
        "memory_allocated_mib", "memory_allocated_percent", "cores_allocated_percent", "sharing_containers",
    }  # fmt: skip
    assert of_gpus - named == unnamed
    assert all(metric.unit is not Unit.COUNT for metric in METRICS if metric.name.endswith(("_mib", "_mhz")))


def store_measures(bench: Bench, at: datetime, **values: float) -> None:
    batch = MeasureBatch("node-1", to_ms(at), devices=(DeviceValues(bench.device(1).uuid, values),))
    store_batches(bench.world.cluster.pk, [batch])


def test_measures_of_gpus_are_the_last_sample_and_unknown_without_one(bench: Bench) -> None:
    name, now = "node-1, GPU 1", clock.now()
    memory = bench.device(1).memory_mib
    store_measures(bench, now - timedelta(seconds=15), sm_active_percent=10.0, throttle_reasons=0x40)
    store_measures(
        bench, now, sm_active_percent=71.5, throttle_reasons=0x4, memory_used_mib=1000, row_remap_pending=1
    )
    assert _read("gpu.sm_active_percent")[name] == 71.5
    assert _read("gpu.throttle_reasons")[name] == 0.0, "a power limit is no fault"
    assert _read("gpu.row_remap_pending")[name] == 1.0
    assert _read("gpu.memory_free_mib")[name] == memory - 1000
    assert _read("gpu.encoder_percent")[name] is None, "not supported is no 0"
    assert _read("gpu.sm_active_percent")["node-1, GPU 2"] is None
    for reason, slowed in ((0x20, 1.0), (0x88, 1.0), (0x1, 0.0)):
        bench.clock.shift(timedelta(seconds=15))
        store_measures(bench, clock.now(), throttle_reasons=reason)
        assert _read("gpu.throttle_reasons")[name] == slowed
    bench.clock.shift(timedelta(minutes=5))
    assert set(_read("gpu.throttle_reasons").values()) == {None}


def test_counters_count_what_is_new_in_15_minutes_over_roll_ups_and_resets(bench: Bench) -> None:
    name = "node-1, GPU 1"
    counts = [*[7] * 10, 9, 9, 2, *[2] * 5, 4]  # minute by minute; it began anew at the thirteenth
    for minute, count in enumerate(counts):
        bench.clock.move_to(START + minute * timedelta(minutes=1))
        store_measures(bench, clock.now(), ecc_corrected=count)
        if minute == 12:
            bench.clock.shift(timedelta(seconds=50))
            roll_up()
    assert _read("gpu.ecc_corrected")[name] == 2 + 2 + 2
    assert _read("gpu.ecc_uncorrected")[name] is None
    bench.clock.shift(timedelta(minutes=9))
    assert _read("gpu.ecc_corrected")[name] == 2, "what grew more than 15 minutes ago is not counted"
    bench.clock.shift(timedelta(minutes=30))
    assert _read("gpu.ecc_corrected")[name] is None


def test_use_of_jobs_nodes_and_clusters_is_that_of_what_was_measured(bench: Bench) -> None:
    _run(bench.sliced, bench.whole)
    assert set(_read("cluster.utilization_percent").values()) == {None}
    bench.ticks(3)
    assert _read("job.utilization_percent") == {
        "team-a/sliced": pytest.approx(100 * 30 / 60), "team-b/whole": 90.0,
    }  # fmt: skip
    assert _read("job.memory_used_mib") == {"team-a/sliced": 11_000.0, "team-b/whole": 30_000.0}
    assert _read("node.utilization_percent") == {"node-1": 60.0, "node-2": 0.0}
    assert _read("cluster.utilization_percent") == {"sim": 40.0}
    total = 100 * Device.unscoped.filter(node__present=True).count()
    assert _read("cluster.allocated_percent") == {"sim": pytest.approx(100 * (30 + 30 + 100) / total)}
    bench.clock.shift(timedelta(minutes=5))
    assert set(_read("node.utilization_percent").values()) == {None}


def test_a_data_source_is_silent_since_it_failed_or_was_last_read(bench: Bench) -> None:
    now = clock.now()
    for source, times in {
        "well": {"answered_at": now, "attempted_at": now},
        "fails": {"attempted_at": now, "failed_since": now - timedelta(seconds=70)},
        "unread": {name: now - timedelta(seconds=400) for name in ("answered_at", "attempted_at")},
        "new": {},
    }.items():
        made = TelemetrySource.unscoped.create(
            cluster=bench.world.cluster, name=source, kind="dcgm", address="http://x"
        )
        SourceStatus.unscoped.create(source=made, problem="timeout" if source == "fails" else "", **times)
    TelemetrySource.unscoped.create(
        cluster=bench.world.cluster, name="off", kind="dcgm", address="http://x", enabled=False
    )
    assert _read("source.silent_s") == {
        "sim, well": 0.0, "sim, fails": 70.0, "sim, unread": 400.0, "sim, new": None,
    }  # fmt: skip


def test_slices_above_their_allocation_are_counted_by_job(bench: Bench) -> None:
    def store(at: datetime, first: int, second: int) -> None:
        bench.clock.move_to(at)
        bench.write(bench.pod(at, bench.sliced, 0, 10.0, first), bench.pod(at, bench.sliced, 1, 20.0, second))

    assert _read("job.slices_over_allocation") == {"team-a/sliced": None}
    store(START, 20_000, 20_000)
    assert _read("job.slices_over_allocation") == {"team-a/sliced": 0.0}
    store(START + timedelta(seconds=10), 20_001, 20_000)
    assert _read("job.slices_over_allocation") == {"team-a/sliced": 1.0}
    bench.clock.shift(timedelta(minutes=5))
    assert _read("job.slices_over_allocation") == {"team-a/sliced": None}


def _find_problems(*metrics: str) -> dict[str, tuple[str, ...]]:
    AlertRule.unscoped.all().delete()
    for name in metrics:
        AlertRule.unscoped.create(name=name, metric=name, threshold=1e12)
    evaluate_rules(clock.now())
    return {rule.metric: (rule.error, *rule.unread_clusters) for rule in AlertRule.unscoped.all()}


def test_a_cluster_without_gpus_is_no_fault_of_a_rule_on_clusters(bench: Bench) -> None:
    clusters.cluster(bench.world.cluster.cell, "west")
    bench.ticks(3)
    metrics = ("cluster.utilization_percent", "cluster.allocated_percent")
    assert set(_find_problems(*metrics).values()) == {("",)}
    assert {label for name in metrics for label in _read(name)} == {"sim"}


def test_a_cluster_is_named_if_its_gpus_are_silent_and_not_if_they_lack_the_measure(bench: Bench) -> None:
    west = clusters.cluster(bench.world.cluster.cell, "west")
    node = clusters.node(clusters.flavor(west), "west-1", cards=1)
    metrics = ("gpu.sm_active_percent", "gpu.ecc_corrected", "gpu.encoder_percent", "gpu.power_w")
    known = {"sm_active_percent": 5.0, "ecc_corrected": 1, "encoder_percent": 3.0, "power_w": 90.0}
    for _ in range(2):
        bench.clock.shift(timedelta(seconds=15))
        store_measures(bench, clock.now(), utilization_percent=1.0, memory_used_mib=10, **known)
    assert set(_find_problems(*metrics).values()) == {("partly-without-values", "west")}
    batch = MeasureBatch(
        "west-1",
        to_ms(clock.now()),
        devices=(DeviceValues(node.devices.get().uuid, {"utilization_percent": 1.0, "memory_used_mib": 10}),),
    )
    store_batches(west.pk, [batch])
    found = _find_problems(*metrics)
    assert set(found.values()) == {("",)}, found
    # Where no cluster has it, the rule is not evaluated at all.
    assert _find_problems("gpu.decoder_percent") == {"gpu.decoder_percent": ("no-values",)}


def test_nodes_that_never_had_an_agent_are_no_fault_of_a_rule(bench: Bench) -> None:
    west = clusters.cluster(bench.world.cluster.cell, "west")
    node = clusters.node(clusters.flavor(west), "west-1", cards=1)
    now = clock.now()
    NodeAgent.unscoped.create(node=bench.device(1).node, seen_at=now)
    assert _find_problems("gpu.xid_errors") == {"gpu.xid_errors": ("",)}
    NodeAgent.unscoped.create(node=node, seen_at=now - timedelta(hours=1))
    assert _find_problems("gpu.xid_errors") == {"gpu.xid_errors": ("partly-without-values", "west")}
