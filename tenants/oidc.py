"""Signing in by an OpenID Connect provider, through django-allauth.

The first sign-in makes the account; who it is, is settled by the provider's `sub` and never by a name or
an e-mail address, so that nobody takes over a local account. Each sign-in brings the groups of the claim;
`tenants.services.sign_in` makes the groups here the same.
"""

from __future__ import annotations

from typing import Any, NoReturn

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from tenants.models import User
from tenants.services.sign_in import groups_follow, person_noted

log = structlog.get_logger(__name__)
PROVIDER_ID = "sso"
_BACKEND = "django.contrib.auth.backends.ModelBackend"


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """What allauth does around a sign-in, with the console's own pages."""

    def login(self, request: HttpRequest, user: User) -> None:
        """Open the session with the backend that finds the user again in the next request."""
        user.backend = _BACKEND
        super().login(request, user)

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        """Back to the sign-in page."""
        return _back(request, _("This account is closed. Ask an operator of the platform."))

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the console shows who is signed in."""


class SocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """What allauth does with the answer of the provider."""

    def on_authentication_error(self, request: HttpRequest, provider: Any, **about: Any) -> NoReturn:
        """Back to the sign-in page; what the provider said stands in the log, without its tokens."""
        log.warning("sign-in by the provider failed", error=str(about.get("error") or "unknown"))
        text = _("Signing in by the identity provider failed. Try again, or sign in with a local account.")
        raise ImmediateHttpResponse(_back(request, text))

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: object) -> str:
        """Where somebody who is signed in goes after tying the provider to their account."""
        return str(settings.LOGIN_REDIRECT_URL)

    def save_user(self, request: HttpRequest, sociallogin: Any, form: object = None) -> User:
        """The account of the first sign-in."""
        user: User = super().save_user(request, sociallogin, form)
        person_noted(user=user)
        return user


def _back(request: HttpRequest, text: str) -> HttpResponse:
    messages.error(request, text)
    return redirect(settings.LOGIN_URL)


def follow_groups(sender: object, *, user: User, sociallogin: Any = None, **_kwargs: Any) -> None:
    """After a sign-in by the provider: the groups of its claim."""
    if sociallogin is None:
        return
    data = sociallogin.account.extra_data
    claim = settings.ALLOTMENT_OIDC_GROUPS_CLAIM
    # Providers send groups in the token, in the answer about the user, or in both.
    sources = [data.get("userinfo") or {}, data.get("id_token") or {}]
    claimed = [name for source in sources for name in source.get(claim) or [] if isinstance(name, str)]
    groups_follow(user=user, claimed=frozenset(claimed))
