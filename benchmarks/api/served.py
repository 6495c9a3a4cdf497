"""The platform's web application, telling in `Server-Timing` how long each answer took to begin.

Measured from the request's arrival in the process, so that waiting for a thread or for the database counts,
and the client's own time does not.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from allotment.asgi import application as platform

Message = MutableMapping[str, Any]


async def application(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    begun = time.perf_counter()

    async def timed(message: Message) -> None:
        if message["type"] == "http.response.start":
            spent_ms = 1000 * (time.perf_counter() - begun)
            message["headers"] = [*message["headers"], (b"server-timing", f"app;dur={spent_ms:.3f}".encode())]
        await send(message)

    await platform(scope, receive, timed)
