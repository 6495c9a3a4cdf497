"""Errors outside REST views: below `/api/` in the API's own shape, elsewhere as pages."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.views import defaults

from foundation.core.errors import AllotmentError, Invalid, NotFound, PermissionDenied
from foundation.monitoring.outages import find_outage
from foundation.web import problems

_API = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer input that never became a request: a host that is not ours, a header that can't be read."""
    if not request.path.startswith(_API):
        return defaults.bad_request(request, exception)
    return _problem(Invalid())


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Refused before any view was asked."""
    if not request.path.startswith(_API):
        return defaults.permission_denied(request, exception)
    return _problem(PermissionDenied())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """No such address."""
    if not request.path.startswith(_API):
        return defaults.page_not_found(request, exception)
    return _problem(NotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    """Something failed; it was logged, and nothing of it is shown."""
    if not request.path.startswith(_API):
        found = find_outage(sys.exception())
        if found is None:
            return defaults.server_error(request)
        text = loader.render_to_string("500.html", {"detail": found.detail})
        return HttpResponse(text, status=found.status)
    return problems.server_error(request)


def _problem(error: AllotmentError) -> HttpResponse:
    body = problems.of_error(error)
    return JsonResponse(body, status=error.status, content_type=problems.CONTENT_TYPE)
