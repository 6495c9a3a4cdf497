"""Reads jobs on behalf of a viewer."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import Count, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.reasons import Reason
from foundation.sql import keyset
from foundation.sql.prepared import PreparedQuery
from foundation.sql.products import multiply_columns
from foundation.web.listing import Column, ColumnCondition, ColumnKind
from quotas.models import Queue
from scheduling.models import (
    HOLDING_STATES,
    PENDING_STATES,
    Allocation,
    Claim,
    Job,
    JobDeletion,
    JobRole,
    JobState,
    PriorityClass,
)
from scheduling.selectors.jobs.deleted import NOT_DELETED
from scheduling.selectors.jobs.job_sight import jobs_below, jobs_in_pools, jobs_in_sight
from scheduling.selectors.jobs.job_tag import jobs_tagged
from scheduling.selectors.jobs.name_search import having_part
from scheduling.selectors.pending.queue_order import read_queue_order
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

SORTS: Final = ("submitted_at", "name", "priority", "state")
DEFAULT_SORT: Final = "-submitted_at"
COLUMNS: Final = {
    "id": Column("id", ColumnKind.ID),
    "name": Column("name"),
    "kind": Column("kind"),
    "state": Column("state"),
    "reason": Column("reason"),
    "queue": Column("queue.name"),
    "priority": Column("priority", ColumnKind.NUMBER),
    "priority_class": Column("priority_class.name"),
    "tags": Column("tags", ColumnKind.LIST, sortable=False),
    "preemptible": Column("preemptible", ColumnKind.FLAG),
    "submitted_by": Column("submitted_by.username"),
    "attempt": Column("attempt_number", ColumnKind.NUMBER),
    "end_reason": Column("end_reason"),
    "submitted_at": Column("submitted_at", ColumnKind.TIME),
    "admitted_at": Column("admitted_at", ColumnKind.TIME),
    "started_at": Column("started_at", ColumnKind.TIME),
    "finished_at": Column("finished_at", ColumnKind.TIME),
}
"""The columns by which a list of jobs can be filtered."""
ALL_COLUMNS: Final = {**COLUMNS, "workspace": Column("workspace.slug")}
"""The columns by which a list of the jobs of several workspaces can be filtered."""
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
_NAMED: Final[dict[str, PreparedQuery[tuple[uuid.UUID]]]] = {
    "queue__name": PreparedQuery(
        lambda workspace, name: (
            Queue.unscoped.filter(workspace=workspace, name=name).order_by().values_list("pk")
        )
    ),
    "submitted_by__username": PreparedQuery(
        lambda name: User.objects.filter(username=name).order_by().values_list("pk")
    ),
    "priority_class__name": PreparedQuery(
        lambda name: PriorityClass.unscoped.filter(name=name).order_by().values_list("pk")
    ),
    "workspace__slug": PreparedQuery(
        lambda name: Tenant.unscoped.filter(slug=name).order_by().values_list("pk")
    ),
}
_COUNT_LIVE: Final = PreparedQuery(
    lambda workspace: (
        Job.unscoped.filter(workspace=workspace, state__in=(*PENDING_STATES, *HOLDING_STATES))
        .order_by()
        .values_list("workspace_id")
        .annotate(count=Count("pk"))
    )
)
_FEW: Final = 200
_NO_USER: Final = uuid.UUID(int=0)
"""A key that no row has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """The filters of a list of jobs. `name` matches anywhere, `submitted_by` is a user name.

    `gpu_model` is one that a role requests or that a task holds now. `tenant` is the slug or the name of a
    workspace or of a folder with all its descendants. `cluster` and `flavor` are names; they select the jobs
    that ran there last, and pending jobs that may start there. `conditions` are further ones on `COLUMNS`, or
    on `ALL_COLUMNS` across workspaces. `deleted`: True selects deleted jobs only, None all jobs. `resolved`
    is the condition that `resolve_filters` builds.
    """

    states: Sequence[str] = ()
    kinds: Sequence[str] = ()
    queue: str = ""
    name: str = ""
    submitted_by: str = ""
    gpu_model: str = ""
    tenant: str = ""
    cluster: str = ""
    flavor: str = ""
    mine: bool = False
    deleted: bool | None = False
    conditions: Sequence[ColumnCondition] = ()
    resolved: Q | None = None


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
    *, viewer: Actor, workspace: Tenant | None = None, filters: JobFilter = JobFilter()
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


def resolve_filters(*, viewer: Actor, workspace: Tenant | None, filters: JobFilter) -> JobFilter:
    """Return the filters with their condition, so that it is built once for all queries of a request.

    States and deletion may be changed in the result, because the condition does not include them.

    Raises: NotFound, PermissionDenied.
    """
    _find_sight(viewer, workspace)
    return replace(filters, resolved=_look_up(filters, viewer, workspace))


def _find_jobs(viewer: Actor, workspace: Tenant | None, filters: JobFilter) -> QuerySet[Job]:
    return Job.unscoped.filter(_find_sight(viewer, workspace), _matching(filters, viewer, workspace))


def _find_sight(viewer: Actor, workspace: Tenant | None) -> Q:
    if workspace is None:
        permissions.require_above_workspaces(viewer, Permission.JOB_VIEW)
        return jobs_in_sight(viewer)
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    return Q(workspace=workspace)


def _matching(filters: JobFilter, viewer: Actor, workspace: Tenant | None) -> Q:
    match = Q() if filters.deleted is None else NOT_DELETED
    if filters.deleted:
        match = Q(deletion__isnull=False)
    if filters.states:
        match &= Q(state__in=list(filters.states))
    resolved = filters.resolved
    return match & (_look_up(filters, viewer, workspace) if resolved is None else resolved)


def _look_up(filters: JobFilter, viewer: Actor, workspace: Tenant | None) -> Q:
    """Return the condition for all filters except states and deletion."""
    match = Q()
    if filters.kinds:
        match &= Q(kind__in=list(filters.kinds))
    if filters.queue:
        match &= _named("queue__name", filters.queue, workspace)
    if filters.name:
        match &= having_part(filters.name, workspace)
    if filters.submitted_by:
        match &= _named("submitted_by__username", filters.submitted_by, workspace)
    if filters.gpu_model:
        match &= _with_model(filters.gpu_model, workspace)
    if filters.tenant:
        match &= jobs_below(viewer, filters.tenant)
    if filters.cluster or filters.flavor:
        match &= jobs_in_pools(filters.cluster, filters.flavor)
    if filters.mine:
        match &= Q(submitted_by_id=viewer.pk)
    for condition in filters.conditions:
        match &= _meeting(condition, workspace)
    return match


def _meeting(condition: ColumnCondition, workspace: Tenant | None) -> Q:
    lookup = condition.column.lookup
    if condition.column.kind is ColumnKind.LIST:
        return jobs_tagged(condition, workspace)
    if lookup in _NAMED and condition.operator == "==":
        return _named(lookup, condition.value, workspace)
    return condition.as_query()


def _with_model(model: str, workspace: Tenant | None) -> Q:
    """Return the condition for jobs that request or hold GPUs of that model."""
    inside = {} if workspace is None else {"job__workspace": workspace}
    # Most roles name no model; the index `role_with_models` contains the others.
    naming = JobRole.unscoped.filter(~Q(gpu_models=[]), **inside)
    text = naming.annotate(models_text=Cast("gpu_models", TextField()))
    asking = text.filter(models_text__contains=json.dumps(model)).order_by().values_list("job_id", flat=True)
    holding = Allocation.unscoped.filter(
        **{f"attempt__{name}": value for name, value in inside.items()},
        flavor__card_model=model,
        released_at__isnull=True,
    )
    held = holding.order_by().values_list("attempt__job_id", flat=True)
    if len(asking[: _FEW + 1]) <= _FEW:
        return Q(pk__in=held.union(asking))
    # Two separate subqueries let the database look up jobs in the order of a page; it would join and sort a
    # union.
    return Q(pk__in=asking) | Q(pk__in=held)


def _named(lookup: str, name: str, workspace: Tenant | None) -> Q:
    """Return the condition for jobs that refer to an object of that name, by its key, so that a page is read
    from an index in its order, and an unknown name needs no search."""
    if lookup == "queue__name" and workspace is None:
        return Q(queue__name=name)  # each workspace may have a queue of that name
    scope = [workspace.pk] if lookup == "queue__name" and workspace is not None else []
    field, found = lookup.partition("__")[0], [key for (key,) in _NAMED[lookup](*scope, name)]
    if len(found) > 1:
        return Q(**{f"{field}__in": found})  # an open queue, and closed ones of the same name
    return Q(**{field: found[0] if found else _NO_USER})


def job_list(
    *,
    viewer: Actor,
    workspace: Tenant | None = None,
    filters: JobFilter = JobFilter(),
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
