"""The scripted day in the database: its ledger is written, its samples are ingested hour by hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import time_machine

from clusters.backends.base import DeviceSample, TaskRef
from clusters.gpu.batches import DeviceValues, MeasureBatch, SliceValues
from clusters.models import Cluster, Device, Flavor, GpuMode, Node
from quotas.models import Queue
from scheduling.models import Allocation, Attempt, DeviceSlice, GpuRequestMode, Job, Task
from telemetry import tasks
from telemetry.store.database import DatabaseSink
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms
from telemetry.usage.record_measured import record_measured
from tenants.models import Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders import scripted_day as script
from tests.builders.jobs import RoleOf
from tests.builders.scripted_day import DAY, HOLDS, HOUR, JOBS, NODES, Hold, Sample, at

MIDNIGHT: Final = datetime(2026, 3, 2, tzinfo=UTC)
END: Final = MIDNIGHT + timedelta(seconds=DAY + 180)
# The agent on one node samples half as often.
PLANS: Final = {
    "alpha": ((0, DAY, 15),),
    "beta": ((0, DAY, 15),),
    "gamma": ((0, DAY, 30),),
    "delta": ((at("08:00"), at("10:00"), 10),),
}
PHASES: Final = {"alpha": 3, "beta": 11, "gamma": 7, "delta": 0}
# While the platform restarts, agents store their measurements and deliver them afterwards.
RESTART: Final = (at("09:08"), at("09:52"))
CARD_MIB: Final = 40_960
_MODES: Final = {"whole": GpuRequestMode.WHOLE, "slice": GpuRequestMode.SLICE, "mig": GpuRequestMode.MIG}


def moment(second: float) -> datetime:
    return MIDNIGHT + timedelta(seconds=second)


@dataclass
class Day:
    """Rows of the script by their names."""

    clock: time_machine.Traveller
    one: Cluster
    two: Cluster
    admin: User
    nodes: dict[str, Node] = field(default_factory=dict)
    pools: dict[str, Flavor] = field(default_factory=dict)
    workspaces: dict[str, Tenant] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    uids: dict[Hold, str] = field(default_factory=dict)

    def device(self, node: str, gpu: int) -> Device:
        return Device.unscoped.get(node=self.nodes[node], index=gpu)


def make_day(clock: time_machine.Traveller) -> Day:
    """Write clusters, tenants, jobs and all their runs; nothing is measured yet."""
    clock.move_to(MIDNIGHT)
    cell = clusters.cell()
    day = Day(clock, clusters.cluster(cell, "one"), clusters.cluster(cell, "two"), tenancy.platform_admin())
    day.pools["a100"] = clusters.flavor(day.one, "a100")
    day.pools["mig"] = clusters.flavor(day.one, "mig", mode=GpuMode.MIG, card_memory_mib=20_480)
    day.pools["sim"] = clusters.flavor(day.two, "sim")
    pool_of = {"alpha": "a100", "beta": "a100", "gamma": "mig", "delta": "sim"}
    for name, pool in pool_of.items():
        day.nodes[name] = clusters.node(day.pools[pool], name, cards=NODES.get(name, 1))
    folder = tenancy.folder("research")
    for job in JOBS:
        if job.workspace not in day.workspaces:
            below = folder if job.workspace == "team-c" else None
            day.workspaces[job.workspace] = tenancy.workspace(job.workspace, below)
        home = day.workspaces[job.workspace]
        if job.user not in day.users:
            day.users[job.user] = tenancy.user(job.user, home, Role.EDITOR)
        if job.queue not in day.queues:
            day.queues[job.queue] = quotas.queue(cell, home, [day.pools[job.pool]], name=job.queue)
        _write_job(day, job)
    return day


def _write_job(day: Day, of: script.JobOf) -> None:
    holds = [hold for hold in HOLDS if hold.job == of.name]
    mode, count = _MODES[of.mode], 1 + max(hold.task for hold in holds)
    role = RoleOf(replicas=count, mode=mode, cores=holds[0].cores, gpu_memory=holds[0].memory)
    job = jobs.job(day.queues[of.queue], day.users[of.user], of.name, roles=[role])
    day.jobs[of.name] = job
    for run in sorted({hold.run for hold in holds}):
        parts = [hold for hold in holds if hold.run == run]
        first, last = min(p.begin for p in parts), max(p.end for p in parts)
        attempt = Attempt.unscoped.create(
            job=job, number=run, epoch=1, admitted_at=moment(first), started_at=moment(first),
            ended_at=moment(last), end_reason=parts[0].reason,
        )  # fmt: skip
        for part in parts:
            _write_hold(day, attempt, part, exclusive=of.mode == "whole")


def _write_hold(day: Day, attempt: Attempt, hold: Hold, *, exclusive: bool) -> None:
    name = f"{hold.job}-{hold.run}-{hold.task}"
    day.uids[hold] = f"uid-{name}"
    row = Allocation.unscoped.create(
        attempt=attempt,
        task=Task.unscoped.get(job=attempt.job, index=hold.task),
        node=day.nodes[hold.node],
        flavor=day.nodes[hold.node].flavor,
        cpu_millicores=10,
        memory_mib=10,
        charge={"gpu.cards": 1, "gpu.cores": hold.cores, "gpu.memory": hold.memory},
        namespace=attempt.job.workspace.slug,
        pod_name=name,
        pod_uid=day.uids[hold],
        released_at=moment(hold.end),
    )
    Allocation.unscoped.filter(pk=row.pk).update(created_at=moment(hold.begin))
    DeviceSlice.unscoped.create(
        allocation=row, device=day.device(hold.node, hold.gpu), cores=hold.cores, memory_mib=hold.memory,
        exclusive=exclusive, released=True,
    )  # fmt: skip


def _batch(day: Day, sample: Sample) -> MeasureBatch:
    devices, slices = [], []
    for gpu in range(NODES[sample.node]):
        uuid = f"GPU-one-{sample.node}-{gpu}"
        held = script.holds_at(sample.node, gpu, sample.second)
        values = [(hold, hold.use_at(sample.second), float(hold.used_memory)) for hold in held]
        devices.append(
            DeviceValues(
                uuid,
                {"utilization_percent": sum(use for _, use, _ in values),
                 "memory_used_mib": sum(used for _, _, used in values), "power_w": 100.0},
            )
        )  # fmt: skip
        slices += [
            SliceValues(uuid, {"utilization_percent": use, "memory_used_mib": used}, pod_uid=day.uids[hold])
            for hold, use, used in values
        ]
    at_ms = to_ms(moment(sample.second))
    return MeasureBatch(
        sample.node, at_ms, sample.length * 1000, devices=tuple(devices), slices=tuple(slices)
    )


def live_the_day(day: Day) -> None:
    """Ingest, roll up, prune and record hour by hour, as the workers of a running platform do."""
    pushed = [s for node in NODES for s in script.samples_of(node, PLANS[node], PHASES[node])]
    pulled = list(script.samples_of("delta", PLANS["delta"], PHASES["delta"]))
    bounds = sorted({*range(HOUR, DAY + 1, HOUR), *RESTART, sum(RESTART) // 2})
    since, kept = 0, []
    for until in bounds:
        kept += [sample for sample in pushed if since <= sample.second < until]
        day.clock.move_to(moment(until + 120))
        if not RESTART[0] < until < RESTART[1]:
            for node in NODES:
                store_batches(day.one.pk, [_batch(day, s) for s in kept if s.node == node])
            kept = []
        _pull(day, [s for s in pulled if since <= s.second < until])
        tasks.roll_up()
        record_measured(now=moment(until + 120))
        since = until
    day.clock.move_to(END)
    tasks.roll_up()
    record_measured(now=END)


def _pull(day: Day, samples: list[Sample]) -> None:
    """Store the readings of the simulated cluster; its holds are live while it is asked."""
    (hold,) = (each for each in HOLDS if each.node == "delta")
    if not samples:
        return
    rows: Any = Allocation.unscoped.filter(node=day.nodes["delta"])
    ended = rows.get().released_at
    rows.update(released_at=None)
    DeviceSlice.unscoped.filter(allocation__in=rows).update(released=False)
    card = {"cores_granted": hold.cores, "memory_granted": hold.memory, "holders": 1}
    Device.unscoped.filter(node=day.nodes["delta"]).update(**card)
    ref = TaskRef("team-d", "simulated-1-0")
    found = [
        DeviceSample(
            moment(sample.second), "delta", "GPU-two-delta-0", hold.use_at(sample.second), hold.used_memory,
            pod=pod,
        )
        for sample in samples
        for pod in (None, ref)
    ]  # fmt: skip
    DatabaseSink().write(str(day.two.pk), found)
    rows.update(released_at=ended)
    DeviceSlice.unscoped.filter(allocation__in=rows).update(released=True)
    Device.unscoped.filter(node=day.nodes["delta"]).update(**dict.fromkeys(card, 0))
