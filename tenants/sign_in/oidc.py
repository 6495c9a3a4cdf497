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
        """Back to the sign-in page."""
        return _back(request, _("This account is disabled. Contact a platform admin."))

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the console shows who is signed in."""


class SocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """The handling of the provider's answer by allauth."""

    def on_authentication_error(self, request: HttpRequest, provider: Any, **about: Any) -> NoReturn:
        """Back to the sign-in page; what the provider said stands in the log, without its tokens."""
        log.warning("sign-in by the provider failed", error=str(about.get("error") or "unknown"))
        text = _("Sign-in with the identity provider failed. Try again, or use a local account.")
        raise ImmediateHttpResponse(_back(request, text))

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: object) -> str:
        """Return the page to open after a signed-in user has connected the provider to the account."""
        return str(settings.LOGIN_REDIRECT_URL)

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        """Take over what the provider says of a person, as far as a row can hold it."""
        sociallogin.account.extra_data = _readable(sociallogin.account.extra_data)
        user: User = super().populate_user(request, sociallogin, _readable(data))
        for name in ("username", "first_name", "last_name"):
            setattr(user, name, str(getattr(user, name) or "")[:_NAME_MAX])
        return user

    def save_user(self, request: HttpRequest, sociallogin: Any, form: object = None) -> User:
        """The account of the first sign-in; of two people of one name at one moment the second gets another.

        Raises: ImmediateHttpResponse back to the sign-in page when there can be no such account.
        """
        for _attempt in range(_ATTEMPTS):
            try:
                with transaction.atomic():
                    user: User = super().save_user(request, sociallogin, form)
                    person_noted(user=user)
                return user
            except (IntegrityError, DataError) as error:
                log.warning("an account could not be made from a sign-in", error=str(error))
                sociallogin.user.username = ""  # another one is made up
        text = _("Couldn't create your account. Try again, or contact a platform admin.")
        raise ImmediateHttpResponse(_back(request, text))


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
    claimed = [name for source in sources for name in _names(_readable(source.get(claim)))]
    groups_follow(user=user, claimed=frozenset(claimed))


def _names(claim: Any) -> list[str]:
    """The names in a claim, which is a list, or one name where somebody is in one group only."""
    names = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [name for name in names if isinstance(name, str) and 0 < len(name) <= _CLAIM_MAX]


def _readable(value: Any) -> Any:
    """The value without NUL, which JSON can say and no column can hold."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_readable(name): _readable(item) for name, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value
