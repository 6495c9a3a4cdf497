"""Reads the rows of a cell and builds an engine snapshot from them.

The number of queries is fixed, whatever the size of the cell. The snapshot keeps the version of each job, so
that the commit finds the jobs that have changed since.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from clusters.models import Cell, Device
from foundation.sql import row_scope
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.job_history import claims_of, has_left, pasts_of, places_of_moved, usage_of
from scheduling.engine_input.jobs import watched_workspaces
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.models import Allocation, DeviceSlice, Job, JobRole
from scheduling.snapshots.cell_parts import CellParts
from scheduling.snapshots.cell_snapshot import CellSnapshot, names_in
from scheduling.snapshots.delegated import NOWHERE, DelegatedScope
from scheduling.snapshots.holds import allocations_of
from scheduling.snapshots.inventory import devices_of, engine_flavors, engine_nodes, with_tasks
from scheduling.snapshots.jobs import (
    SEEN,
    allowances_of,
    apply_claims,
    apply_limits,
    below_cap,
    jobs_of,
    most_cards,
)
from scheduling.snapshots.tree import engine_queues, engine_quota_nodes


@dataclass(frozen=True, slots=True)
class CellReading:
    """The input of one cycle of a cell, read once."""

    cell_id: uuid.UUID
    parts: CellParts
    jobs: dict[str, Job]
    devices: dict[str, uuid.UUID]
    sharing: str
    lost_ppm: int
    workload: em.TaskWorkload

    @row_scope.whole()
    def build_snapshot(self) -> CellSnapshot:
        """Return a new snapshot, which a cycle may change."""
        parts = self.parts
        snapshot = engine.Snapshot(
            nodes=parts.nodes,
            flavors=parts.flavors,
            quota_nodes=parts.quota_nodes,
            queues=parts.queues,
            jobs=parts.jobs,
            allocations=parts.allocations,
            claims=parts.claims,
            usage=usage_of(self.cell_id),
            lost_ppm=self.lost_ppm,
            workload=self.workload,
        )
        for place in places_of_moved(snapshot):
            snapshot.add_allocation(place)
        names = names_in(self.cell_id)
        return CellSnapshot(snapshot, self.jobs, self.devices, names, sharing=self.sharing)


def cell_snapshot(cell_id: uuid.UUID, *, but: DelegatedScope = NOWHERE) -> CellSnapshot:
    """Return a snapshot of a cell without the delegated part `but`."""
    return read_cell(cell_id, but=but).build_snapshot()


@row_scope.whole()
def read_cell(cell_id: uuid.UUID, *, but: DelegatedScope = NOWHERE) -> CellReading:
    """Read the rows of a cell without the delegated part `but`."""
    jobs = list(
        Job.unscoped.filter(queue__cell_id=cell_id, state__in=SEEN)
        .select_related("queue", "workspace")
        .order_by("submitted_at", "id")
    )
    rows = {str(job.pk): job for job in jobs}
    devices = devices_of(Device.unscoped.filter(node__cluster__cell_id=cell_id, node__present=True))
    queues = engine_queues(cell_id)  # before the tree, so that a new queue has its quota node
    watched = watched_workspaces((job.workspace_id, job.placement) for job in jobs)
    claims = claims_of(cell_id)
    # The usage is read before the allocations, so that quota released in between still counts as used.
    quota_nodes = engine_quota_nodes(cell_id)
    roles = JobRole.unscoped.filter(job__queue__cell_id=cell_id, job__state__in=SEEN).order_by(
        "job_id", "position"
    )
    pasts = pasts_of(
        frozenset(claims),
        left=[job.pk for job in jobs if has_left(job)],
        in_parts=[job.pk for job in jobs if job.holds],
    )
    seen = jobs_of(jobs, roles, watched=watched, pasts=pasts)
    nodes, flavors = engine_nodes(cell_id, devices), engine_flavors(cell_id)
    live = Allocation.unscoped.filter(node__cluster__cell_id=cell_id, released_at__isnull=True)
    slices = DeviceSlice.unscoped.filter(released=False, allocation__node__cluster__cell_id=cell_id)
    held = list(allocations_of(live, slices, watched).values())
    limits, mounted = allowances_of(cell_id), ClaimReader(cell_id, jobs)
    parts = CellParts(
        nodes=with_tasks(nodes, held),
        flavors=flavors,
        quota_nodes=quota_nodes,
        queues=queues,
        jobs=below_cap(
            apply_claims(mounted, apply_limits(limits, seen, rows), rows),
            queues,
            quota_nodes,
            most_cards(nodes, flavors),
        ),
        allocations=held,
        claims=list(claims.values()),
    )
    if but.clusters:
        parts = parts.exclude_delegated(but)
    pks = {device.uuid: device.pk for on_node in devices.values() for device in on_node}
    facts = Cell.unscoped.values_list("sharing", "lost_ppm", "workload").get(pk=cell_id)
    sharing, lost_ppm, workload = facts
    mix = engine.decode(em.TaskWorkload, workload)
    return CellReading(cell_id, parts, rows, pks, sharing, lost_ppm, mix)


@row_scope.whole()
def empty_snapshot(cell_id: uuid.UUID) -> engine.Snapshot:
    """Return a snapshot of a cell without jobs and allocations, to check what fits into the empty cell."""
    devices = devices_of(Device.unscoped.filter(node__cluster__cell_id=cell_id, node__present=True))
    queues = engine_queues(cell_id)  # before the tree, as above
    return engine.Snapshot(
        nodes=engine_nodes(cell_id, devices),
        flavors=engine_flavors(cell_id),
        quota_nodes=engine_quota_nodes(cell_id),
        queues=queues,
    )
