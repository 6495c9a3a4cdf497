"""The names of the rows of a report."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from clusters.models import Flavor
from quotas.models import Queue
from telemetry.usage.accounting import Line
from telemetry.usage.grouping import GroupBy
from tenants.models import Tenant, User


class RowName(NamedTuple):
    """The name of a row, more of where it belongs, and the slug of its workspace."""

    name: str
    note: str = ""
    slug: str = ""


Names = dict[uuid.UUID, RowName]


def row_names(group_by: GroupBy, lines: Mapping[uuid.UUID, Line]) -> Names:
    """Return the names of rows; `lines` has a line of each. Of what was deleted the id is left."""
    found = _NAMES[group_by](lines)
    return {key: found.get(key) or RowName(str(key)[:8]) for key in lines}


def _workspaces(lines: Mapping[uuid.UUID, Line]) -> Names:
    ids = {line.workspace_id for line in lines.values()}
    rows = Tenant.unscoped.filter(pk__in=ids).values_list("pk", "name", "parent__name", "slug")
    return {pk: RowName(name, parent or "", slug) for pk, name, parent, slug in rows}


def _users(lines: Mapping[uuid.UUID, Line]) -> Names:
    rows = User.objects.filter(pk__in=list(lines)).values_list("pk", "username")
    return {pk: RowName(name) for pk, name in rows}


def _queues(lines: Mapping[uuid.UUID, Line]) -> Names:
    rows = Queue.unscoped.filter(pk__in=list(lines))
    columns = rows.values_list("pk", "name", "workspace__name", "workspace__slug")
    return {pk: RowName(*rest) for pk, *rest in columns}


def _pools(lines: Mapping[uuid.UUID, Line]) -> Names:
    rows = Flavor.unscoped.filter(pk__in=list(lines)).values_list("pk", "name", "cluster__name")
    return {pk: RowName(name, cluster) for pk, name, cluster in rows}


def _jobs(lines: Mapping[uuid.UUID, Line]) -> Names:
    workspaces = _workspaces(lines)
    found: Names = {}
    for key, line in lines.items():
        workspace = workspaces.get(line.workspace_id, RowName(""))
        found[key] = RowName(line.job_name, workspace.name, workspace.slug)
    return found


_NAMES = {
    GroupBy.TENANT: _workspaces,
    GroupBy.USER: _users,
    GroupBy.QUEUE: _queues,
    GroupBy.POOL: _pools,
    GroupBy.JOB: _jobs,
}
