"""Lets the grants of whoever asks be read once per request."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from tenants.grants import remembered
from tenants.row_scope import act_for


class GrantsMiddleware:
    """Remember grants while the answer is made; a stream that goes on afterwards reads them afresh."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with remembered():
            # Who has a session is known by now; who has a key, when its view has checked it.
            if settings.SESSION_COOKIE_NAME in request.COOKIES:
                act_for(request.user)
            return self.get_response(request)
