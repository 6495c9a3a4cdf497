"""The quota of a queue: a row per pool and resource, with the numbers of the quota pages."""

from __future__ import annotations

from frontend.pages.quotas.resource_lines import ResourceLine, Use, resource_lines
from frontend.pages.quotas.rows import TITLES
from quotas.models import Queue
from quotas.selectors.tables.quota import queue_quota
from quotas.selectors.tables.quota_row import QuotaRow
from scheduling.selectors.jobs.queue_jobs import queue_admitted_ids
from telemetry.series import jobs_use_by_pool
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


def describe_quota(viewer: User, queue: Queue) -> list[ResourceLine]:
    """Return the quota of a queue, the pools in its order of preference first.

    The used amounts are for viewers who may see the jobs. Raises: NotFound, PermissionDenied.
    """
    places = {row.flavor_id: place for place, row in enumerate(queue.queue_flavors.all())}
    rows = [row for row in queue_quota(viewer, queue) if row.is_assigned or row.flavor.pk in places]
    titles = list(TITLES)

    def order_of(row: QuotaRow) -> tuple[int, str, str, int]:
        place = places.get(row.flavor.pk, len(places))
        return place, row.flavor.name, str(row.flavor.pk), titles.index(row.resource)

    rows.sort(key=order_of)
    sees_jobs = permissions.has_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    use: Use = jobs_use_by_pool(viewer, queue_admitted_ids(viewer=viewer, queue=queue)) if sees_jobs else {}
    return resource_lines(rows, use, sees_jobs=sees_jobs)
