"""The effect of changes of the tenant tree on jobs."""

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
    """Jobs stay with their workspace wherever it goes; archiving ends none of them."""

    def preview_move(self, viewer: Actor, tenant: Tenant, parent: Tenant) -> list[Effect]:
        """Return the number of jobs that move too; new neighbours may preempt those that borrow."""
        running, waiting = _counts(viewer, tenant)
        if not running + waiting:
            return []
        text = _("Jobs that move too, without interruption: %(running)s running, %(waiting)s pending.")
        numbers = {"running": running, "waiting": waiting}
        return [Effect("JOBS_MOVE", text % numbers, numbers)]

    def follow_move(self, actor: Actor, tenant: Tenant) -> None:
        """Jobs hang on their workspace and queue, which keep their ids."""

    def refuse_move(self, actor: Actor, tenant: Tenant, parent: Tenant) -> None:
        """Jobs go along wherever it goes."""

    def preview_archive(self, viewer: Actor, tenant: Tenant) -> list[Effect]:
        """Return the number of jobs that go on."""
        running, waiting = _counts(viewer, tenant)
        if not running + waiting:
            return []
        text = _(
            "Jobs there: %(running)s running, %(waiting)s pending. They continue; no new jobs are accepted."
        )
        numbers = {"running": running, "waiting": waiting}
        return [Effect("JOBS_GO_ON", text % numbers, numbers)]


def _counts(viewer: Actor, tenant: Tenant) -> tuple[int, int]:
    """Jobs that hold something and jobs that wait in a subtree; none for who may not see jobs there."""
    if not permissions.has_permission(viewer, Permission.JOB_VIEW, tenant):
        return 0, 0
    counts = Job.unscoped.filter(workspace__path__startswith=tenant.path).aggregate(
        running=Count("pk", filter=Q(state__in=HOLDING_STATES)),
        waiting=Count("pk", filter=Q(state__in=PENDING_STATES)),
    )
    return counts["running"], counts["waiting"]
