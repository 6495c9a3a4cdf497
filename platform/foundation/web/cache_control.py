"""Tells browsers and proxies what they may keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

_API: Final = "/api/"


class CacheControlMiddleware:
    """Answers of the API are kept nowhere, pages by the browser alone and asked for again each time.

    What says more itself is left as it is. It stands below the one that answers with static files.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not response.has_header("Cache-Control"):
            api = request.path.startswith(_API)
            response["Cache-Control"] = "no-store" if api else "private, no-cache"
        return response
