"""`GET …/jobs/{job}/logs?follow=true`: what its tasks print, as they print it (server-sent events).

It is the way of `/events`: looks in worker threads, no connection held in between, who reads is asked again
who they are, and the stream ends after an hour. The threads are its own, because a cluster that hangs keeps
one busy until its time limit.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from django.db import close_old_connections
from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _
from rest_framework.request import Request

from foundation import row_scope
from foundation.errors import AllotmentError
from scheduling.api.stream import HEARTBEAT_S, LONGEST_S, TooManyStreams, end_of_stream
from scheduling.models import Job
from scheduling.selectors.log_follow import LogFollower
from scheduling.selectors.logs import LogLine, LogQuery
from tenants.api.streams import flowing, signed_in_still
from tenants.models import User
from tenants.row_scope import scope_of
from tenants.selectors.tenant import workspace_get

LOOK_EVERY_S: Final = 2.0
OPEN_MAX: Final = 5
"""So many jobs one caller may follow at once in each web process."""
_AT_ONCE: Final = 8

_looks: Executor = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="logs")
_open: Counter[uuid.UUID] = Counter()
"""How many jobs each caller follows from this process; changed by the one loop that serves them."""


def follow(request: Request, viewer: User, job: Job, query: LogQuery) -> StreamingHttpResponse:
    """Begin the stream. Raises: TooManyStreams."""
    if _open[viewer.pk] >= OPEN_MAX:
        message = _("You follow the logs of %(count)s jobs already; close one first.")
        raise TooManyStreams(message % {"count": OPEN_MAX}, numbers={"limit": OPEN_MAX})
    reader = Reader(request, viewer.pk, job.workspace.slug, LogFollower(job.pk, query))
    return flowing(reader.stream(), "text/event-stream; charset=utf-8")


class Reader:
    """One open stream."""

    def __init__(self, request: Request, caller: uuid.UUID, slug: str, follower: LogFollower) -> None:
        self._request, self._caller, self._slug, self._follower = request, caller, slug, follower

    async def stream(self) -> AsyncIterator[str]:
        """The text of the stream, piece by piece."""
        _open[self._caller] += 1
        try:
            async for piece in self._pieces():
                yield piece
        finally:
            _open[self._caller] -= 1
            if not _open[self._caller]:
                del _open[self._caller]

    async def _pieces(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        began = spoke = time.monotonic()
        while time.monotonic() - began < LONGEST_S:
            try:
                text, over = await loop.run_in_executor(_looks, self._look)
            except AllotmentError as error:
                yield end_of_stream(error.code)
                return
            now = time.monotonic()
            if text or now - spoke >= HEARTBEAT_S:
                spoke = now
                yield text or ": still here\n\n"
            if over:
                yield end_of_stream("ENDED")
                return
            await asyncio.sleep(LOOK_EVERY_S)
        yield end_of_stream("RECONNECT")

    def _look(self) -> tuple[str, bool]:
        """What is new as text, and whether that was all. Raises: AllotmentError."""
        close_old_connections()
        try:
            user = signed_in_still(self._request)
            with row_scope.acting(scope_of(user)):
                workspace = workspace_get(viewer=user, slug=self._slug)
                news = self._follower.look(viewer=user, workspace=workspace)
            return "".join(map(_text, news.lines)), news.over
        finally:
            close_old_connections()


def _text(line: LogLine) -> str:
    at = line.at.isoformat() if line.at else None
    data = {"task": line.task, "at": at, "text": line.text}
    return f"event: line\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
