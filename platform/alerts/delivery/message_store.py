"""Creates messages to users, and decides which users may get a message about an alert."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from alerts.metrics.catalogue import BY_NAME
from alerts.models import Alert, UserMessage
from foundation.core.actor import Actor
from foundation.sql import row_scope
from tenants.access import permissions
from tenants.access.permissions import Permission

_BATCH: Final = 200


@row_scope.whole()
def create_messages(messages: Iterable[UserMessage]) -> int:
    """Create the messages that their users do not have yet; return the number of messages passed."""
    rows = list(messages)
    UserMessage.unscoped.bulk_create(rows, batch_size=_BATCH, ignore_conflicts=True)
    return len(rows)


def may_view_alert(actor: Actor, alert: Alert) -> bool:
    """Return whether the actor may view both the subject of the alert and the values of its metric."""
    if alert.tenant is None:
        return permissions.has_permission(actor, Permission.CLUSTER_VIEW)
    needed = {Permission.JOB_VIEW}
    if alert.metric in BY_NAME:
        needed.add(BY_NAME[alert.metric].permission)
    return needed <= permissions.permissions_on(actor, alert.tenant)
