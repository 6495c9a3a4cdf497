"""Gives every request an id and stores its origin."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Final

import structlog
from django.http import HttpRequest, HttpResponse

from foundation.core.actor import RequestOrigin, origin

_ACCEPTABLE: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")


class RequestIdMiddleware:
    """Give the request an id of the platform's own, return it as `X-Request-ID` and bind it to the log.

    An id that the caller sends is logged as well and used nowhere else: in the audit log it could imitate
    another request's.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request_id = uuid.uuid4().hex
        named = {"client_request_id": given} if _ACCEPTABLE.fullmatch(given) else {}
        token = origin.set(RequestOrigin(request_id, request.META.get("REMOTE_ADDR", "")))
        try:
            with structlog.contextvars.bound_contextvars(request_id=request_id, **named):
                response = self.get_response(request)
        finally:
            origin.reset(token)
        response["X-Request-ID"] = request_id
        return response
