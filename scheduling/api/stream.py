"""`GET /events`: what happens to jobs, as it happens (server-sent events).

Each event carries the key it has in the database, so a reader that was cut off continues with
`Last-Event-ID` and misses nothing. Who reads is checked again every few seconds and before anything is sent:
the stream ends with the key, the session or the membership. It also ends by itself after an hour, so that a
server that is being replaced is left by its readers; they come back by themselves.

The look into the database runs in a worker thread and holds no connection between two looks, so that many
open streams cost little.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final

from django.db import close_old_connections
from django.db.models import Q
from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from foundation import row_scope
from foundation.errors import AllotmentError, FieldError, Invalid
from foundation.rate_limit_middleware import TooManyRequests
from scheduling.api.serializers import EventSerializer
from scheduling.models import JobEvent
from scheduling.selectors.feed import EventFeed, event_latest
from tenants import permissions
from tenants.api.base import PlatformView
from tenants.api.query import NUMBER_MAX, QuerySerializer, read_query
from tenants.api.schema import problems
from tenants.api.streams import AnyAccept, flowing, signed_in_still
from tenants.models import User
from tenants.permissions import Permission
from tenants.row_scope import scope_of
from tenants.selectors.tenant import workspace_get

LOOK_EVERY_S: Final = 1.0
CHECK_EVERY_S: Final = 5.0
HEARTBEAT_S: Final = 15.0
LONGEST_S: Final = 3600.0
OPEN_MAX: Final = 20
"""So many streams one caller may have open at once in each web process; a page of the console needs one."""
_RETRY: Final = "retry: 3000\n\n"
_FIELD: Final = "Last-Event-ID"


_open: Counter[uuid.UUID] = Counter()
"""How many streams each caller reads from this process; changed by the one loop that serves them."""


class TooManyStreams(TooManyRequests):
    """A caller opens streams and does not close them."""

    code = "TOO_MANY_STREAMS"


class StreamQuery(QuerySerializer):
    workspace = serializers.CharField(
        required=False,
        help_text="Slug. Without it, events of all workspaces, for who sees the whole platform.",
    )
    cursor = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=NUMBER_MAX,
        help_text="As Last-Event-ID, for the first request.",
    )


class StreamedEventSerializer(EventSerializer):
    """One event; `id` is what Last-Event-ID continues after."""

    job = serializers.UUIDField(source="job_id")
    name = serializers.CharField(source="job.name")
    workspace = serializers.CharField(source="job.workspace.slug")


class EventStreamView(PlatformView):
    """Events of jobs while they happen."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="events",
        summary="What happens to jobs, as it happens",
        description=(
            "Server-sent events named `job`, each with the event as JSON. A comment every 15 s shows that "
            "the stream lives. An event named `end` says why it ends: `ACCESS_LOST` or another code of a "
            "problem, or `RECONNECT`."
        ),
        parameters=[
            StreamQuery,
            OpenApiParameter(
                _FIELD,
                OpenApiTypes.INT64,
                OpenApiParameter.HEADER,
                description="The last event seen; without it the stream begins with what comes next.",
            ),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, description="The stream."),
            **problems(404),
        },
        tags=["jobs"],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Begin the stream."""
        query = read_query(request, StreamQuery)
        slug = query.get("workspace", "")
        _scope(self.viewer, slug)
        if _open[self.viewer.pk] >= OPEN_MAX:
            message = _("You have %(count)s event streams open already; close one first.")
            raise TooManyStreams(message % {"count": OPEN_MAX}, numbers={"limit": OPEN_MAX})
        after = _last_event(request.headers.get(_FIELD), query.get("cursor"))
        reader = _Reader(request, self.viewer.pk, slug, event_latest() if after is None else after)
        return flowing(reader.stream(), "text/event-stream; charset=utf-8")


def _scope(viewer: User, slug: str) -> Q:
    """Which events the viewer may read. Raises: NotFound, PermissionDenied."""
    workspace = workspace_get(viewer=viewer, slug=slug) if slug else None
    permissions.require(viewer, Permission.JOB_VIEW, workspace)
    return Q(job__workspace=workspace) if workspace else Q()


def _last_event(header: str | None, cursor: int | None) -> int | None:
    if header is None:
        return cursor
    if not header.isascii() or not header.isdecimal() or int(header) > NUMBER_MAX:
        message = _("Last-Event-ID is a number that this stream gave out.")
        raise Invalid(message, errors=[FieldError(_FIELD, "FORMAT", message)])
    return int(header)


class _Reader:
    """One open stream."""

    def __init__(self, request: Request, caller: uuid.UUID, slug: str, after: int) -> None:
        self._caller = caller
        self._request = request
        self._slug = slug
        self._feed = EventFeed(after)
        self._scope: Q | None = None
        self._checked = 0.0
        self._rows = row_scope.NOTHING

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
        yield _RETRY
        while time.monotonic() - began < LONGEST_S:
            try:
                text = await loop.run_in_executor(None, self._look)
            except AllotmentError as error:
                yield end_of_stream(error.code)
                return
            now = time.monotonic()
            if text or now - spoke >= HEARTBEAT_S:
                spoke = now
                yield text or ": still here\n\n"
            await asyncio.sleep(LOOK_EVERY_S)
        yield end_of_stream("RECONNECT")

    def _look(self) -> str:
        """What happened since the last look. Raises: PermissionDenied, NotFound when access is lost."""
        close_old_connections()
        try:
            if self._scope is None or time.monotonic() - self._checked >= CHECK_EVERY_S:
                self._scope = self._check()
            with row_scope.acting(self._rows):
                events = self._feed.poll(self._scope)
            if events:
                self._scope = self._check()
            return "".join(_text(event) for event in events)
        finally:
            close_old_connections()

    def _check(self) -> Q:
        self._checked = time.monotonic()
        user = signed_in_still(self._request)
        self._rows = scope_of(user)
        with row_scope.acting(self._rows):
            return _scope(user, self._slug)


def _text(event: JobEvent) -> str:
    data: dict[str, Any] = StreamedEventSerializer(event).data
    return f"id: {event.pk}\nevent: job\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def end_of_stream(code: str) -> str:
    """The last message of a stream: why it ends."""
    return f"event: end\ndata: {json.dumps({'code': code})}\n\n"
