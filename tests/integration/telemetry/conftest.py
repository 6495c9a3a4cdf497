"""A world with one job on sliced cards and one on whole cards, and hand-made samples of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from clusters.backends.base import DeviceSample, TaskRef
from clusters.models import Cluster, Device
from foundation.core import clock
from scheduling.models import Allocation, DeviceSlice, GpuRequestMode, Job
from telemetry.store.database import DatabaseSink
from tests.builders import jobs
from tests.builders.jobs import RoleOf
from tests.builders.world import World, world

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@dataclass
class Bench:
    """The world, a stopped clock, and short ways to sample and store.

    `sliced`: two tasks of 30 % and 20,000 MiB, both on card 0 of node 1. `whole`: one task with one
    whole card, card 1 of node 1, in the other workspace.
    """

    world: World
    clock: time_machine.Traveller
    sliced: Job
    whole: Job

    def clock_now(self) -> datetime:
        return clock.now()

    def device(self, index: int, node: int = 0) -> Device:
        return Device.unscoped.get(node=self.world.nodes[node], index=index)

    def card(self, at: datetime, index: int, use: float, memory: int, *, node: int = 0) -> DeviceSample:
        made = self.device(index, node)
        return DeviceSample(
            at, made.node.name, made.uuid, use, memory, temperature_c=40.0 + index, power_w=100.0
        )

    def pod(self, at: datetime, job: Job, task: int, use: float, memory: int) -> DeviceSample:
        hold = Allocation.unscoped.get(task__job=job, task__index=task, released_at__isnull=True)
        device = DeviceSlice.unscoped.select_related("device__node").get(allocation=hold).device
        ref = TaskRef(hold.namespace, hold.pod_name)
        return DeviceSample(at, device.node.name, device.uuid, use, memory, pod=ref)

    def batch(self, at: datetime, *, load: float = 0.0) -> list[DeviceSample]:
        """Two cards of node 1, one of node 2, and all pods; `load` is added to the pods of `sliced`."""
        return [
            self.card(at, 0, 30.0 + 2 * load, 11_000),
            self.card(at, 1, 90.0, 30_000),
            self.card(at, 0, 0.0, 4, node=1),
            self.pod(at, self.sliced, 0, 10.0 + load, 5_000),
            self.pod(at, self.sliced, 1, 20.0 + load, 6_000),
            self.pod(at, self.whole, 0, 90.0, 30_000),
        ]

    def write(self, *samples: DeviceSample) -> int:
        return self.write_to(self.world.cluster, *samples)

    def write_to(self, cluster: Cluster, *samples: DeviceSample) -> int:
        return DatabaseSink().write(str(cluster.pk), samples)

    def ticks(self, count: int, start: datetime = START, *, load: float = 0.0, every_s: int = 10) -> datetime:
        """Store that many batches, with the clock moving along; returns the time after the last."""
        at = start
        for _ in range(count):
            self.clock.move_to(at)
            self.write(*self.batch(at, load=load))
            at += timedelta(seconds=every_s)
        self.clock.move_to(at)
        return at


@contextmanager
def make_bench() -> Iterator[Bench]:
    """Build the world in whatever database is in place, and stop the clock."""
    with time_machine.travel(START, tick=False) as traveller:
        made = world()
        role = RoleOf(name="worker", replicas=2, mode=GpuRequestMode.SLICE, cores=30, gpu_memory=20_000)
        sliced = jobs.job(made.queue, made.editor, "sliced", roles=[role])
        whole = jobs.job(made.other_queue, made.outsider, "whole")
        jobs.allocate(sliced, made.nodes[0])
        jobs.allocate(whole, made.nodes[0])
        yield Bench(made, traveller, sliced, whole)


@pytest.fixture
def bench(db: None) -> Iterator[Bench]:
    with make_bench() as made:
        yield made
