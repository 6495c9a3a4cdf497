"""Faults of an API server as its callers see them; injected in one process, before its calls go out."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import urllib3
from urllib3.exceptions import NewConnectionError, ProtocolError, ReadTimeoutError

from clusters.backends.kubernetes.client.api import KubernetesApi

Open = Callable[..., urllib3.BaseHTTPResponse]
_POOL: Final = urllib3.HTTPSConnectionPool("cluster.invalid")


class ApiFault(StrEnum):
    """A kind of fault of the API server."""

    SWALLOWED = "swallowed"  # carried out, but the answer is lost
    ERROR_AFTER = "error-after"  # carried out, but answered by a 500
    TOO_MANY = "too-many"  # 429, nothing is done
    BROKEN = "broken"  # 500, nothing is done
    FROZEN = "frozen"  # no call is answered any more, nothing is done
    UNREACHABLE = "unreachable"  # no connection
    REVOKED = "revoked"  # 401 to everything
    FORGOTTEN = "forgotten"  # 410 to every watch
    CUT = "cut"  # each watch breaks off after its first line


_LASTING: Final = (ApiFault.FROZEN, ApiFault.UNREACHABLE, ApiFault.REVOKED, ApiFault.FORGOTTEN, ApiFault.CUT)
_WRITES: Final = (ApiFault.SWALLOWED, ApiFault.ERROR_AFTER)
_WATCHES: Final = (ApiFault.FORGOTTEN, ApiFault.CUT)
_STATUS: Final = {
    ApiFault.ERROR_AFTER: 500,
    ApiFault.TOO_MANY: 429,
    ApiFault.BROKEN: 500,
    ApiFault.REVOKED: 401,
    ApiFault.FORGOTTEN: 410,
}

API_FAULTS: Final = {
    "execute": [fault for fault in ApiFault if fault not in _WATCHES],
    "observe": [fault for fault in ApiFault if fault not in _WRITES],
}
"""The faults that may hit the calls of a step: `execute` writes, `observe` watches."""


@dataclass
class BadDay:
    """A fault that hits calls from `first` on: the next `calls` of them, or all for a lasting fault.

    `met` counts the calls that were hit. Several threads make calls.
    """

    kind: ApiFault
    first: int
    calls: int
    met: int = 0
    _seen: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    @contextmanager
    def drawn(cls, kind: str | None, draw: random.Random) -> Iterator[BadDay]:
        """Draw a fault of a kind that begins among the first calls of the block; None draws no fault."""
        day = cls(ApiFault(kind or ApiFault.SWALLOWED), draw.randrange(4), draw.randint(1, 6))
        whole: Open = KubernetesApi._open
        if kind:
            KubernetesApi._open = day._instead_of(whole)  # type: ignore[method-assign]
        try:
            yield day
        finally:
            KubernetesApi._open = whole  # type: ignore[method-assign]

    def _instead_of(self, whole: Open) -> Open:
        day = self

        def hit(
            api: KubernetesApi, method: str, path: str, query: Mapping[str, str | int], *more: Any
        ) -> urllib3.BaseHTTPResponse:
            def call() -> urllib3.BaseHTTPResponse:
                return whole(api, method, path, query, *more)

            watching = "watch" in query
            return day._answer(call) if day._hits(method, watching=watching) else call()

        return hit

    def _hits(self, method: str, *, watching: bool) -> bool:
        if self.kind in _WATCHES and not watching:
            return False
        if self.kind in _WRITES and method == "GET":
            return False
        with self._guard:
            self._seen += 1
            lasting = self.kind in _LASTING
            hits = self._seen > self.first and (lasting or self._seen <= self.first + self.calls)
            self.met += hits
        return hits

    def _answer(self, call: Callable[[], urllib3.BaseHTTPResponse]) -> urllib3.BaseHTTPResponse:
        match self.kind:
            case ApiFault.SWALLOWED:
                _ = call().data
                raise ProtocolError("the connection was lost before the answer came")
            case ApiFault.ERROR_AFTER:
                _ = call().data
            case ApiFault.FROZEN:
                raise ReadTimeoutError(_POOL, "/", "no answer came")
            case ApiFault.UNREACHABLE:
                raise NewConnectionError(_POOL, "refused")  # type: ignore[arg-type]  # only for the error message
            case ApiFault.CUT:
                return _Cut(call())  # type: ignore[return-value]  # what is used of an answer
        headers = {"Retry-After": "0"} if self.kind is ApiFault.TOO_MANY else {}
        body = b'{"kind": "Status", "reason": "Injected", "message": "injected"}'
        return urllib3.HTTPResponse(
            body, headers=headers, status=_STATUS[self.kind], preload_content=False, decode_content=False
        )


class _Cut:
    """An answer that breaks off after its first piece."""

    def __init__(self, whole: urllib3.BaseHTTPResponse) -> None:
        self._whole, self.status = whole, whole.status

    @property
    def data(self) -> bytes:
        return self._whole.data

    def stream(self, **options: Any) -> Any:
        for piece in self._whole.stream(**options):
            yield piece
            raise ProtocolError("the watch was cut")

    def close(self) -> None:
        self._whole.close()
