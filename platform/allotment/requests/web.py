"""Answers each request in one thread, from the first middleware to the rendered body.

Django's own handler switches between the event loop and a new thread per request, once for each change
between asynchronous and synchronous middleware, and for the signals around them. Every view here is
synchronous, so all of that is waiting. Only reading the request and sending the response stay on the loop;
sending an event stream takes long and costs no thread.
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
"""The most requests in one process that are processed at once; further requests wait."""


class OneThreadHandler(ASGIHandler):
    """Django's handler with synchronous middleware, run in a pool of threads."""

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
        """Return the complete response; a streaming response is closed by the code that sends it."""
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
        """Send until the response ends or the client disconnects, whichever comes first."""
        sending = asyncio.ensure_future(self.send_response(response, send))
        leaving = asyncio.ensure_future(self._left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()  # no effect on a task that is done
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
    """Return the network that the request comes from; "" without an address, as over a unix socket."""
    host, _port = scope.get("client") or ("", 0)
    return network_named(str(host)) or ""


def _refusal(error: AllotmentError, path: str) -> HttpResponseBase:
    """Return the response to a request whose body is not read to its end; its connection cannot be reused."""
    api = path.startswith("/api/")
    response: HttpResponseBase = (
        JsonResponse(of_error(error), status=error.status, content_type=CONTENT_TYPE)
        if api
        else HttpResponse(f"{error.detail}\n", status=error.status, content_type="text/plain")
    )
    response["Connection"] = "close"
    return response
