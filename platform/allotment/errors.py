"""Errors outside REST views: below `/api/` in the API's own shape, elsewhere as pages."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from foundation import problems
from foundation.errors import NotFound

_API = "/api/"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """No such address."""
    if not request.path.startswith(_API):
        return defaults.page_not_found(request, exception)
    return JsonResponse(problems.of_error(NotFound()), status=404, content_type=problems.CONTENT_TYPE)


def server_error(request: HttpRequest) -> HttpResponse:
    """Something failed; it was logged, and nothing of it is shown."""
    if not request.path.startswith(_API):
        return defaults.server_error(request)
    return problems.server_error(request)
