"""Allocated, owned, pending and used amounts, summed from rows without any selector of the product."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property

from clusters.models import Device, Flavor, Node
from foundation.core.quantities import Resource
from quotas.models import Queue, Quota, QuotaNode
from scheduling.models import Allocation, DeviceSlice, Job
from tenants.models import Tenant
from tests.truth.pages.installations import Installation, is_below
from tests.truth.pages.lending import Lending

PENDING = {"queued"}
RUNNING = {"admitted", "starting", "running"}


class Ledger:
    """The sums of one installation at one instant. GPUs are counted in hundredths."""

    def __init__(self, made: Installation) -> None:
        self._made = made
        self._tenants = {tenant.pk: tenant for tenant in Tenant.unscoped.all()}
        self._nodes = {node.pk: node for node in QuotaNode.unscoped.all()}
        self._slices = [
            (row, row.allocation, row.allocation.attempt.job)
            for row in DeviceSlice.unscoped.filter(allocation__released_at=None).select_related(
                "allocation__attempt__job__queue", "device"
            )
        ]
        self._lendings: dict[uuid.UUID, Lending] = {}
        self.jobs = list(Job.unscoped.select_related("queue", "workspace", "submitted_by"))

    def jobs_of(self, workspace: Tenant) -> list[Job]:
        """The jobs of a workspace."""
        return [job for job in self.jobs if job.workspace_id == workspace.pk]

    def pending(self, tenant: Tenant) -> int:
        """Return how many jobs are pending at or below a tenant."""
        return sum(job.state in PENDING and is_below(job.workspace, tenant) for job in self.jobs)

    def asked_gpus(self, tenant: Tenant, pool: Flavor) -> int:
        """The GPUs of pending jobs at and below a tenant that a pool suits."""
        return sum(
            role.replicas * role.gpu_cards
            for job in self.jobs
            if job.state in PENDING and is_below(job.workspace, tenant)
            for role in job.roles.all()
            if role.gpu_mode in ("whole", pool.gpu_mode)
        )

    def asked_of_nodes(self, tenant: Tenant, pool: Flavor) -> dict[str, float]:
        """The cores and GiB of pending jobs at and below a tenant that a pool suits, by column."""
        roles = [
            role
            for job in self.jobs
            if job.state in PENDING and is_below(job.workspace, tenant)
            for role in job.roles.all()
            if not role.gpu_cards or role.gpu_mode in ("whole", pool.gpu_mode)
        ]
        return {
            "CPU cores": sum(role.replicas * role.cpu_millicores for role in roles) / 1000,
            "Memory GiB": sum(role.replicas * role.memory_mib for role in roles) / 1024,
        }

    def running(self, workspace: Tenant) -> int:
        """Return how many jobs of a workspace run or start."""
        return sum(job.state in RUNNING for job in self.jobs_of(workspace))

    def queue_jobs(self, queue: Queue) -> tuple[int, int]:
        """Return how many jobs of a queue are pending, and how many run or start."""
        states = [job.state for job in self.jobs if job.queue_id == queue.pk]
        return sum(state in PENDING for state in states), sum(state in RUNNING for state in states)

    def reserved(self, tenant: Tenant, pool: Flavor) -> int:
        """Return what the jobs at and below a tenant hold of a pool."""
        return sum(
            row.cores
            for row, allocation, job in self._slices
            if allocation.flavor_id == pool.pk and is_below(self._tenants[job.workspace_id], tenant)
        )

    def memory_reserved(self, tenant: Tenant, pool: Flavor) -> int:
        """The GPU memory that the jobs at and below a tenant hold of a pool, in MiB."""
        return sum(
            row.memory_mib
            for row, allocation, job in self._slices
            if allocation.flavor_id == pool.pk and is_below(self._tenants[job.workspace_id], tenant)
        )

    def queue_reserved(self, queue: Queue) -> int:
        """Return what the jobs of a queue hold."""
        return sum(row.cores for row, _allocation, job in self._slices if job.queue_id == queue.pk)

    def on_device(self, device: Device) -> int:
        """Return what is held of a GPU."""
        return sum(row.cores for row, _allocation, _job in self._slices if row.device_id == device.pk)

    def tenants_on(self, device: Device) -> set[str]:
        """The workspaces whose jobs hold a part of a GPU."""
        return {
            self._tenants[job.workspace_id].name
            for row, _allocation, job in self._slices
            if row.device_id == device.pk
        }

    def held_by_workspace(self) -> dict[str, tuple[int, int, int]]:
        """Return the GPUs of each workspace that holds any: hundredths, whole GPUs, slices."""
        found: dict[str, tuple[int, int, int]] = {}
        for row, _allocation, job in self._slices:
            cores, whole, slices = found.get(self._tenants[job.workspace_id].name, (0, 0, 0))
            found[self._tenants[job.workspace_id].name] = (
                cores + row.cores, whole + row.exclusive, slices + (not row.exclusive),
            )  # fmt: skip
        return found

    def memory_on(self, node: Node) -> int:
        """The GPU memory that is held on a node, in MiB."""
        return sum(row.memory_mib for row, _allocation, _job in self._slices if row.device.node_id == node.pk)

    def pods_on(self, node: Node) -> int:
        """Return how many pods of jobs are on a node."""
        return Allocation.unscoped.filter(node=node, released_at=None).count()

    def _below(self, node: QuotaNode) -> Iterable[QuotaNode]:
        yield node
        for child in self._nodes.values():
            if child.parent_id == node.pk:
                yield from self._below(child)

    def node_of(self, tenant: Tenant) -> QuotaNode:
        """The node of a tenant in the quota tree."""
        [node] = [one for one in self._nodes.values() if one.tenant_id == tenant.pk and not one.is_queue]
        return node

    @cached_property
    def _own(self) -> dict[tuple[uuid.UUID, uuid.UUID], int | None]:
        rows = Quota.unscoped.filter(resource=Resource.GPU_CORES.value)
        return {(row.node_id, row.flavor_id): row.own_nominal for row in rows}

    def nominal(self, node: QuotaNode, pool: Flavor) -> int | None:
        """The own nominal of a node and of all nodes below it; None as soon as one is unlimited."""
        found = [self._own.get((one.pk, pool.pk), 0) for one in self._below(node)]
        return None if None in found else sum(amount for amount in found if amount is not None)

    def unassigned(self, tenant: Tenant, pool: Flavor) -> int | None:
        """Return the part of a tenant's nominal that no child has."""
        return self._own.get((self.node_of(tenant).pk, pool.pk), 0)

    def borrowed(self, tenant: Tenant, pool: Flavor) -> int:
        """Return what is held of the quota of others."""
        return self._lending(pool).borrowed(self.node_of(tenant).pk)

    def spare(self, tenant: Tenant, pool: Flavor) -> int | None:
        """Return the part of the nominal that the tenant doesn't hold itself."""
        nominal = self.nominal(self.node_of(tenant), pool)
        held = self.reserved(tenant, pool) - self.borrowed(tenant, pool)
        return None if nominal is None else max(0, nominal - held)

    def lendable(self, tenant: Tenant, pool: Flavor) -> int:
        """Return the part of the nominal that others may hold."""
        return self._lending(pool).lendable(self.node_of(tenant).pk)

    def _lending(self, pool: Flavor) -> Lending:
        if pool.pk not in self._lendings:
            self._lendings[pool.pk] = Lending(pool)
        return self._lendings[pool.pk]

    def gpu_seconds(self, until: datetime, workspace: Tenant | None = None) -> Counter[str]:
        """The GPU-seconds from admission to release by user, up to an instant."""
        found: Counter[str] = Counter()
        for row in DeviceSlice.unscoped.select_related("allocation__attempt__job__submitted_by"):
            held, job = row.allocation, row.allocation.attempt.job
            if workspace is None or job.workspace_id == workspace.pk:
                end = min(held.released_at or until, until)
                seconds = (end - held.attempt.admitted_at).total_seconds()
                found[job.submitted_by.username] += row.cores * seconds / 100  # type: ignore[assignment]
        return found
