"""Conditions on jobs of several workspaces: visible to a viewer, or of a tenant, a cluster or a pool."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from quotas.models import QueueFlavor
from scheduling.models import PENDING_STATES, Allocation, Job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant
from tenants.selectors.tenant import tenants_named

_FEW: Final = 2_000
"""The number of allocations up to which a query by attempt number may read all of them."""
_CLUSTERS: Final[PreparedQuery[tuple[uuid.UUID, str]]] = PreparedQuery(
    lambda jobs: (
        Allocation.unscoped.filter(
            attempt__job__pk__any_of=jobs, attempt__number=F("attempt__job__attempt_number")
        )
        .order_by("flavor__cluster__name")
        .values_list("attempt__job_id", "flavor__cluster__name")
        .distinct()
    )
)
"""The clusters of the allocations of the latest attempt of each job, released or not."""


def jobs_in_sight(viewer: Actor) -> Q:
    """Return the condition for jobs of all workspaces whose jobs the viewer may see."""
    if permissions.has_permission(viewer, Permission.JOB_VIEW):
        return Q()
    return Q(workspace__in=permissions.tenants_with(viewer, Permission.JOB_VIEW).values("pk"))


@dataclass(frozen=True, slots=True)
class JobsBySight:
    """Jobs that the viewer may see, the number of other jobs by visible tenant, and the number of the
    rest."""

    seen: Sequence[Job]
    by_tenant: Mapping[str, int]
    rest: int


def split_by_sight(viewer: Actor, jobs: Sequence[Job]) -> JobsBySight:
    """Return what the viewer may know about jobs of any workspaces, which are selected with the jobs."""
    workspaces = {job.workspace_id: job.workspace for job in jobs}
    open_to = {
        pk for pk, each in workspaces.items() if permissions.has_permission(viewer, Permission.JOB_VIEW, each)
    }
    in_sight = permissions.visible_tenants(viewer).filter(pk__in=workspaces.keys() - open_to)
    names = dict(in_sight.values_list("pk", "name"))
    hidden = [job for job in jobs if job.workspace_id not in open_to]
    return JobsBySight(
        [job for job in jobs if job.workspace_id in open_to],
        Counter(names[job.workspace_id] for job in hidden if job.workspace_id in names),
        sum(job.workspace_id not in names for job in hidden),
    )


def jobs_below(viewer: Actor, text: str) -> Q:
    """Return the condition for jobs of a workspace, or of all workspaces below a folder, with this slug or
    else this name; no job if the viewer sees no such tenant.
    """
    below = Q(pk__in=[])
    for tenant in tenants_named(viewer=viewer, text=text):
        below |= Q(path__startswith=tenant.path)
    return Q(workspace__in=Tenant.unscoped.filter(below).values("pk"))


def jobs_in_pools(cluster: str, flavor: str) -> Q:
    """Return the condition for jobs whose latest attempt has or had allocations in such a pool, and for
    pending jobs whose queue may use one."""
    names = {"cluster__name": cluster, "name": flavor}
    pools = list(
        Flavor.unscoped.filter(**{field: name for field, name in names.items() if name})
        .order_by()
        .values_list("pk", flat=True)
    )
    usable = QueueFlavor.unscoped.filter(queue=OuterRef("queue"), flavor__in=pools)
    latest = Allocation.unscoped.filter(attempt__job=OuterRef("pk"), flavor__in=pools)
    if Allocation.unscoped.filter(flavor__in=pools)[: _FEW + 1].count() <= _FEW:
        latest = latest.filter(attempt__number=OuterRef("attempt_number"))
    else:
        # No attempt has a higher number. With an equality PostgreSQL would read all allocations, although a
        # page needs those of a few jobs only.
        latest = latest.filter(attempt__number__gte=OuterRef("attempt_number"))
    return (Q(state__in=PENDING_STATES) & Q(Exists(usable))) | Q(Exists(latest))


def job_clusters(*, viewer: Actor, jobs: Collection[Job]) -> Mapping[uuid.UUID, Sequence[str]]:
    """Return the names of the clusters of each job's latest attempt, by job id; pending jobs are absent.

    The jobs have their workspaces selected. Raises: NotFound, PermissionDenied.
    """
    for workspace in {job.workspace_id: job.workspace for job in jobs}.values():
        permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    started = [job.pk for job in jobs if job.state not in PENDING_STATES]
    found: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for job, name in _CLUSTERS.for_any(started):
        found[job].append(name)
    return found


def job_pools(*, viewer: Actor) -> QuerySet[Flavor]:
    """Return the pools that visible jobs can use, with their clusters, by name."""
    pools = Flavor.unscoped.select_related("cluster").order_by("name", "cluster__name")
    if permissions.has_permission(viewer, Permission.JOB_VIEW):
        return pools
    seen = permissions.tenants_with(viewer, Permission.JOB_VIEW).values("pk")
    return pools.filter(
        pk__in=QueueFlavor.unscoped.filter(queue__workspace__in=seen).order_by().values("flavor_id")
    )


def visible_job_names(viewer: Actor, ids: Collection[str]) -> dict[str, str]:
    """Return the names of those of these jobs that the viewer may see, by id."""
    rows = Job.unscoped.filter(jobs_in_sight(viewer), pk__in=ids)
    return {str(pk): name for pk, name in rows.values_list("pk", "name")}
