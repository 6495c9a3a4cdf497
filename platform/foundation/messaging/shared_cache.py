"""Django's cache in Redis with its connections kept from one request to the next.

`django.core.cache.caches` makes a new cache for each asynchronous context, that is for each request here, and
the stock client keeps its connections with the cache: every request would open one and close it again, and
build a client for every command. Redis clients and their pools are safe to share between threads and notice
a fork, so that one of each server serves the whole process.

Values are JSON. Django's own serializer is pickle, which runs what it reads: whoever could write to the
server would run code in every process that asks it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import structlog
from django.core.cache.backends.redis import RedisCache, RedisCacheClient

log = structlog.get_logger(__name__)


class SharedRedisCache(RedisCache):
    """The stock cache but for who keeps the connections; use it as `BACKEND`."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class: Any = _client


class JsonSerializer:
    """Values as JSON; whole numbers stand as Redis counts them."""

    def dumps(self, value: Any) -> int | bytes:
        """The value as it is kept. Raises: TypeError for what JSON cannot hold."""
        if type(value) is int:  # and not bool, which Redis could not count up
            return value
        return json.dumps(value, separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        """The value that was kept. Raises: ValueError for anything else, whoever wrote it."""
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


class _Client(RedisCacheClient):
    """Answers reads from one Redis client, and writes from one."""

    def __init__(self, servers: Any, **options: Any) -> None:
        # Not an option of the settings, so that no setting can bring pickle back.
        super().__init__(servers, **{**options, "serializer": JsonSerializer})
        self._clients: dict[bool, Any] = {}

    def get(self, key: Any, default: Any) -> Any:
        """The value, or `default` for what is not there or cannot be read, whoever wrote it."""
        try:
            return super().get(key, default)
        except ValueError as error:
            log.warning("a value of the cache cannot be read", key=str(key), why=str(error))
            return default

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        if write not in self._clients:
            # Two threads at once make two of the same; the later one stays.
            self._clients[write] = super().get_client(key, write=write)
        return self._clients[write]


def _client(servers: list[str], **options: Any) -> _Client:
    return _shared_client(tuple(servers), tuple(sorted(options.items())))


@cache
def _shared_client(servers: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> _Client:
    return _Client([*servers], **dict(options))
