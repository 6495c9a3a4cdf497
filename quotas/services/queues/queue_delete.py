"""Deleting a queue. Its row stays, closed, because its jobs and the history of its quota refer to it."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.quantities import Resource
from foundation.sql.versions import advance_version
from quotas.hooks.job_effects import get_provider
from quotas.models import (
    OPEN_STATES,
    Override,
    OverrideState,
    Queue,
    Quota,
    QuotaChangeSource,
    QuotaNode,
    QuotaRequest,
    StopPolicy,
)
from quotas.services.quota import quota_change, quota_changed
from quotas.services.quota_plan import NodeAmounts, QuotaAmount
from tenants.access import permissions
from tenants.access.permissions import Permission


@transaction.atomic
def queue_delete(
    *, acting_user: Actor, queue: Queue, move_to: Queue | None = None, expected: int | None = None
) -> None:
    """Close a queue permanently and free its name; its quota returns to the workspace.

    Waiting jobs move to `move_to`, if given, and keep the time of their first submission. Raises:
    PermissionDenied; PreconditionFailed; Invalid for a `move_to` of another workspace or cell; Conflict
    (QUEUE_IN_USE) while jobs run, or wait and are not moved, and while a loan or a request names its quota.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT, queue.workspace)
    Cell.unscoped.select_for_update().get(pk=queue.cell_id)
    advance_version(queue, expected=expected)
    _require_target(queue, move_to)
    _require_unbound(queue)
    moved = get_provider().empty_queue(acting_user, queue, move_to)
    _give_back(acting_user, queue)
    queue.closed_at, queue.stop_policy = clock.now(), StopPolicy.HOLD
    queue.save(update_fields=["closed_at", "stop_policy"])
    audit_log.record_action(
        acting_user,
        "queue.delete",
        entity="queue",
        entity_id=queue.pk,
        tenant_id=queue.workspace_id,
        before={"name": queue.name},
        after={"moved_jobs": moved, "to": move_to.name if move_to else None},
    )
    quota_changed(queue.cell_id)


def _require_target(queue: Queue, move_to: Queue | None) -> None:
    if move_to is None:
        return
    if move_to.pk == queue.pk or move_to.cell_id != queue.cell_id:
        message = _("Jobs can only move to another queue of the same workspace and scheduling domain.")
        raise Invalid(message, errors=[FieldError("move_to", "PLACE", message)])


def _require_unbound(queue: Queue) -> None:
    states = (OverrideState.PLANNED, OverrideState.ACTIVE)
    lent = Override.unscoped.filter(lender=queue.node_id, state__in=states)
    if lent.exists() or Override.unscoped.filter(borrower=queue.node_id, state__in=states).exists():
        raise Conflict(_("Temporary quota uses this queue. End it first."), code="QUEUE_IN_USE")
    if QuotaRequest.unscoped.filter(node=queue.node_id, state__in=OPEN_STATES).exists():
        message = _("A quota request targets this queue. Review it first.")
        raise Conflict(message, code="QUEUE_IN_USE")


def _give_back(acting_user: Actor, queue: Queue) -> None:
    rows = Quota.unscoped.filter(node=queue.node_id).exclude(own_nominal=0).select_related("flavor__cluster")
    amounts = [QuotaAmount(row.flavor, Resource(row.resource), 0) for row in rows.order_by("pk")]
    if amounts:
        node = QuotaNode.unscoped.select_related("tenant__parent").get(pk=queue.node_id)
        quota_change(
            acting_user=acting_user,
            cell_id=queue.cell_id,
            changes=[NodeAmounts(node, amounts)],
            reason=_("Queue %(name)s was deleted.") % {"name": queue.name},
            source=QuotaChangeSource.EDIT,
        )
