"""Sets what browsers and proxies may cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

_API: Final = "/api/"


class CacheControlMiddleware:
    """Responses of the API are not cached, pages only by the browser, which revalidates them each time.

    A response with its own header stays as it is. Runs below the middleware for static files.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not response.has_header("Cache-Control"):
            api = request.path.startswith(_API)
            response["Cache-Control"] = "no-store" if api else "private, no-cache"
        return response
