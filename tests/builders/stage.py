"""A small simulated installation for tests of the whole pipeline, in one process."""

from __future__ import annotations

from typing import Any

import time_machine

from clusters.models import Cell, Cluster, Device, Flavor, GpuMode, Node
from quotas.models import LedgerEntry, Queue
from scheduling.models import Allocation, DeviceSlice, GpuRequestMode, Job
from tenants.models import Role, User
from tests.builders import clusters, jobs, pipeline, quotas, tenancy


class Stage:
    """A simulated cluster of two nodes with eight cards each, and one team that owns all of it."""

    def __init__(self, *, mode: GpuMode = GpuMode.WHOLE, cards: int = 16) -> None:
        self.cell: Cell = clusters.cell()
        self.cluster: Cluster
        self.flavor: Flavor
        self.cluster, self.flavor = pipeline.simulated_cluster(self.cell, mode=mode)
        workspace = tenancy.workspace("team-a")
        self.user: User = tenancy.user("ed", workspace, Role.EDITOR)
        self.queue: Queue = quotas.queue(self.cell, workspace, [self.flavor], cards=cards)

    def submit(self, name: str, *roles: jobs.RoleOf, run_s: float = 20, **fields: Any) -> Job:
        simulate = {"run_s": run_s, **fields.pop("simulate", {})}
        return jobs.job(
            self.queue, self.user, name, roles=roles or (jobs.RoleOf(),), simulate=simulate, **fields
        )

    def run(self, seconds: float, *, every_s: float = 3.0) -> None:
        pipeline.run_for(self.cell, self.cluster, seconds, every_s=every_s)

    def assert_nothing_is_held(self) -> None:
        assert set(LedgerEntry.unscoped.values_list("reserved", flat=True)) <= {0}
        assert not Device.unscoped.exclude(cores_granted=0, memory_granted=0, holders=0).exists()
        assert not Node.unscoped.exclude(cpu_granted=0, memory_granted=0).exists()
        assert not Allocation.unscoped.filter(released_at__isnull=True).exists()
        assert not DeviceSlice.unscoped.filter(released=False).exists()


def state(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def stage_with_slice() -> Stage:
    """A stage on which job "a" runs in 30 % and 8 GiB of a card, and whose cluster changes memory live."""
    made = Stage(mode=GpuMode.SLICE)
    made.cluster.live_resize = True
    made.cluster.save(update_fields=["live_resize"])
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=8192)
    with time_machine.travel("2026-03-02T08:00:00Z", tick=False):
        made.submit("a", role, run_s=100_000)
    made.run(24)
    return made
