"""The tenants and jobs that hold what a pending job lacks: amounts by tenant that add up to the pool."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import Flavor, GpuMode
from clusters.selectors.pool_parts import read_pool_parts
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from foundation.core.reason_row import Gate
from foundation.core.reasons import find_reason
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tables.quota_sums import QuotaSums
from scheduling.models import Allocation, Job
from scheduling.selectors.pending.pending import flavor_suits
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

POOLS: Final = 2
TENANTS: Final = 10
JOBS: Final = 5
_GATES: Final = (Gate.TURN, Gate.QUOTA, Gate.COHORT, Gate.ROOM, Gate.PREEMPTION)
"""The gates at which a job waits for amounts that other jobs hold."""


@dataclass(frozen=True, slots=True)
class TenantHold:
    """The amount that the jobs of a workspace hold; `tenant` is None for the sum of all that are not named.

    `borrowed` is the borrowed part of `amount`.
    """

    tenant: Tenant | None
    amount: int
    borrowed: int

    @property
    def nominal(self) -> int:
        """The part of the amount within the nominal quota."""
        return self.amount - self.borrowed


@dataclass(frozen=True, slots=True)
class JobHold:
    """The amount that a job of the reader's workspace holds."""

    job_id: uuid.UUID
    name: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHolders:
    """One pool in one resource, in its unit: `total` = the amounts of `tenants` + the other three parts.

    In `tenants` the job's workspace comes first, then the others by amount, the sum without a name last.
    `jobs` are the largest of the workspace, and `other_jobs` is the amount of its other jobs.
    """

    flavor: Flavor
    resource: Resource
    tenants: Sequence[TenantHold]
    jobs: Sequence[JobHold]
    other_jobs: int
    unmanaged: int
    unavailable: int
    free: int

    @property
    def held(self) -> int:
        """The amount that all tenants hold."""
        return sum(one.amount for one in self.tenants)

    @property
    def total(self) -> int:
        """The size of the pool."""
        return self.held + self.unmanaged + self.unavailable + self.free


def list_pool_holders(*, viewer: Actor, job: Job) -> list[PoolHolders]:
    """Return the holders of what a pending job lacks, by pool; empty if its reason is not a lack in a pool.

    Tenants have names if the viewer may see their quota. Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    reason = find_reason(job.reason)
    if not job.is_waiting or reason is None or reason.row.gate not in _GATES:
        return []
    return [_read_holders(viewer, job, flavor, resource) for flavor, resource in _find_lacking(job)]


def _find_lacking(job: Job) -> list[tuple[Flavor, Resource]]:
    """Return the pool and resource that the reason names, else the compute of pools that the job could
    use."""
    numbers = job.reason_numbers
    usable = [place.flavor for place in job.queue.queue_flavors.select_related("flavor__cluster")]
    named = [flavor for flavor in usable if flavor.name == numbers.get("flavor")]
    if named and numbers.get("resource") in set(Resource):
        return [(named[0], _countable(named[0], Resource(numbers["resource"])))]
    roles = [role for role in job.roles.all() if role.gpu_cards]
    if not roles:
        return [(flavor, Resource.CPU) for flavor in (named or usable)[:POOLS]]
    suits = [
        flavor
        for flavor in named or usable
        if any(flavor_suits(flavor, role.gpu_mode, role.gpu_models) for role in roles)
    ]
    return [(flavor, Resource.GPU_CORES) for flavor in suits[:POOLS]]


def _countable(flavor: Flavor, resource: Resource) -> Resource:
    """Return the resource in which a pool adds up: a pool of slices has no total number of GPUs, because each
    slice counts as one."""
    sliced = flavor.gpu_mode == GpuMode.SLICE and resource is Resource.GPU_CARDS
    return Resource.GPU_CORES if sliced else resource


def _read_holders(viewer: Actor, job: Job, flavor: Flavor, resource: Resource) -> PoolHolders:
    parts = read_pool_parts(flavor, resource)
    held = _read_held(flavor, resource)
    tenants = _name_tenants(viewer, job.workspace, held)
    jobs = _read_jobs(job.workspace, flavor, resource)
    shown = [JobHold(pk, name, amount) for (pk, name), amount in jobs.most_common(JOBS)]
    own, _borrowed = held.get(job.workspace.pk, (0, 0))
    rest = (
        parts.total - sum(amount for amount, _borrowed in held.values()) - parts.unmanaged - parts.unavailable
    )
    return PoolHolders(
        flavor=flavor,
        resource=resource,
        tenants=tenants,
        jobs=shown,
        other_jobs=max(0, own - sum(one.amount for one in shown)),
        unmanaged=parts.unmanaged,
        unavailable=parts.unavailable,
        free=max(0, rest),
    )


def _read_held(flavor: Flavor, resource: Resource) -> dict[uuid.UUID, tuple[int, int]]:
    """Return the reserved amount of each workspace, and its borrowed part."""
    sums = QuotaSums(flavor.cluster.cell_id, flavors=[flavor.pk], resources=[resource])
    of = sums.get_sums((flavor.pk, resource))
    workspaces = {place.parent_id for place in sums.places if place.is_queue}
    tenants = {sums.order.positions[one.pk]: one.tenant_id for one in sums.places if one.pk in workspaces}
    return {
        tenant: (of.reserved[position], of.borrowed[position])
        for position, tenant in tenants.items()
        if of.reserved[position]
    }


def _name_tenants(viewer: Actor, own: Tenant, held: Mapping[uuid.UUID, tuple[int, int]]) -> list[TenantHold]:
    """Return the amounts by visible tenant; `held` has the held amount of each and its borrowed part."""
    seen = {own.pk: own} | quota_tenants(viewer).in_bulk(list(held))
    named: list[TenantHold] = []
    others = Counter[str]()
    ranked = sorted(held.items(), key=lambda item: (item[0] != own.pk, -item[1][0], str(item[0])))
    for pk, (amount, borrowed) in ranked:
        if pk in seen and len(named) < TENANTS:
            named.append(TenantHold(seen[pk], amount, borrowed))
        else:
            others.update(amount=amount, borrowed=borrowed)
    if others["amount"]:
        named.append(TenantHold(None, others["amount"], others["borrowed"]))
    return named


def _read_jobs(workspace: Tenant, flavor: Flavor, resource: Resource) -> Counter[tuple[uuid.UUID, str]]:
    rows = Allocation.unscoped.filter(
        attempt__job__workspace=workspace, flavor=flavor, released_at__isnull=True
    )
    found: Counter[tuple[uuid.UUID, str]] = Counter()
    for pk, name, charge in rows.values_list("attempt__job_id", "attempt__job__name", "charge"):
        found[pk, name] += charge.get(resource.value, 0)
    return +found
