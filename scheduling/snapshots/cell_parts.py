"""Snapshots for cells of which another engine decides a part: without that part, or to place its
admissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusters.models import Cluster, Device
from foundation.sql import row_scope
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.jobs import watched_workspaces
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.models import Allocation, DeviceSlice, Job
from scheduling.snapshots.cell_snapshot import CellSnapshot, names_in
from scheduling.snapshots.delegated import DelegatedScope
from scheduling.snapshots.holds import allocations_of
from scheduling.snapshots.inventory import devices_of, engine_flavors, engine_nodes, with_tasks
from scheduling.snapshots.jobs import apply_claims


@dataclass(frozen=True, slots=True)
class Seeker:
    """A job that another engine admitted, with a queue and a quota node made for it."""

    job: em.Job
    queue: em.Queue
    quota: em.QuotaNode


@dataclass(frozen=True, slots=True)
class CellParts:
    """The parts of an engine snapshot that may be delegated to another engine."""

    nodes: Sequence[em.Node]
    flavors: Sequence[em.Flavor]
    quota_nodes: Sequence[em.QuotaNode]
    queues: Sequence[em.Queue]
    jobs: Sequence[em.Job]
    allocations: Sequence[em.Allocation]
    claims: Sequence[em.Claim]

    def exclude_delegated(self, elsewhere: DelegatedScope) -> CellParts:
        """Return the parts without delegated clusters and queues; other queues lose the clusters' flavors."""
        clusters, theirs = set(map(str, elsewhere.clusters)), set(map(str, elsewhere.queues))
        nodes = [node for node in self.nodes if node.cluster not in clusters]
        flavors = [flavor for flavor in self.flavors if flavor.cluster not in clusters]
        jobs = [job for job in self.jobs if job.queue not in theirs]
        waiting, node_ids = {job.id for job in jobs}, {node.id for node in nodes}
        usable = {flavor.id for flavor in flavors}
        return CellParts(
            nodes=nodes,
            flavors=flavors,
            quota_nodes=[
                replace(
                    node,
                    quotas=tuple(quota for quota in node.quotas if quota.flavor in usable),
                    usage=tuple(charge for charge in node.usage if charge.flavor in usable),
                )
                for node in self.quota_nodes
            ],
            queues=[
                replace(queue, flavors=tuple(flavor for flavor in queue.flavors if flavor in usable))
                for queue in self.queues
                if queue.id not in theirs
            ],
            jobs=jobs,
            allocations=[held for held in self.allocations if held.node in node_ids],
            claims=[claim for claim in self.claims if claim.job in waiting],
        )


@row_scope.whole()
def placement_snapshot(cluster: Cluster, seekers: Sequence[Seeker], jobs: Mapping[str, Job]) -> CellSnapshot:
    """Return a snapshot of one cluster, to place the jobs that another engine has admitted there.

    Each job has its own queue and quota, with exactly what it was admitted to.
    """
    own = str(cluster.pk)
    devices = devices_of(Device.unscoped.filter(node__cluster=cluster, node__present=True))
    nodes = [node for node in engine_nodes(cluster.cell_id, devices) if node.cluster == own]
    watched = watched_workspaces((job.workspace_id, job.placement) for job in jobs.values())
    live = Allocation.unscoped.filter(node__cluster=cluster, node__present=True, released_at__isnull=True)
    slices = DeviceSlice.unscoped.filter(released=False, allocation__node__cluster=cluster)
    held = list(allocations_of(live, slices, watched).values())
    mounted = ClaimReader(cluster.cell_id, jobs.values())
    snapshot = engine.Snapshot(
        nodes=with_tasks(nodes, held),
        flavors=[flavor for flavor in engine_flavors(cluster.cell_id) if flavor.cluster == own],
        quota_nodes=[seeker.quota for seeker in seekers],
        queues=[seeker.queue for seeker in seekers],
        jobs=apply_claims(mounted, [seeker.job for seeker in seekers], jobs),
        allocations=held,
    )
    keys = {device.uuid: device.pk for rows in devices.values() for device in rows}
    return CellSnapshot(snapshot, jobs, keys, names_in(cluster.cell_id))
