"""Django's Redis cache, with connections that are reused between requests.

`django.core.cache.caches` makes a new cache for each asynchronous context, that is for each request here, and
the stock client belongs to the cache: every request would open and close connections, and build a client for
every command. Redis clients and their pools are safe to share between threads and detect a fork, so one
client per server serves the whole process.

Values are JSON. Django's own serializer is pickle, which executes what it reads: with write access to the
server, an attacker could run code in every process that reads it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import structlog
from django.core.cache.backends.redis import RedisCache, RedisCacheClient

log = structlog.get_logger(__name__)


class SharedRedisCache(RedisCache):
    """The stock cache with shared connections; use it as `BACKEND`."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class: Any = _client


class JsonSerializer:
    """Serializes values as JSON; whole numbers in the form that Redis can increment."""

    def dumps(self, value: Any) -> int | bytes:
        """Return the stored form of a value. Raises: TypeError for a value that JSON cannot represent."""
        if type(value) is int:  # and not bool, which Redis could not increment
            return value
        return json.dumps(value, separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        """Return the value of stored data. Raises: ValueError for any data that is no JSON."""
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


class _Client(RedisCacheClient):
    """Uses one Redis client for reads, and one for writes."""

    def __init__(self, servers: Any, **options: Any) -> None:
        # Not read from the settings, so that no setting can restore pickle.
        super().__init__(servers, **{**options, "serializer": JsonSerializer})
        self._clients: dict[bool, Any] = {}

    def get(self, key: Any, default: Any) -> Any:
        """Return the value, or `default` if it is missing or cannot be read."""
        try:
            return super().get(key, default)
        except ValueError as error:
            log.warning("a value of the cache cannot be read", key=str(key), why=str(error))
            return default

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        if write not in self._clients:
            # Two threads at once may make two clients; the later one stays.
            self._clients[write] = super().get_client(key, write=write)
        return self._clients[write]


def _client(servers: list[str], **options: Any) -> _Client:
    return _shared_client(tuple(servers), tuple(sorted(options.items())))


@cache
def _shared_client(servers: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> _Client:
    return _Client([*servers], **dict(options))
