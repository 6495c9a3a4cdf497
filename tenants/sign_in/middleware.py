"""Middleware that caches the user's grants per request, and counts wrong passwords."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest, HttpResponse

from foundation.sql import row_scope
from tenants.access.grants import remember_grants
from tenants.access.row_scope import act_for
from tenants.services.password_attempt import wrong_password_of


class GrantsMiddleware:
    """Cache grants while the response is created; a stream that continues afterwards reads them again."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with remember_grants():
            # A session's user is known here; a key's user only after its view has checked the key.
            if settings.SESSION_COOKIE_NAME in request.COOKIES:
                act_for(request.user)
            return self.get_response(request)


class PasswordAttemptMiddleware:
    """Report a wrong password of an open session as a failed sign-in, outside of any transaction."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        name = wrong_password_of(request)
        if name:
            with row_scope.whole():
                user_login_failed.send(__name__, credentials={"username": name}, request=request)
        return response
