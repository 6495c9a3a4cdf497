"""Errors outside REST views: problem+json below `/api/`, pages elsewhere."""

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
    """Respond to input that never became a request: an unknown host, or an unreadable header."""
    if not request.path.startswith(_API):
        return defaults.bad_request(request, exception)
    return _problem(Invalid())


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Respond to a request that was refused before any view ran."""
    if not request.path.startswith(_API):
        return defaults.permission_denied(request, exception)
    return _problem(PermissionDenied())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Respond to a request for an unknown address."""
    if not request.path.startswith(_API):
        return defaults.page_not_found(request, exception)
    return _problem(NotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    """Respond after an unexpected error, which was logged; no details are shown."""
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
