"""The names of the rows of a report."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import NamedTuple

from clusters.models import Flavor
from quotas.models import Queue
from scheduling.models import Job
from telemetry.usage.accounting import Line
from telemetry.usage.grouping import GroupBy
from tenants.models import Tenant, User


class RowName(NamedTuple):
    """The name of a row, its place, such as the workspace of a queue, and the slug of its workspace."""

    name: str
    note: str = ""
    slug: str = ""


Names = dict[uuid.UUID, RowName]


def row_names(group_by: GroupBy, lines: Mapping[uuid.UUID, Line]) -> Names:
    """Return the names of rows; `lines` has a line of each. A deleted object is named by its id."""
    return _jobs(lines) if group_by == GroupBy.JOB else key_names(group_by, lines)


def key_names(group_by: GroupBy, keys: Collection[uuid.UUID]) -> Names:
    """Return the names of rows by their ids alone, as in `row_names`."""
    found = _NAMES[group_by](keys)
    return {key: found.get(key) or RowName(str(key)[:8]) for key in keys}


def _workspaces(keys: Collection[uuid.UUID]) -> Names:
    rows = Tenant.unscoped.filter(pk__in=list(keys)).values_list("pk", "name", "parent__name", "slug")
    return {pk: RowName(name, parent or "", slug) for pk, name, parent, slug in rows}


def _users(keys: Collection[uuid.UUID]) -> Names:
    rows = User.objects.filter(pk__in=list(keys)).values_list("pk", "username")
    return {pk: RowName(name) for pk, name in rows}


def _queues(keys: Collection[uuid.UUID]) -> Names:
    rows = Queue.unscoped.filter(pk__in=list(keys))
    columns = rows.values_list("pk", "name", "workspace__name", "workspace__slug")
    return {pk: RowName(*rest) for pk, *rest in columns}


def _pools(keys: Collection[uuid.UUID]) -> Names:
    rows = Flavor.unscoped.filter(pk__in=list(keys)).values_list("pk", "name", "cluster__name")
    return {pk: RowName(name, cluster) for pk, name, cluster in rows}


def _jobs(lines: Mapping[uuid.UUID, Line]) -> Names:
    workspaces = _workspaces({line.workspace_id for line in lines.values()})
    found: Names = {}
    for key, line in lines.items():
        workspace = workspaces.get(line.workspace_id, RowName(""))
        found[key] = RowName(line.job_name, workspace.name, workspace.slug)
    return found


def _jobs_by_key(keys: Collection[uuid.UUID]) -> Names:
    rows = Job.unscoped.filter(pk__in=list(keys))
    columns = rows.values_list("pk", "name", "workspace__name", "workspace__slug")
    return {pk: RowName(*rest) for pk, *rest in columns}


_NAMES = {
    GroupBy.JOB: _jobs_by_key,
    GroupBy.TENANT: _workspaces,
    GroupBy.USER: _users,
    GroupBy.QUEUE: _queues,
    GroupBy.POOL: _pools,
}
