"""Lets the grants of whoever asks be read once per request."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from tenants.grants import remembered


class GrantsMiddleware:
    """Remember grants while the answer is made; a stream that goes on afterwards reads them afresh."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with remembered():
            return self.get_response(request)
