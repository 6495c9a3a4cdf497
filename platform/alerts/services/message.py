"""Marks messages as read."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db import transaction

from alerts.models import UserMessage
from foundation.core import clock
from tenants.models import User


@transaction.atomic
def mark_read(*, acting_user: User, ids: Collection[uuid.UUID] | None = None) -> int:
    """Mark some of the user's own messages as read, or all; return how many were unread."""
    unread = UserMessage.unscoped.filter(user=acting_user, read_at__isnull=True)
    if ids is not None:
        unread = unread.filter(pk__in=ids)
    return unread.update(read_at=clock.now())
