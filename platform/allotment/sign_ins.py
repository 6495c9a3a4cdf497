"""Writes down failed sign-ins, whichever way they were tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.signals import user_login_failed

from allotment.denials import NOBODY
from foundation import audit
from tenants.models import User


def register() -> None:
    """Listen; called once, when the apps are loaded."""
    user_login_failed.connect(_note, dispatch_uid="audit-failed-sign-in")


def _note(sender: object, *, credentials: Mapping[str, Any], **_: Any) -> None:
    # Only a name that exists is written: people type passwords where the name belongs.
    user = User.objects.filter(username=str(credentials.get("username", "")).replace("\x00", "")).first()
    audit.denied(
        NOBODY,
        entity="user",
        entity_id=user.pk if user else "",
        tenant_id=None,
        attempt={"action": "sign-in", "username": user.username if user else ""},
    )
