"""The platform's web application with a `Server-Timing` header: the cost of each response until it began.

`app` is the time since the request arrived in the process, so that waiting for a thread or for the database
counts, and the client's own time does not. `db` is the part of it that statements took, `desc` their number.
`cpu` is the processor time of the process in that time, which is the request's own if no other request is
handled.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from django.db.backends.signals import connection_created

from allotment.asgi import application as platform

Message = dict[str, Any]
_spent: ContextVar[list[float] | None] = ContextVar("spent", default=None)


def _watch(connection: Any, **_: Any) -> None:
    if _timed not in connection.execute_wrappers:
        connection.execute_wrappers.append(_timed)


def _timed(execute: Callable[..., Any], *arguments: Any) -> Any:
    begun = time.perf_counter()
    try:
        return execute(*arguments)
    finally:
        spent = _spent.get()
        if spent is not None:
            spent.append(time.perf_counter() - begun)


connection_created.connect(_watch, dispatch_uid="bench", weak=False)


async def serve_application(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Mapping[str, Any]], Awaitable[None]],
) -> None:
    begun, worked = time.perf_counter(), time.process_time()
    spent: list[float] = []
    _spent.set(spent)  # the threads of a request share the list

    async def send_message(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            app = f"app;dur={1000 * (time.perf_counter() - begun):.3f}"
            database = f'db;dur={1000 * sum(spent):.3f};desc="{len(spent)}"'
            cpu = f"cpu;dur={1000 * (time.process_time() - worked):.3f}"
            header = (b"server-timing", f"{app}, {database}, {cpu}".encode())
            message = {**message, "headers": [*message["headers"], header]}
        await send(message)

    await platform(scope, receive, send_message)
