"""Wrong passwords in an open session, counted and locked like failed sign-ins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from foundation.web.rate_limit_middleware import TooManyRequests
from tenants.models import User
from tenants.services.account import WrongPassword

WRONG = "wrong_password_of"
"""The attribute of a request with the name of the user whose password was wrong."""


@contextmanager
def counted_attempt(request: Any, user: User) -> Iterator[None]:
    """Check that the user's password may be tried here, and have a wrong one counted.

    The middleware counts it after the response is created: a dry run, or a request with an Idempotency-Key,
    rolls back everything that its transaction writes. Raises: TooManyRequests with code LOCKED_OUT.
    """
    if settings.AXES_ENABLED and not AxesProxyHandler.is_allowed(request, {"username": user.username}):
        raise TooManyRequests(
            _("Too many failed sign-in attempts. Try again in 15 minutes, or contact a platform admin."),
            code="LOCKED_OUT",
        )
    try:
        yield
    except WrongPassword:
        setattr(request, WRONG, user.username)
        raise


def wrong_password_of(request: HttpRequest) -> str:
    """Return the name of the user whose password was wrong in this request, or an empty text."""
    name: str = getattr(request, WRONG, "")
    return name
