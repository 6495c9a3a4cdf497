"""Effects of changes of the tenant tree on jobs."""

from __future__ import annotations

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from scheduling.models import HOLDING_STATES, PENDING_STATES, Job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.hooks.tree_effects import Effect
from tenants.models import Tenant


class JobTreeWatcher:
    """Jobs stay in their workspace when it moves; archiving it ends no jobs."""

    def preview_move(self, viewer: Actor, tenant: Tenant, parent: Tenant) -> list[Effect]:
        """Return the number of jobs that move too; jobs that borrow may be preempted at the new place."""
        running, waiting = _counts(viewer, tenant)
        if not running + waiting:
            return []
        text = _("Jobs that move too, without interruption: %(running)s running, %(waiting)s pending.")
        numbers = {"running": running, "waiting": waiting}
        return [Effect("JOBS_MOVE", text % numbers, numbers)]

    def follow_move(self, actor: Actor, tenant: Tenant) -> None:
        """Do nothing: jobs refer to their workspace and queue, which keep their ids."""

    def refuse_move(self, actor: Actor, tenant: Tenant, parent: Tenant) -> None:
        """Refuse no move because of jobs."""

    def preview_archive(self, viewer: Actor, tenant: Tenant) -> list[Effect]:
        """Return the number of jobs that continue."""
        running, waiting = _counts(viewer, tenant)
        if not running + waiting:
            return []
        text = _(
            "Jobs there: %(running)s running, %(waiting)s pending. They continue; no new jobs are accepted."
        )
        numbers = {"running": running, "waiting": waiting}
        return [Effect("JOBS_GO_ON", text % numbers, numbers)]


def _counts(viewer: Actor, tenant: Tenant) -> tuple[int, int]:
    """Return the numbers of jobs with allocations and of pending jobs in a subtree; 0 if the viewer may not
    see jobs there."""
    if not permissions.has_permission(viewer, Permission.JOB_VIEW, tenant):
        return 0, 0
    counts = Job.unscoped.filter(workspace__path__startswith=tenant.path).aggregate(
        running=Count("pk", filter=Q(state__in=HOLDING_STATES)),
        waiting=Count("pk", filter=Q(state__in=PENDING_STATES)),
    )
    return counts["running"], counts["waiting"]
