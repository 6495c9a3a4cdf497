"""Rate limits: reads and writes a minute per access key, user or address, reported in every response.

Counted in the shared cache by an atomic increment, so that all web processes count together. Windows have a
fixed length of one minute: simple enough that `RateLimit-Reset` is exact. If the cache does not answer, no
request is counted and no header is sent: the limits must not take the API down with the broker.

Failed sign-ins are counted per address and checked before anything else, so that guessing keys is slow;
see `foundation.web.rate_limit_middleware`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
from django.conf import settings
from django.core.cache import DEFAULT_CACHE_ALIAS, cache, caches
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from foundation.core import clock
from foundation.web.addresses import address_of

if TYPE_CHECKING:
    # Views load their default throttles, including this one, while their own module is being imported.
    from rest_framework.views import APIView

log = structlog.get_logger(__name__)
WINDOW_S: Final = 60
_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RateUsage:
    """A caller's use of a limit in the present window, which ends in `reset_s` seconds."""

    limit: int
    used: int
    reset_s: int

    @property
    def exceeded(self) -> bool:
        return self.used > self.limit

    def build_headers(self) -> dict[str, str]:
        """Build the headers of draft-ietf-httpapi-ratelimit-headers-07."""
        values = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(0, self.limit - self.used)),
            "RateLimit-Reset": str(self.reset_s),
            "RateLimit-Policy": f"{self.limit};w={WINDOW_S}",
        }
        return values | ({"Retry-After": str(self.reset_s)} if self.exceeded else {})


class _Counter:
    """Counts in the cache, and pauses for a while after the cache failed."""

    def __init__(self) -> None:
        self._paused_until = 0.0

    def count_requests(self, bucket: str, who: str, by: int) -> RateUsage | None:
        """Add `by` to the caller's use of the bucket and return it; None without a limit or a cache."""
        limit = settings.ALLOTMENT_RATES.get(bucket, 0)
        if not limit or time.monotonic() < self._paused_until:
            return None
        now = clock.now().timestamp()
        window, into = divmod(int(now), WINDOW_S)
        key = f"rate:{bucket}:{who}:{window}"
        try:
            used = _added(key, by) if by else cache.get(key, 0)
            if not isinstance(used, int):
                raise ValueError(f"{key} holds no count")
        except (RedisError, OSError, ValueError) as error:
            self._paused_until = time.monotonic() + _PAUSE_S
            log.warning("requests are not counted", why=str(error))
            return None
        return RateUsage(limit, used, WINDOW_S - into)


def _added(key: str, by: int) -> int:
    """Add to the value at the key and return it; the key expires some time after its window."""
    shared = caches[DEFAULT_CACHE_ALIAS]
    if not isinstance(shared, RedisCache):
        cache.add(key, 0, timeout=2 * WINDOW_S)
        return int(cache.incr(key, by))
    # One round trip; the cache's own methods take three, and the broker writes two of them to disk.
    name: Any = shared.make_and_validate_key(key)
    with shared._cache.get_client(name, write=True).pipeline(transaction=False) as sent:
        sent.set(name, 0, ex=2 * WINDOW_S, nx=True)
        sent.incrby(name, by)
        return int(sent.execute()[1])


counter = _Counter()


class CallerRate(BaseThrottle):
    """Counts the requests of an access key, a user or an address; reads and writes separately."""

    usage: RateUsage | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        bucket = "read" if request.method in SAFE_METHODS else "write"
        self.usage = counter.count_requests(bucket, _caller(request), 1)
        request._request.rate_usage = self.usage  # type: ignore[attr-defined]
        return self.usage is None or not self.usage.exceeded

    def wait(self) -> float | None:
        return self.usage.reset_s if self.usage else None


def _caller(request: Request) -> str:
    key = getattr(request.auth, "pk", None)
    if key is not None:
        return f"key:{key}"
    user = request.user.pk if request.user else None
    return f"user:{user}" if user else f"address:{address_of(request)}"
