"""Closes the rows of the database for each request until its user is authenticated."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from foundation.sql.row_scope import NOTHING, use_scope


class RowScopeMiddleware:
    """Runs before all middleware that reads a tenant's rows; see `foundation.sql.row_scope`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with use_scope(NOTHING):
            return self.get_response(request)
