"""The details of each job in a list, for all rows of a page at once."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from django.db.models import Count, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from foundation.sql.products import multiply_columns
from quotas.models import Queue
from scheduling.models import (
    HOLDING_STATES,
    PENDING_STATES,
    RUNNING_STATES,
    WAITING_STATES,
    Allocation,
    Job,
    JobState,
    Task,
    TaskState,
)
from scheduling.selectors.jobs.deleted import NOT_DELETED
from scheduling.selectors.jobs.job import job_query
from scheduling.selectors.jobs.job_filter import JobFilter
from scheduling.selectors.pending.queue_order import read_queue_order
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_Name = TypeVar("_Name", str, tuple[str, str])
_TASKS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda jobs: (
        Task.unscoped.filter(job__pk__any_of=jobs)
        .order_by()
        .values_list("job_id")
        .annotate(total=Count("pk"), up=Count("pk", filter=Q(state=TaskState.RUNNING)))
    )
)
_HELD: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda jobs: (
        Allocation.unscoped.filter(attempt__job__pk__any_of=jobs, released_at__isnull=True)
        .order_by("node__name", "node__cluster__name", "flavor__name")
        .values_list("attempt__job_id", "node__name", "node__cluster__name", "flavor__name")
        .annotate(cards=Sum("task__role__gpu_cards"))
    )
)


@dataclass(slots=True)
class JobListRow:
    """The tasks of a job and how many run, where it has allocations, and its position in its queue, from 1.

    Nodes are (cluster, name); `cards` counts the GPUs, physical or virtual, that its tasks hold.
    """

    tasks: int = 0
    running: int = 0
    cards: int = 0
    nodes: list[tuple[str, str]] = field(default_factory=list)
    flavors: list[str] = field(default_factory=list)
    position: int | None = None


@dataclass(frozen=True, slots=True)
class JobStateCounts:
    """The numbers of jobs that aren't deleted, by state; states without any are 0, states not counted are
    absent.

    `deleted` counts deleted jobs in any state; None if they are not counted.
    """

    by_state: Mapping[str, int]
    deleted: int | None

    def count_in(self, states: Iterable[str]) -> int | None:
        """Count the jobs in some states; None if one of them is not counted."""
        counts = [self.by_state.get(state) for state in states]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True)
class QueueWork:
    """The numbers of jobs of one queue: pending (and since when), running, and failed lately."""

    waiting: int
    oldest_waiting_at: datetime | None
    running: int
    failed: int


def job_rows(*, viewer: Actor, jobs: Collection[Job]) -> dict[uuid.UUID, JobListRow]:
    """Return one row for each job, in five queries at most. The jobs have their workspaces selected.

    Raises: NotFound, PermissionDenied.
    """
    for workspace in {job.workspace_id: job.workspace for job in jobs}.values():
        permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    rows = {job.pk: JobListRow() for job in jobs}
    for job_id, total, up in _TASKS.for_any(list(rows)):
        rows[job_id].tasks, rows[job_id].running = total, up
    for job_id, node, cluster, flavor, cards in _HELD.for_any(list(rows)):
        _append(rows[job_id].nodes, (cluster, node))
        _append(rows[job_id].flavors, flavor)
        rows[job_id].cards += cards
    queued = {job.pk: job.queue_id for job in jobs if job.state == JobState.QUEUED}
    if queued:
        order = read_queue_order(set(queued.values()))
        for job_id, place in order.find_places(queued).items():
            rows[job_id].position = place
    return rows


def _append(names: list[_Name], name: _Name) -> None:
    if name not in names:
        names.append(name)


def job_state_counts(*, viewer: Actor, workspace: Tenant | None, filters: JobFilter) -> JobStateCounts:
    """Count the jobs of `job_query` in each state; the filters' own states and deletion do not apply.

    With a cluster or a pool, terminal and deleted jobs are not counted, because the allocations of each would
    be looked up. Raises: NotFound, PermissionDenied.
    """

    jobs = job_query(viewer=viewer, workspace=workspace, filters=replace(filters, states=(), deleted=None))
    if filters.cluster or filters.flavor:
        live = (*WAITING_STATES, *HOLDING_STATES)
        every = _count_by_state(jobs.filter(state__in=live))
        return JobStateCounts({state.value: every[state] for state in live}, None)
    # Deleted jobs are few and counted separately: a look-up for each other job would take most of the time.
    every, deleted = _count_by_state(jobs), _count_by_state(jobs.filter(deletion__isnull=False))
    return JobStateCounts({state.value: every[state] - deleted[state] for state in JobState}, deleted.total())


def _count_by_state(jobs: QuerySet[Job]) -> Counter[str]:
    return Counter(dict(jobs.order_by().values_list("state").annotate(count=Count("*"))))


def count_holding(*, viewer: Actor, cluster_id: uuid.UUID | None) -> dict[tuple[str, str], int]:
    """Count the jobs of all tenants that hold resources, on one cluster if it is given, by state and type.

    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    jobs = Job.unscoped.filter(state__in=HOLDING_STATES)
    if cluster_id is not None:
        held = Allocation.unscoped.filter(node__cluster=cluster_id, released_at__isnull=True)
        jobs = jobs.filter(pk__in=held.values("attempt__job"))
    rows = jobs.order_by().values_list("state", "kind").annotate(count=Count("*"))
    return {(state, kind): count for state, kind, count in rows}


def queue_work(*, viewer: Actor, workspace: Tenant, failed_since: datetime) -> dict[uuid.UUID, QueueWork]:
    """Return the numbers of jobs by queue id; queues without any are absent.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    return _count_work(Job.unscoped.filter(workspace=workspace), failed_since)


def queues_work(
    *, viewer: Actor, queues: Collection[Queue], failed_since: datetime
) -> dict[uuid.UUID, QueueWork]:
    """Return the numbers of jobs by queue id, for queues whose jobs the viewer may see; 0 for empty
    queues."""
    seen = [
        queue.pk
        for queue in queues
        if permissions.has_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    ]
    none = QueueWork(0, None, 0, 0)
    return dict.fromkeys(seen, none) | _count_work(Job.unscoped.filter(queue__in=seen), failed_since)


def _count_work(jobs: QuerySet[Job], failed_since: datetime) -> dict[uuid.UUID, QueueWork]:
    waiting = Q(state__in=PENDING_STATES)
    # Most jobs have ended; their rows are not read.
    counted = jobs.filter(state__in=(*PENDING_STATES, *RUNNING_STATES, JobState.FAILED))
    rows = counted.order_by().values_list("queue_id")
    return {
        queue_id: QueueWork(*values)
        for queue_id, *values in rows.annotate(
            waiting=Count("pk", filter=waiting),
            oldest=Min(Coalesce("queued_at", "submitted_at"), filter=waiting),
            running=Count("pk", filter=Q(state__in=RUNNING_STATES)),
            failed=Count("pk", filter=Q(state=JobState.FAILED, finished_at__gte=failed_since) & NOT_DELETED),
        )
    }


def job_latest(*, viewer: Actor, workspace: Tenant, limit: int) -> Sequence[Job]:
    """Return the newest jobs of a workspace.

    Raises: NotFound, PermissionDenied.
    """
    return list(job_query(viewer=viewer, workspace=workspace).order_by("-submitted_at", "-pk")[:limit])


def job_holding_compute(*, viewer: Actor, workspace: Tenant) -> dict[uuid.UUID, int]:
    """Return the compute that each job of a workspace with allocations requests, in percent points of a GPU;
    the largest first.

    Raises: NotFound, PermissionDenied.
    """
    filters = JobFilter(states=HOLDING_STATES)
    jobs = job_query(viewer=viewer, workspace=workspace, filters=filters).order_by()
    asked = Sum(multiply_columns("roles__replicas", "roles__gpu_cards", "roles__gpu_cores"))
    rows = jobs.values_list("pk").annotate(asked=Coalesce(asked, 0))
    return dict(sorted(rows, key=lambda row: (-row[1], str(row[0]))))


def job_by_ids(*, viewer: Actor, workspace: Tenant, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Job]:
    """Return some jobs of a workspace by id.

    Raises: NotFound, PermissionDenied.
    """
    return job_query(viewer=viewer, workspace=workspace).in_bulk(ids)
