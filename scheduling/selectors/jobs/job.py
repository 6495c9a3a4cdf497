"""Reads jobs on behalf of a viewer."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import Count, QuerySet, Sum
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.reasons import Reason
from foundation.sql import keyset
from foundation.sql.prepared import PreparedQuery
from foundation.sql.products import multiply_columns
from scheduling.models import (
    HOLDING_STATES,
    PENDING_STATES,
    Claim,
    Job,
    JobDeletion,
    JobRole,
    JobState,
)
from scheduling.selectors.jobs.deleted import NOT_DELETED
from scheduling.selectors.jobs.job_filter import NO_FILTERS, JobFilter, find_sight, match_filters
from scheduling.selectors.pending.queue_order import read_queue_order
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

SORTS: Final = ("submitted_at", "name", "priority", "state")
DEFAULT_SORT: Final = "-submitted_at"
_SHOWN: Final = ("queue", "submitted_by", "priority_class", "deletion")
_OF_A_ROW: Final = ("queue", "workspace", "submitted_by", "priority_class")
_ROWS: Final = PreparedQuery(
    lambda keys: (
        Job.unscoped.filter(pk__any_of=keys)
        .order_by()
        .annotate(
            cards=Sum(multiply_columns("roles__replicas", "roles__gpu_cards")), asked=Sum("roles__replicas")
        )
        .values_list(
            *("pk", "name", "kind", "state", "reason", "reason_numbers", "reason_help", "reason_at"),
            *("workspace__slug", "queue__name", "priority_class__name", "tags", "preemptible"),
            *("submitted_by__username", "cards", "asked", "attempt_number", "end_reason"),
            *("submitted_at", "admitted_at", "started_at", "finished_at"),
        )
    )
)
_BY_ID: Final = PreparedQuery(
    lambda workspace, key: Job.unscoped.filter(workspace=workspace, pk=key).order_by().select_related(*_SHOWN)
)
_BY_NAME: Final = PreparedQuery(
    lambda workspace, name: (
        Job.unscoped.filter(NOT_DELETED, workspace=workspace, name=name)
        .order_by("-submitted_at", "-pk")
        .select_related(*_SHOWN)[:1]
    )
)
_BY_KEYS: Final = PreparedQuery(
    lambda keys: Job.unscoped.filter(pk__any_of=keys).order_by().select_related(*_OF_A_ROW)
)
_ROLES_BY_KEYS: Final = PreparedQuery(
    lambda keys: JobRole.unscoped.filter(job__pk__any_of=keys).order_by("position")
)
_ROLES: Final = PreparedQuery(lambda job: JobRole.unscoped.filter(job=job).order_by("position"))
_COUNT_LIVE: Final = PreparedQuery(
    lambda workspace: (
        Job.unscoped.filter(workspace=workspace, state__in=(*PENDING_STATES, *HOLDING_STATES))
        .order_by()
        .values_list("workspace_id")
        .annotate(count=Count("pk"))
    )
)


class JobRow(NamedTuple):
    """A job in a list; `cards` and `tasks` are the sums over its roles' requests."""

    id: uuid.UUID
    name: str
    kind: str
    state: str
    reason: str
    reason_numbers: dict[str, Any]
    reason_help: list[Any]
    reason_at: datetime | None
    workspace: str
    queue: str
    priority_class: str
    tags: list[str]
    preemptible: bool
    submitted_by: str
    cards: int
    tasks: int
    attempt: int
    end_reason: str
    submitted_at: datetime
    admitted_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Rows of a list; `next` is None at the end. Rows are not counted, because there may be millions."""

    items: list[JobRow]
    next: str | None


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a queued job in its queue, from 0, and the number of jobs and cards ahead, without
    names."""

    position: int
    waiting: int
    cards_ahead: int


def job_promised_until(*, job: Job) -> datetime | None:
    """Return the end of the claim of a pending job whose victims still terminate; None without a claim."""
    if job.reason != Reason.WAITING_FOR_PREEMPTED:
        return None
    return Claim.unscoped.filter(job=job).values_list("expires_at", flat=True).first()


def job_query(
    *, viewer: Actor, workspace: Tenant | None = None, filters: JobFilter = NO_FILTERS
) -> QuerySet[Job]:
    """Return the jobs of one workspace with the relations that a list shows; without a workspace, of all
    workspaces whose jobs the viewer may see, which needs a role above workspaces.

    Raises: NotFound, PermissionDenied.
    """
    jobs = _find_jobs(viewer, workspace, filters)
    return jobs.select_related(*_OF_A_ROW).prefetch_related("roles")


def job_by_keys(*, viewer: Actor, keys: Sequence[uuid.UUID]) -> list[Job]:
    """Return the jobs of these keys that the viewer may see, deleted or not, in no order, as from
    `job_query`.

    Lists read each page by its keys, so that they use one prepared statement.
    """
    found = _BY_KEYS.for_any(keys)
    roles: defaultdict[uuid.UUID, list[JobRole]] = defaultdict(list)
    for role in _ROLES_BY_KEYS.for_any(keys):
        roles[role.job_id].append(role)
    for job in found:
        job.have_roles(roles[job.pk])
    return [job for job in found if permissions.has_permission(viewer, Permission.JOB_VIEW, job.workspace)]


def _find_jobs(viewer: Actor, workspace: Tenant | None, filters: JobFilter) -> QuerySet[Job]:
    sight = find_sight(viewer=viewer, workspace=workspace)
    return Job.unscoped.filter(sight, match_filters(viewer=viewer, workspace=workspace, filters=filters))


def job_list(
    *,
    viewer: Actor,
    workspace: Tenant | None = None,
    filters: JobFilter = NO_FILTERS,
    sort: str = DEFAULT_SORT,
    cursor: str | None = None,
    limit: int = 50,
) -> JobPage:
    """Return one page of jobs; without a workspace, of all jobs that the viewer may see (see `job_query`).

    Raises: NotFound, PermissionDenied; Invalid for a bad cursor.
    """
    jobs = _find_jobs(viewer, workspace, filters)
    # Keys are read first, from an index only, and then the rows of this page: filtered-out rows are never
    # read.
    keys: Any = jobs.values_list("pk", sort.lstrip("-"), named=True)
    page, following = keyset.read_page(keys, sort=sort, cursor=cursor, limit=limit)
    found = {row[0]: JobRow._make(row) for row in _ROWS.for_any([key.pk for key in page])}
    return JobPage([found[key.pk] for key in page if key.pk in found], following)


def job_get(*, viewer: Actor, workspace: Tenant, ref: str) -> Job:
    """Return a job by id or name; of several jobs with that name the latest, which is the live one if any is.
    A deleted job is found by its id only, because records refer to it.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    pk = _as_uuid(ref)
    job = _BY_ID.fetch_first(workspace.pk, pk) if pk is not None else None
    if job is None:
        job = _BY_NAME.fetch_first(workspace.pk, ref)
    if job is None:
        raise NotFound(_("Job %(name)s not found.") % {"name": ref})
    job.workspace = workspace
    job.have_roles(_ROLES(job.pk))
    return job


def job_deleted_at(*, job: Job) -> datetime | None:
    """Return when a job was deleted; None for a job that was not."""
    deletion: JobDeletion | None = getattr(job, "deletion", None) if job.is_terminal else None
    return deletion.created_at if deletion else None


def _as_uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def job_position(*, job: Job) -> Position | None:
    """Return the position of a queued job in the engine's order (`queue_order`); None when not queued."""
    if job.state != JobState.QUEUED:
        return None
    found = read_queue_order([job.queue_id]).count_before(job)
    if found is None:
        return None
    waiting, before = found
    roles = JobRole.unscoped.filter(job__in=before.values("pk")).order_by()
    sums = roles.aggregate(
        jobs=Count("job", distinct=True), cards=Sum(multiply_columns("replicas", "gpu_cards"))
    )
    return Position(sums["jobs"], waiting, sums["cards"] or 0)


def count_live_jobs(*, viewer: Actor, workspace: Tenant) -> int:
    """Count the jobs of a workspace that are pending, or hold quota and devices.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    found = _COUNT_LIVE.fetch_first(workspace.pk)
    return found[1] if found else 0


def job_row(job: Job) -> JobRow:
    """Return the row of a list for a loaded job."""
    return JobRow(
        id=job.pk,
        name=job.name,
        kind=job.kind,
        state=job.state,
        reason=job.reason,
        reason_numbers=job.reason_numbers,
        reason_help=job.reason_help,
        reason_at=job.reason_at,
        workspace=job.workspace.slug,
        queue=job.queue.name,
        priority_class=job.priority_class.name,
        tags=list(job.tags),
        preemptible=job.preemptible,
        submitted_by=job.submitted_by.username,
        cards=job_cards(job),
        tasks=job_tasks_asked(job),
        attempt=job.attempt_number,
        end_reason=job.end_reason,
        submitted_at=job.submitted_at,
        admitted_at=job.admitted_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )


def job_cards(job: Job) -> int:
    """Return the number of cards that all tasks of a job request; uses prefetched roles."""
    return sum(role.replicas * role.gpu_cards for role in job.roles.all())


def job_tasks_asked(job: Job) -> int:
    """Return the number of tasks of a job at its full size; uses prefetched roles."""
    return sum(role.replicas for role in job.roles.all())
