"""The settings of a queue, changed one by one or as a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid, PermissionDenied
from foundation.sql.versions import advance_version
from quotas.models import LedgerEntry, PreemptOthers, Queue, QueueFlavor
from quotas.services.queues.queue_bounds import bound_flavors
from quotas.services.queues.queue_preset import Preset, preset_settings
from quotas.services.quota import quota_changed
from tenants.access import permissions
from tenants.access.permissions import Permission

SETTINGS: Final[tuple[str, ...]] = (
    "strategy", "stop_policy", "allocation_mode", "preemption", "within_queue", "reclaim", "while_borrowing",
    "max_priority", "when_can_borrow", "when_can_preempt", "preference", "backfill", "user_shares",
)  # fmt: skip


def preset_of(queue: Queue) -> Preset | None:
    """Return the preset whose settings the queue has, or None if they are those of no preset."""
    for preset in Preset:
        if all(getattr(queue, name) == value for name, value in preset_settings(preset).items()):
            return preset
    return None


@transaction.atomic
def queue_update(
    *,
    acting_user: Actor,
    queue: Queue,
    values: Mapping[str, Any],
    preset: Preset | None = None,
    flavors: Sequence[Flavor] | None = None,
    expected: int | None = None,
) -> Queue:
    """Change the named `SETTINGS`, on top of those of `preset`, and the flavors in their order of trying.

    Preemption of higher priorities in other queues in order to borrow is decided above the workspace, as are
    raised priorities: a team must not gain at the cost of others by its own setting. Raises:
    PermissionDenied; PreconditionFailed; Invalid for flavors; Conflict for a flavor that is in use.
    """
    values = queue_check(acting_user=acting_user, queue=queue, values=values, preset=preset)
    advance_version(queue, expected=expected)
    names = [name for name in SETTINGS if name in values]
    before: dict[str, Any] = {name: getattr(queue, name) for name in names}
    for name in names:
        setattr(queue, name, values[name])
    if names:
        queue.save(update_fields=names)
    after: dict[str, Any] = {name: values[name] for name in names}
    if flavors is not None:
        had = set(QueueFlavor.unscoped.filter(queue=queue).values_list("flavor_id", flat=True))
        before["flavors"], after["flavors"] = _reorder(queue, flavors), [one.name for one in flavors]
        bound_flavors(acting_user, queue, [one for one in flavors if one.pk not in had])
    audit_log.record_action(
        acting_user,
        "queue.update",
        entity="queue",
        entity_id=queue.pk,
        tenant_id=queue.workspace_id,
        before=before,
        after=after,
    )
    quota_changed(queue.cell_id)
    return queue


def queue_check(
    *, acting_user: Actor, queue: Queue, values: Mapping[str, Any], preset: Preset | None = None
) -> dict[str, Any]:
    """Return the settings that a queue would get; writes nothing.

    Raises: PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT, queue.workspace)
    wanted = {**(preset_settings(preset) if preset else {}), **values}
    _require_above(acting_user, queue, wanted)
    return wanted


def _require_above(acting_user: Actor, queue: Queue, values: Mapping[str, Any]) -> None:
    wanted = values.get("while_borrowing", queue.while_borrowing)
    reach = values.get("max_priority", queue.max_priority)
    harmless = wanted != PreemptOthers.ANY or (wanted, reach) == (queue.while_borrowing, queue.max_priority)
    if not harmless and not permissions.has_permission(
        acting_user, Permission.QUEUE_EDIT, queue.workspace.parent
    ):
        message = _(
            "Whether %(tenant)s can preempt higher priorities to borrow must be set by a parent admin."
        )
        errors = [FieldError("while_borrowing", "DECIDED_ABOVE", message % {"tenant": queue.workspace})]
        raise PermissionDenied(message % {"tenant": queue.workspace}, errors=errors)


def _reorder(queue: Queue, flavors: Sequence[Flavor]) -> list[str]:
    """Set the flavors of the queue; return the names of the earlier ones."""
    rows = list(QueueFlavor.unscoped.filter(queue=queue).select_related("flavor").order_by("position", "pk"))
    if not flavors or len({one.pk for one in flavors}) < len(flavors):
        message = _("Select at least one pool; no duplicates.")
        raise Invalid(message, errors=[FieldError("flavors", "REQUIRED", message)])
    leaving = [row.flavor for row in rows if row.flavor_id not in {one.pk for one in flavors}]
    held = LedgerEntry.unscoped.filter(
        node_id=queue.node_id, flavor__in=leaving, reserved__gt=0
    ).select_related("flavor")
    for usage in held.order_by("flavor__name")[:1]:
        message = _("Jobs of the queue use %(flavor)s.") % {"flavor": usage.flavor}
        raise Conflict(message, code="FLAVOR_IN_USE", errors=[FieldError("flavors", "IN_USE", message)])
    QueueFlavor.unscoped.filter(queue=queue).delete()
    QueueFlavor.unscoped.bulk_create(
        QueueFlavor(queue=queue, flavor=flavor, position=position) for position, flavor in enumerate(flavors)
    )
    return [row.flavor.name for row in rows]
