"""Records sign-ins, successful and failed, of every way to sign in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.http import HttpRequest

from allotment.requests.denials import ANONYMOUS, is_untried
from foundation.audit import audit_log
from tenants.models import User


def connect_signals() -> None:
    """Connect to sign-ins; called once, when the apps are loaded."""
    user_login_failed.connect(_note, dispatch_uid="audit-failed-sign-in")
    user_logged_in.connect(_note_done, dispatch_uid="audit-sign-in")


def _note(
    sender: object, *, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    if is_untried(request):
        return  # no password was tried; the middleware of denials counts it
    # Only an existing username is recorded: users sometimes type their password in its place.
    user = User.objects.filter(username=str(credentials.get("username", "")).replace("\x00", "")).first()
    audit_log.record_denial(
        ANONYMOUS,
        entity="user",
        entity_id=user.pk if user else "",
        tenant_id=None,
        attempt={"action": "sign-in", "username": user.username if user else ""},
    )


def _note_done(sender: object, *, request: HttpRequest | None, user: User, **_: Any) -> None:
    # A session that a program opens for a user has no page, and is no sign-in.
    if request is None or request.resolver_match is None:
        return
    by = request.resolver_match.url_name or ""
    audit_log.record_action(user, "user.sign-in", entity="user", entity_id=user.pk, after={"by": by})
