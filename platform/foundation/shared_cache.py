"""Django's cache in Redis with its connections kept from one request to the next.

`django.core.cache.caches` makes a new cache for each asynchronous context, that is for each request here, and
the stock client keeps its connections with the cache: every request would open one and close it again, and
build a client for every command. Redis clients and their pools are safe to share between threads and notice
a fork, so that one of each server serves the whole process.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.cache.backends.redis import RedisCache, RedisCacheClient


class KeptRedisCache(RedisCache):
    """The stock cache but for who keeps the connections; use it as `BACKEND`."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class: Any = _client


class _Client(RedisCacheClient):
    """Answers reads from one Redis client, and writes from one."""

    def __init__(self, servers: Any, **options: Any) -> None:
        super().__init__(servers, **options)
        self._clients: dict[bool, Any] = {}

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        if write not in self._clients:
            # Two threads at once make two of the same; the later one stays.
            self._clients[write] = super().get_client(key, write=write)
        return self._clients[write]


def _client(servers: list[str], **options: Any) -> _Client:
    return _kept(tuple(servers), tuple(sorted(options.items())))


@cache
def _kept(servers: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> _Client:
    return _Client([*servers], **dict(options))
