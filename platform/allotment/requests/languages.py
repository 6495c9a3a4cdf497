"""Stores the language that users read, so that email to them is in that language."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest, HttpResponseBase
from django.utils import translation
from django.views.i18n import set_language

from tenants.models import User
from tenants.services.language import note_language


def connect_signals() -> None:
    """Connect to sign-ins; called once, when the apps are loaded."""
    user_logged_in.connect(_note_sign_in, dispatch_uid="language-of-sign-in")


def choose_language(request: HttpRequest) -> HttpResponseBase:
    """Set the language of the browser, and of the signed-in account, to a language that the pages have."""
    chosen = request.POST.get("language", "")
    if chosen not in dict(settings.LANGUAGES):
        # Django would accept each language that it ships, with any suffix, and keep a catalogue of each.
        posted = request.POST.copy()
        posted.pop("language", None)
        request.POST = posted  # type: ignore[assignment]  # the published types want it immutable
    elif isinstance(request.user, User):
        with translation.override(chosen):
            note_language(request.user)
    return set_language(request)


def _note_sign_in(sender: object, *, request: HttpRequest | None, user: User, **_: Any) -> None:
    # A session that a program opens for a user has no page.
    if request is not None and request.resolver_match is not None:
        note_language(user)
