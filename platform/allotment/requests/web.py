"""Answers each request in one thread, from the first middleware to the rendered body.

Django's own handler goes back and forth between the event loop and a new thread per request, once for each
change between middleware that is asynchronous and middleware that is not, and for the signals around them.
Every view here is synchronous, so all of that is waiting. What stays on the loop is reading the request and
sending the answer, which for event streams lasts long and costs no thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http.response import HttpResponse, HttpResponseBase, JsonResponse
from django.urls import set_script_prefix

from allotment.requests.bodies import BodyBudget, read_body
from foundation.core.errors import AllotmentError
from foundation.core.frame_room import call_with_room
from foundation.web.addresses import network_named
from foundation.web.problems import CONTENT_TYPE, of_error

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
THREADS: Final = 32
"""Requests in hand at once in one process; further ones wait their turn."""


class OneThreadHandler(ASGIHandler):
    """Django's handler with synchronous middleware, run in threads that are kept."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._budget = BodyBudget()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served here, not {scope['type']}")
        try:
            body = await read_body(receive, dict(scope["headers"]), self._budget, _sender(scope))
        except RequestAborted:
            return
        except AllotmentError as error:
            await self.send_response(_refusal(error, scope["path"]), send)
            return
        try:
            response = await self._in_thread(self._answer, scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            body.close()

    def _answer(self, scope: Scope, body: Any) -> HttpResponseBase:
        """The whole answer; one that flows is closed by whoever sends it."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refused = self.create_request(scope, body)
        response: HttpResponseBase | None = refused if request is None else self.get_response(request)
        if response is None:
            raise RuntimeError("a request that was neither read nor refused")
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        if not response.streaming:
            response.close()  # sends `request_finished`: this thread's connection goes back
        return response

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Send until the end of the answer or of the reader, whichever comes first."""
        sending = asyncio.ensure_future(self.send_response(response, send))
        leaving = asyncio.ensure_future(self._left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()  # nothing happens to one that is done
            await asyncio.wait((sending, leaving))
            await self._in_thread(response.close)
        if not sending.cancelled():
            sending.result()

    async def _left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, context.run, partial(call_with_room, work, *arguments)
        )


def _sender(scope: Scope) -> str:
    """The network that the request comes from; "" where it has no address, as over a unix socket."""
    host, _port = scope.get("client") or ("", 0)
    return network_named(str(host)) or ""


def _refusal(error: AllotmentError, path: str) -> HttpResponseBase:
    """The answer to a request whose body is not read to its end; the connection cannot be used again."""
    api = path.startswith("/api/")
    response: HttpResponseBase = (
        JsonResponse(of_error(error), status=error.status, content_type=CONTENT_TYPE)
        if api
        else HttpResponse(f"{error.detail}\n", status=error.status, content_type="text/plain")
    )
    response["Connection"] = "close"
    return response
