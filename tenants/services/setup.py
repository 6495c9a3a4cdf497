"""The checklist of an installation's first steps, and hiding it."""

from __future__ import annotations

from django.db import transaction

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.models import Installation
from foundation.models.installation import installation_id
from tenants.access import permissions
from tenants.access.permissions import Permission


@transaction.atomic
def setup_dismiss(*, acting_user: Actor) -> None:
    """Hide the checklist from all users; nothing else changes. Raises: PermissionDenied."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    key = installation_id()
    Installation.unscoped.update(setup_dismissed_at=clock.now())
    audit_log.record_action(acting_user, "setup.dismiss", entity="installation", entity_id=key)


def is_setup_dismissed() -> bool:
    """Return whether the checklist was hidden."""
    return Installation.unscoped.filter(setup_dismissed_at__isnull=False).exists()
