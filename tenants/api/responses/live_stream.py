"""A stream of server-sent events that looks for news again and again, until there is no more to come.

Each look runs in a worker thread and holds no connection when it is over, so that many open streams cost
little. A comment shows every few seconds that the stream lives. It ends by itself after an hour, so that a
server that is being replaced is left by its readers; they come back by themselves.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextvars import copy_context
from typing import ClassVar, Final

from django.db import close_old_connections
from django.http import StreamingHttpResponse
from django.utils import translation

from foundation.core.errors import AllotmentError
from foundation.web.rate_limit_middleware import TooManyRequests
from tenants.api.responses.streams import streaming_response

HEARTBEAT_S: Final = 15.0


class TooManyStreams(TooManyRequests):
    """A caller opens streams and does not close them."""

    code = "TOO_MANY_STREAMS"


class LiveStream(ABC):
    """One open stream of one caller. Each kind says how it looks, and counts its own."""

    look_every_s: ClassVar[float]
    longest_s: ClassVar[float] = 3600.0
    opening: ClassVar[str] = ""
    """What is sent before the first look."""
    threads: ClassVar[Executor | None] = None
    """Where it looks; None: where the server does everything else."""
    open_max: ClassVar[int]
    """So many of this kind one caller may have open at once in each web process."""
    opened: ClassVar[Counter[uuid.UUID]]
    """How many each caller reads from this process; changed by the one loop that serves them."""

    def __init__(self, caller: uuid.UUID) -> None:
        self._caller = caller
        self._language = translation.get_language()

    @abstractmethod
    def poll_text(self) -> tuple[str, bool]:
        """Return new text, and whether that was all. Raises: AllotmentError, which ends the stream."""

    @classmethod
    def require_room(cls, caller: uuid.UUID, refusal: str) -> None:
        """Refuse one stream too many, in words with `count`. Raises: TooManyStreams."""
        if cls.opened[caller] >= cls.open_max:
            raise TooManyStreams(refusal % {"count": cls.open_max}, numbers={"limit": cls.open_max})

    def build_response(self) -> StreamingHttpResponse:
        """The answer that flows."""
        return streaming_response(self.stream_text(), "text/event-stream; charset=utf-8")

    async def stream_text(self) -> AsyncIterator[str]:
        """The text of the stream, piece by piece."""
        self.opened[self._caller] += 1
        try:
            async for piece in self._pieces():
                yield piece
        finally:
            self.opened[self._caller] -= 1
            if not self.opened[self._caller]:
                del self.opened[self._caller]

    async def _pieces(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        began = spoke = time.monotonic()
        if self.opening:
            yield self.opening
        while time.monotonic() - began < self.longest_s:
            try:
                # A context of its own for each look: the scopes of a key bound this one and no other.
                text, over = await loop.run_in_executor(self.threads, copy_context().run, self._look)
            except AllotmentError as error:
                yield _end(error.code, error.detail)
                return
            now = time.monotonic()
            if text or now - spoke >= HEARTBEAT_S:
                spoke = now
                yield text or ": still here\n\n"
            if over:
                yield _end("ENDED")
                return
            await asyncio.sleep(self.look_every_s)
        yield _end("RECONNECT")

    def _look(self) -> tuple[str, bool]:
        close_old_connections()
        try:
            with translation.override(self._language):  # a worker thread has none of its own
                return self.poll_text()
        finally:
            close_old_connections()


def _end(code: str, detail: str = "") -> str:
    """The last message: why the stream ends, where it is a problem in the reader's language as well."""
    data = {"code": code, "detail": detail} if detail else {"code": code}
    return f"event: end\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
