"""Slices resized by measured use, in the whole loop: measured, decided, carried out, charged and reported."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from clusters.backends.base import DeviceSample, TaskRef
from clusters.models import Device, GpuMode, SimulatedPod
from foundation.core import clock
from quotas.models import LedgerEntry, Quota
from quotas.services.queues.queue_preset import Preset, preset_settings
from scheduling.models import (
    Allocation,
    Decision,
    DeviceSlice,
    GpuRequestMode,
    Job,
    JobEvent,
    JobState,
    MemoryResize,
    SliceUse,
)
from telemetry.services.slice_use import report_slice_use
from telemetry.store.database import DatabaseSink
from tenants.models import Role
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.builders.stage import state
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.django_db
CARD = 40_960
GIB = 1024


class Loop:
    """One GPU in slices: team A owns it, team B owns nothing and borrows. Each test sets the use."""

    def __init__(self, time: time_machine.Coordinates, settings: Any) -> None:
        settings.ALLOTMENT_RESIZE_BY_USE = True
        self.time = time
        self.cell = clusters.cell()
        self.cluster, self.flavor = pipeline.simulated_cluster(
            self.cell, nodes=1, cards=1, mode=GpuMode.SLICE
        )
        self.cluster.live_resize = True
        self.cluster.save(update_fields=["live_resize"])
        fields = preset_settings(Preset.THROUGHPUT)
        self.queues = {}
        self.users = {}
        for name, cards in (("a", 1), ("b", 0)):
            place = tenancy.workspace(f"team-{name}")
            self.users[name] = tenancy.user(f"user-{name}", place, Role.EDITOR)
            self.queues[name] = quotas.queue(self.cell, place, [self.flavor], cards=cards, **fields)
        Quota.unscoped.filter(resource="gpu.cards").update(own_nominal=8)
        self.used: dict[str, int] = {}

    def submit(self, team: str, name: str, gib: int, **fields: Any) -> Job:
        role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=gib * GIB)
        simulate = {"run_s": 1_000_000, "start_s": 1}
        return jobs.job(self.queues[team], self.users[team], name, roles=[role], simulate=simulate, **fields)

    def run(self, seconds: float, *, measured: bool = True) -> None:
        for _ in range(int(seconds // 30)):
            self.time.shift(timedelta(seconds=30))
            if measured:
                self._measure()
                report_slice_use()
            pipeline.step(self.cell, self.cluster)
            assert_books()
            assert_jobs()

    def _measure(self) -> None:
        samples = []
        for hold in Allocation.unscoped.filter(released_at=None).select_related("task__job", "node"):
            uuid = Device.unscoped.get(slices__allocation=hold).uuid
            used = self.used.get(hold.task.job.name, 1 * GIB)
            ref = TaskRef(hold.namespace, hold.pod_name)
            samples.append(DeviceSample(clock.now(), hold.node.name, uuid, 20.0, used, pod=ref))
        if samples:
            DatabaseSink().write(str(self.cluster.pk), samples)


@pytest.fixture
def loop(db: None, settings: Any) -> Iterator[Loop]:
    with time_machine.travel("2026-03-02T08:00:00Z", tick=False) as time:
        yield Loop(time, settings)


def memory(job: Job) -> int:
    return DeviceSlice.unscoped.get(allocation__task__job=job, released=False).memory_mib


def charged(loop: Loop, team: str) -> int:
    rows = LedgerEntry.unscoped.filter(node=loop.queues[team].node, resource="gpu.memory")
    return sum(rows.values_list("reserved", flat=True))


def test_lent_memory_runs_another_job_and_comes_back_when_it_is_needed(loop: Loop) -> None:
    owner = loop.submit("a", "owner", 32)
    loop.used["owner"] = 6 * GIB
    loop.run(90)
    borrower = loop.submit("b", "borrower", 24)
    loop.run(420)
    assert (state(owner), memory(owner), state(borrower)) == (JobState.RUNNING, 32 * GIB, JobState.QUEUED)

    # Ten minutes of measured use: three quarters are lent, and the pending job runs there.
    loop.run(360)
    assert memory(owner) == 8 * GIB
    assert SimulatedPod.unscoped.get(name__startswith="owner").devices[0][2] == 8 * GIB
    assert charged(loop, "a") == 8 * GIB
    assert (state(borrower), charged(loop, "b")) == (JobState.RUNNING, 24 * GIB)
    lent = JobEvent.unscoped.get(job=owner, code="resizing")
    assert (lent.actor, lent.numbers["rule"], lent.numbers["peak"]) == ("", "MEASURED_USE", 6 * GIB)

    # The owner needs it: the borrower is evicted by a rule that names it, and no other job gets the memory.
    loop.used["owner"] = int(7.5 * GIB)
    other = loop.submit("b", "other", 24)
    loop.run(60)
    evict = Decision.unscoped.get(job=borrower, kind="evict")
    assert (evict.code, evict.beneficiary) == ("SLICE_RETURNED", owner)
    loop.run(120)
    assert (memory(owner), charged(loop, "a")) == (32 * GIB, 32 * GIB)
    assert (state(owner), state(borrower), state(other)) == (
        JobState.RUNNING,
        JobState.QUEUED,
        JobState.QUEUED,
    )

    # A short dip lends nothing for an hour, which avoids oscillation.
    loop.used["owner"] = 6 * GIB
    loop.run(1800)
    assert memory(owner) == 32 * GIB
    assert MemoryResize.unscoped.count() == 2


def test_a_dead_collector_changes_nothing(loop: Loop) -> None:
    owner = loop.submit("a", "owner", 32)
    loop.used["owner"] = 2 * GIB
    loop.run(570)
    loop.run(1800, measured=False)
    assert memory(owner) == 32 * GIB
    assert not MemoryResize.unscoped.exists()
    # After a gap the ten minutes count anew.
    loop.run(540)
    assert not MemoryResize.unscoped.exists()
    loop.run(180)
    assert memory(owner) == 8 * GIB


def test_what_is_wanted_is_forgotten_with_the_measurements(loop: Loop) -> None:
    loop.submit("a", "owner", 32)
    loop.run(300)
    SliceUse.unscoped.update(wanted_mib=8 * GIB, seen_at=clock.now() - timedelta(seconds=91))
    loop.run(300, measured=False)
    assert SliceUse.unscoped.get().wanted_mib is None
    assert not MemoryResize.unscoped.exists()


@pytest.mark.parametrize("case", ["setting", "cluster", "queue"])
def test_only_where_it_is_switched_on(loop: Loop, settings: Any, case: str) -> None:
    if case == "setting":
        settings.ALLOTMENT_RESIZE_BY_USE = False
    elif case == "cluster":
        loop.cluster.live_resize = False
        loop.cluster.save(update_fields=["live_resize"])
    else:
        queue = loop.queues["a"]
        for name, value in preset_settings(Preset.BALANCED).items():
            setattr(queue, name, value)
        queue.save()
    loop.submit("a", "owner", 32)
    loop.run(900)
    assert not MemoryResize.unscoped.exists()


def test_who_is_not_preemptible_or_ran_before_is_not_evicted(loop: Loop) -> None:
    owner = loop.submit("a", "owner", 20)
    before = loop.submit("b", "before", 12)
    loop.run(690)
    assert (memory(owner), memory(before)) == (5 * GIB, 3 * GIB)
    fixed = loop.submit("a", "fixed", 30, preemptible=False)
    loop.run(60)
    assert state(fixed) == JobState.RUNNING
    loop.used["owner"] = 5 * GIB
    loop.run(120)
    assert {state(job) for job in (owner, before, fixed)} == {JobState.RUNNING}
    assert memory(owner) == 5 * GIB
    assert not Decision.unscoped.filter(kind="evict").exists()
