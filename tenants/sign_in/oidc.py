"""Signing in by an OpenID Connect provider, through django-allauth.

The first sign-in creates the account. The provider's `sub` identifies it, never a name or an email address,
so that no provider account takes over a local account. Each sign-in reads the groups of the claim, and
`tenants.services.sign_in` updates the groups here.
"""

from __future__ import annotations

from typing import Any, NoReturn

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.db import DataError, IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from tenants.models import User
from tenants.services.sign_in import groups_follow, person_noted

log = structlog.get_logger(__name__)
PROVIDER_ID = "sso"
_ATTEMPTS = 3
_NAME_MAX = 150
_CLAIM_MAX = 200
_BACKEND = "django.contrib.auth.backends.ModelBackend"


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """The steps of allauth around a sign-in, with the console's own pages."""

    def login(self, request: HttpRequest, user: User) -> None:
        """Open the session with the backend that finds the user again in the next request."""
        user.backend = _BACKEND
        super().login(request, user)

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        """Redirect to the sign-in page."""
        return _back(request, _("This account is disabled. Contact a platform admin."))

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Add no message: the console shows the signed-in user."""


class SocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """The handling of the provider's answer by allauth."""

    def on_authentication_error(self, request: HttpRequest, provider: Any, **about: Any) -> NoReturn:
        """Redirect to the sign-in page; the provider's error is logged, without its tokens."""
        log.warning("sign-in by the provider failed", error=str(about.get("error") or "unknown"))
        text = _("Sign-in with the identity provider failed. Try again, or use a local account.")
        raise ImmediateHttpResponse(_back(request, text))

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: object) -> str:
        """Return the page to open after a signed-in user has connected the provider to the account."""
        return str(settings.LOGIN_REDIRECT_URL)

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        """Copy what the provider reports about a user, truncated to what a row can hold."""
        sociallogin.account.extra_data = _readable(sociallogin.account.extra_data)
        user: User = super().populate_user(request, sociallogin, _readable(data))
        for name in ("username", "first_name", "last_name"):
            setattr(user, name, str(getattr(user, name) or "")[:_NAME_MAX])
        return user

    def save_user(self, request: HttpRequest, sociallogin: Any, form: object = None) -> User:
        """Create the account of the first sign-in; a concurrent second user of the same name gets another
        name.

        Raises: ImmediateHttpResponse to the sign-in page when the account cannot be created.
        """
        for _attempt in range(_ATTEMPTS):
            try:
                with transaction.atomic():
                    user: User = super().save_user(request, sociallogin, form)
                    person_noted(user=user)
                return user
            except (IntegrityError, DataError) as error:
                log.warning("an account could not be made from a sign-in", error=str(error))
                sociallogin.user.username = ""  # allauth generates another name
        text = _("Couldn't create your account. Try again, or contact a platform admin.")
        raise ImmediateHttpResponse(_back(request, text))


def _back(request: HttpRequest, text: str) -> HttpResponse:
    messages.error(request, text)
    return redirect(settings.LOGIN_URL)


def follow_groups(sender: object, *, user: User, sociallogin: Any = None, **_kwargs: Any) -> None:
    """Update the user's groups from the claim, after a sign-in by the provider."""
    if sociallogin is None:
        return
    data = sociallogin.account.extra_data
    claim = settings.ALLOTMENT_OIDC_GROUPS_CLAIM
    # Providers send groups in the ID token, in the userinfo response, or in both.
    sources = [data.get("userinfo") or {}, data.get("id_token") or {}]
    claimed = [name for source in sources for name in _names(_readable(source.get(claim)))]
    groups_follow(user=user, claimed=frozenset(claimed))


def _names(claim: Any) -> list[str]:
    """Return the names in a claim, which is a list, or a single text where the user is in one group only."""
    names = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [name for name in names if isinstance(name, str) and 0 < len(name) <= _CLAIM_MAX]


def _readable(value: Any) -> Any:
    """Return the value without NUL characters, which JSON allows and PostgreSQL refuses."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_readable(name): _readable(item) for name, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value
