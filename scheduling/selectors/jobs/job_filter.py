"""Selects the jobs of a list by its filters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from foundation.web.listing import Column, ColumnCondition, ColumnKind
from quotas.models import Queue
from scheduling.models import Allocation, JobRole, PriorityClass
from scheduling.selectors.jobs.deleted import NOT_DELETED
from scheduling.selectors.jobs.job_sight import jobs_below, jobs_in_pools, jobs_in_sight
from scheduling.selectors.jobs.job_tag import jobs_tagged
from scheduling.selectors.jobs.name_search import having_part
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

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


NO_FILTERS: Final = JobFilter()


def resolve_filters(*, viewer: Actor, workspace: Tenant | None, filters: JobFilter) -> JobFilter:
    """Return the filters with their condition, so that it is built once for all queries of a request.

    States and deletion may be changed in the result, because the condition does not include them.

    Raises: NotFound, PermissionDenied.
    """
    find_sight(viewer=viewer, workspace=workspace)
    return replace(filters, resolved=_look_up(filters, viewer, workspace))


def find_sight(*, viewer: Actor, workspace: Tenant | None) -> Q:
    """Return the condition for the jobs that the viewer may see, of one workspace or of all.

    Raises: NotFound, PermissionDenied.
    """
    if workspace is None:
        permissions.require_above_workspaces(viewer, Permission.JOB_VIEW)
        return jobs_in_sight(viewer)
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    return Q(workspace=workspace)


def match_filters(*, viewer: Actor, workspace: Tenant | None, filters: JobFilter) -> Q:
    """Return the condition for the jobs that the filters select; the caller has checked permissions."""
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
