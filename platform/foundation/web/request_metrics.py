"""Counts requests by route and status, and measures how long they took."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from django.db import connection
from django.http import HttpRequest, HttpResponse

from foundation.monitoring import counters
from foundation.monitoring.counters import Counter, Histogram

REQUESTS: Final = Counter(
    "allotment_http_requests_total", "Requests answered.", ("method", "route", "status")
)
SECONDS: Final = Histogram(
    "allotment_http_request_seconds",
    "From the request to its answer; of a stream, to its beginning.",
    ("method", "route"),
)
POOL_USES: Final = Counter("allotment_database_pool_uses_total", "Connections asked of the pool.")
POOL_WAITS: Final = Counter("allotment_database_pool_waits_total", "Uses that waited for a connection.")
POOL_WAIT: Final = Counter("allotment_database_pool_wait_seconds_total", "How long they waited in all.")
POOL_ERRORS: Final = Counter(
    "allotment_database_pool_errors_total", "Uses that got no connection, and connections that failed."
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PROBES: Final = frozenset({"livez", "readyz", "readyz/platform", "metrics"})


class HttpMeasuresMiddleware:
    """Runs outside of all other middleware that may refuse a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.monotonic()
        response = self.get_response(request)
        match = request.resolver_match
        route = match.route if match else ""  # an unknown path could be anything
        if route not in _PROBES:
            # Clients may invent methods.
            method = str(request.method) if request.method in _METHODS else "OTHER"
            REQUESTS.add(method=method, route=route, status=str(response.status_code))
            SECONDS.observe(time.monotonic() - begun, method=method, route=route)
        if counters.is_due():
            count_pool()
            counters.write_beside()
        return response


def count_pool() -> None:
    """Count this process's requests to its pool since the last call; nothing without a pool."""
    pool: Any = getattr(connection, "pool", None)
    if pool is None:
        return
    found = pool.pop_stats()
    for measure, names, unit in (
        (POOL_USES, ("requests_num",), 1),
        (POOL_WAITS, ("requests_queued",), 1),
        (POOL_WAIT, ("requests_wait_ms",), 1000),
        (POOL_ERRORS, ("requests_errors", "connections_errors", "connections_lost"), 1),
    ):
        if value := sum(found.get(name, 0) for name in names):
            measure.add(value / unit)
