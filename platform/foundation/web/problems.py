"""problem+json (RFC 9457): one shape for every error the API answers."""

from __future__ import annotations

import sys
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import ProgrammingError
from django.http import Http404, HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_exception_handler

from foundation.core.actor import origin
from foundation.core.errors import AllotmentError, FieldError, NotFound, PermissionDenied
from foundation.monitoring.outages import find_outage

log = structlog.get_logger(__name__)
CONTENT_TYPE = "application/problem+json"
_INSUFFICIENT_PRIVILEGE = "42501"


def problem_body(
    *, status: int, code: str, title: str, detail: str, errors: tuple[FieldError, ...] = (), **extra: Any
) -> dict[str, Any]:
    """Return the body of a problem; `extra` keys are added to the standard ones."""
    body: dict[str, Any] = {
        "type": f"about:blank#{code.lower()}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": origin.get().request_id,
        "code": code,
        "errors": [{"field": e.field, "code": e.code, "message": e.message} for e in errors],
    }
    return body | extra


def of_error(error: AllotmentError) -> dict[str, Any]:
    """Return the problem for an `AllotmentError`."""
    extra = {"numbers": error.numbers} if error.numbers else {}
    return problem_body(
        status=error.status,
        code=error.code,
        title=str(error.title),
        detail=error.detail,
        errors=error.errors,
        **extra,
    )


def _flatten(detail: Any, path: str = "") -> list[FieldError]:
    if isinstance(detail, dict):
        return [e for key, value in detail.items() for e in _flatten(value, f"{path}.{key}".lstrip("."))]
    if isinstance(detail, list):
        if all(isinstance(item, exceptions.ErrorDetail) for item in detail):
            return [FieldError(path, str(item.code), str(item)) for item in detail]
        return [e for i, item in enumerate(detail) for e in _flatten(item, f"{path}.{i}".lstrip("."))]
    return [FieldError(path, getattr(detail, "code", "invalid"), str(detail))]


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn any exception of a view into a problem response; a hook of DRF."""
    if isinstance(error, Http404):
        error = NotFound()
    elif isinstance(error, DjangoPermissionDenied):
        error = PermissionDenied(str(error))
    elif _of_policy(error):
        # The application permitted what a row policy refused: the caller gets no details.
        log.error("refused by a policy on rows", exc_info=error)
        error = NotFound()
    elif not isinstance(error, AllotmentError | exceptions.APIException) and (found := find_outage(error)):
        log.error("outage", code=found.code, exc_info=error)
        error = found
    if isinstance(error, AllotmentError):
        return Response(of_error(error), status=error.status, content_type=CONTENT_TYPE)
    response = drf_exception_handler(error, context)
    if response is None or not isinstance(error, exceptions.APIException):
        return response
    validation = isinstance(error, exceptions.ValidationError)
    response.data = problem_body(
        status=response.status_code,
        code="INVALID" if validation else str(error.default_code).upper(),
        title=str(error.default_detail),
        detail=str(error.default_detail) if validation else str(error.detail),
        errors=tuple(_flatten(error.detail)) if validation else (),
    )
    response.content_type = CONTENT_TYPE
    return response


def _of_policy(error: Exception) -> bool:
    sqlstate = getattr(error.__cause__, "sqlstate", "")
    return isinstance(error, ProgrammingError) and sqlstate == _INSUFFICIENT_PRIVILEGE


def server_error(request: HttpRequest) -> JsonResponse:
    """Return the response to a failure outside DRF, in the same format and without a traceback."""
    found = find_outage(sys.exception())
    if found is not None:
        return JsonResponse(of_error(found), status=found.status, content_type=CONTENT_TYPE)
    body = problem_body(
        status=500,
        code="INTERNAL",
        title=_("Internal error"),
        detail=_("Internal error. Give the request ID to a platform admin."),
    )
    return JsonResponse(body, status=500, content_type=CONTENT_TYPE)
