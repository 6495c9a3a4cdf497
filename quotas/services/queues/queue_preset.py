"""Presets of a queue: combinations of its settings that suit a kind of work."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from django.db import transaction

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.sql.versions import advance_version
from quotas.models import AllocationMode, PreemptOthers, PreemptWithin, Preference, Queue, WhenCan
from quotas.services.quota import quota_changed
from tenants.access import permissions
from tenants.access.permissions import Permission


class Preset(StrEnum):
    """The purpose of a queue."""

    THROUGHPUT = "throughput"
    DETERMINISTIC = "deterministic"
    BALANCED = "balanced"


def preset_settings(preset: Preset) -> Mapping[str, Any]:
    """Return the settings of a queue that make up a preset, by field.

    `throughput` uses all free quota and preempts lower priorities even in order to borrow; `deterministic`
    stays within its own nominal and preempts no job; `balanced` borrows, reclaims its own quota, and does not
    preempt jobs of equal priority in its queue.
    """
    throughput, static = preset is Preset.THROUGHPUT, preset is Preset.DETERMINISTIC
    return {
        "allocation_mode": AllocationMode.STATIC if static else AllocationMode.DYNAMIC,
        "preemption": not static,
        "within_queue": PreemptWithin.LOWER_PRIORITY,
        "reclaim": PreemptOthers.ANY,
        "while_borrowing": PreemptOthers.LOWER_PRIORITY if throughput else PreemptOthers.NEVER,
        "max_priority": None,
        "when_can_borrow": WhenCan.MAY_STOP_SEARCH,
        "when_can_preempt": WhenCan.TRY_NEXT_FLAVOR,
        "preference": Preference.BORROWING,
        "backfill": True,
        "user_shares": True,
    }


@transaction.atomic
def queue_preset(*, acting_user: Actor, queue: Queue, preset: Preset, expected: int | None = None) -> Queue:
    """Give a queue the settings of a preset; its strategy and its quota stay.

    Raises: PermissionDenied, PreconditionFailed.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT, queue.workspace)
    settings = preset_settings(preset)
    before = {name: getattr(queue, name) for name in settings}
    advance_version(queue, expected=expected)
    for name, value in settings.items():
        setattr(queue, name, value)
    queue.save(update_fields=list(settings))
    audit_log.record_action(
        acting_user,
        "queue.preset",
        entity="queue",
        entity_id=queue.pk,
        tenant_id=queue.workspace_id,
        before=before,
        after={"preset": preset.value, **settings},
    )
    quota_changed(queue.cell_id)
    return queue
