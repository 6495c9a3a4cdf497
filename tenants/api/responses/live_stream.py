"""A stream of server-sent events that polls for news until there is no more to come.

Each poll runs in a worker thread and holds no connection afterwards, so that many open streams cost little. A
comment every few seconds shows that the stream is alive. The stream ends after an hour, so that readers move
off a server that is being replaced; clients reconnect automatically.
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
    """The caller has too many open streams."""

    code = "TOO_MANY_STREAMS"


class LiveStream(ABC):
    """One open stream of one caller. Each subclass defines how it polls, and counts its own streams."""

    look_every_s: ClassVar[float]
    longest_s: ClassVar[float] = 3600.0
    opening: ClassVar[str] = ""
    """The text that is sent before the first poll."""
    threads: ClassVar[Executor | None] = None
    """The executor of polls; None: the default executor."""
    open_max: ClassVar[int]
    """The maximum number of streams of this class that one caller may have open in each web process."""
    opened: ClassVar[Counter[uuid.UUID]]
    """The number of open streams of each caller in this process; changed by a single event loop."""

    def __init__(self, caller: uuid.UUID) -> None:
        self._caller = caller
        self._language = translation.get_language()

    @abstractmethod
    def poll_text(self) -> tuple[str, bool]:
        """Return new text, and whether that was all. Raises: AllotmentError, which ends the stream."""

    @classmethod
    def require_room(cls, caller: uuid.UUID, refusal: str) -> None:
        """Refuse a stream above the maximum, with a message that contains `count`. Raises: TooManyStreams."""
        if cls.opened[caller] >= cls.open_max:
            raise TooManyStreams(refusal % {"count": cls.open_max}, numbers={"limit": cls.open_max})

    def build_response(self) -> StreamingHttpResponse:
        """Return the streaming response."""
        return streaming_response(self.stream_text(), "text/event-stream; charset=utf-8")

    async def stream_text(self) -> AsyncIterator[str]:
        """Yield the text of the stream, piece by piece."""
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
                # Each poll runs in its own context, because the scopes of a key are bound in it.
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
            with translation.override(self._language):  # a worker thread has no active language
                return self.poll_text()
        finally:
            close_old_connections()


def _end(code: str, detail: str = "") -> str:
    """Return the last message: why the stream ends, with the problem's text for the reader, if any."""
    data = {"code": code, "detail": detail} if detail else {"code": code}
    return f"event: end\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
