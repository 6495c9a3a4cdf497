"""Empties a queue that is about to be deleted."""

from __future__ import annotations

from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError
from foundation.core.reasons import Reason
from foundation.messaging import outbox
from quotas.models import Queue
from scheduling.lifecycle import transitions
from scheduling.lifecycle.job_lifecycle import end_claims
from scheduling.models import HOLDING_STATES, WAITING_STATES, Job
from tenants.access import permissions
from tenants.access.permissions import Permission


def queue_vacate(acting_user: Actor, queue: Queue, move_to: Queue | None) -> int:
    """Move the waiting jobs of a queue to another one; return how many. The caller holds the cell's lock.

    Raises: Conflict (QUEUE_IN_USE) while jobs run, or if jobs wait and `move_to` is None; PermissionDenied
    for users who may not stop the jobs of others.
    """
    running = Job.unscoped.filter(queue=queue, state__in=HOLDING_STATES).count()
    waiting = list(Job.unscoped.filter(queue=queue, state__in=WAITING_STATES).order_by("pk"))
    if running or (waiting and move_to is None):
        message = _(
            "The queue has %(running)s running and %(waiting)s pending jobs. Drain the queue and "
            "move its pending jobs."
        )
        numbers = {"running": running, "waiting": len(waiting)}
        text = message % numbers
        errors = [FieldError("move_to", "REQUIRED", text)]
        raise Conflict(text, code="QUEUE_IN_USE", numbers=numbers, errors=errors)
    if not waiting or move_to is None:
        return 0
    permissions.require_permission(acting_user, Permission.JOB_STOP_ANY, queue.workspace)
    for job in waiting:
        end_claims([job])
        transitions.advance_job(
            job,
            code="moved",
            now=clock.now(),
            actor=acting_user.get_username(),
            numbers={"from": queue.name, "to": move_to.name},
            queue=move_to,
            reason=Reason.PENDING_EVALUATION if job.reason != Reason.SUSPENDED else job.reason,
        )
    outbox.add_hint(outbox.Topic.CYCLE, move_to.cell_id)
    return len(waiting)
