"""Reports rate limits to callers, and refuses requests of addresses with too many failed sign-ins.

The REST API counts its callers itself (`foundation.web.rate_limit.CallerRate`); pages are counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework.permissions import SAFE_METHODS

from foundation.core.errors import AllotmentError
from foundation.web import problems, rate_limit
from foundation.web.addresses import address_of
from foundation.web.rate_limit import RateUsage

# Paths that take a key or a token: an address with too many wrong ones is refused.
_KEYED: Final = ("/api/", "/metrics")
# Probes by machines that must get an answer: refusing one would end the process.
_PROBES: Final = ("/livez", "/readyz")


class TooManyRequests(AllotmentError):
    """The caller exceeded the limit of one window."""

    code = "THROTTLED"
    title = gettext_lazy("Too many requests")
    status = 429


class RateLimitMiddleware:
    """Writes the headers, and refuses callers with too many failed sign-ins or page requests."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(_KEYED):
            return self._page(request)
        failures = rate_limit.counter.count_requests("sign-in", address_of(request), 0)
        if failures is not None and failures.used >= failures.limit:
            return _turned_away(failures)
        response = self.get_response(request)
        if response.status_code == 401:
            rate_limit.counter.count_requests("sign-in", address_of(request), 1)
        usage: RateUsage | None = getattr(request, "rate_usage", None)
        for name, value in (usage.build_headers() if usage else {}).items():
            response[name] = value
        return response

    def _page(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(_PROBES):
            return self.get_response(request)
        kind = "read" if request.method in SAFE_METHODS else "write"
        # Without the cookie there is no session to read.
        known = request.user.pk if settings.SESSION_COOKIE_NAME in request.COOKIES else None
        bucket, caller = (kind, f"page:{known}") if known else (f"stranger-{kind}", address_of(request))
        usage = rate_limit.counter.count_requests(bucket, caller, 1)
        if usage is None or not usage.exceeded:
            return self.get_response(request)
        text = _("Too many requests. Try again in %(seconds)s s.") % {"seconds": usage.reset_s}
        response = HttpResponse(text, status=TooManyRequests.status, content_type="text/plain; charset=utf-8")
        response["Retry-After"] = str(usage.reset_s)
        return response


def _turned_away(usage: RateUsage) -> HttpResponse:
    error = TooManyRequests(_("Too many requests without a valid sign-in. Try again later."))
    response = JsonResponse(problems.of_error(error), status=error.status, content_type=problems.CONTENT_TYPE)
    response["Retry-After"] = str(usage.reset_s)
    return response
