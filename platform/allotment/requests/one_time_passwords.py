"""Redirects a session with a one-time password from every page to the page where it is changed.

The REST API refuses such sessions itself (`tenants.sign_in.one_time_passwords`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from tenants.models import User

_ACCOUNT: Final = "frontend:account"
OPEN: Final = frozenset(
    {
        _ACCOUNT,
        "frontend:login",
        "frontend:invitation",
        "frontend:logout",
        "frontend:logo",
        "set_language",
        "livez",
        "readyz",
        "readyz-platform",
        "metrics",
    }
)
"""The names of the views that stay open. All other views are closed."""
_API: Final = "/api/"


class OneTimePasswordMiddleware:
    """Redirects such sessions (see the module); runs below the middleware that sets the user."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_view: Any) -> HttpResponse | None:
        """Redirect before the view runs."""
        match, user = request.resolver_match, request.user
        if request.path.startswith(_API) or match is None or match.view_name in OPEN:
            return None
        if isinstance(user, User) and user.must_change_password:
            return redirect(_ACCOUNT)
        return None
