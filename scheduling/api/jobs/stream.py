"""`GET /events`: the events of jobs as server-sent events.

Each event has its key in the database, so a reader that was disconnected continues with `Last-Event-ID` and
misses no event. The reader's permission is checked again every few seconds and before events are sent: the
stream ends with the API key, the session or the membership.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from typing import Any, ClassVar, Final

from django.db.models import Q
from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from foundation.core.errors import FieldError, Invalid
from foundation.core.numbers import read_whole
from foundation.sql import row_scope
from scheduling.api.jobs.serializers import EventSerializer
from scheduling.models import JobEvent
from scheduling.selectors.events.feed import EventFeed, event_latest
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.access.row_scope import scope_of
from tenants.api.requests.base import PlatformView
from tenants.api.requests.query import NUMBER_MAX, QuerySerializer, read_query
from tenants.api.responses.live_stream import LiveStream
from tenants.api.responses.schema import problem_responses
from tenants.api.responses.streams import AnyAccept, signed_in_still
from tenants.models import User
from tenants.selectors.tenant import workspace_get

CHECK_EVERY_S: Final = 5.0
_FIELD: Final = "Last-Event-ID"


class StreamQuery(QuerySerializer):
    workspace = serializers.CharField(
        required=False,
        help_text=(
            "Workspace ID. If omitted, events of all workspaces; requires platform-level view permission."
        ),
    )
    cursor = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=NUMBER_MAX,
        help_text="Same as Last-Event-ID, for the first request.",
    )


class StreamedEventSerializer(EventSerializer):
    """One event; `id` is what Last-Event-ID continues after."""

    job = serializers.UUIDField(source="job_id")
    name = serializers.CharField(source="job.name")
    workspace = serializers.CharField(source="job.workspace.slug")


class EventStreamView(PlatformView):
    """The stream of job events."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="events",
        summary="Stream of job events",
        description=(
            "Server-sent events named `job`, each with the event as JSON. A comment every 15 s "
            "keeps the connection alive. The event `end` gives the cause: `ACCESS_LOST` or another "
            "problem code, or `RECONNECT`."
        ),
        parameters=[
            StreamQuery,
            OpenApiParameter(
                _FIELD,
                OpenApiTypes.INT64,
                OpenApiParameter.HEADER,
                description=(
                    "ID of the last event received. If omitted, the stream starts with the next event."
                ),
            ),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, description="Event stream."),
            **problem_responses(404),
        },
        tags=["jobs"],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Begin the stream."""
        query = read_query(request, StreamQuery)
        slug = query.get("workspace", "")
        _scope(self.viewer, slug)
        _EventReader.require_room(
            self.viewer.pk, _("Too many open event streams (%(count)s). Close one first.")
        )
        after = _last_event(request.headers.get(_FIELD), query.get("cursor"))
        return _EventReader(
            request, self.viewer.pk, slug, event_latest() if after is None else after
        ).build_response()


def _scope(viewer: User, slug: str) -> Q:
    """Return the events that the viewer may read. Raises: NotFound, PermissionDenied."""
    workspace = workspace_get(viewer=viewer, slug=slug) if slug else None
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    return Q(job__workspace=workspace) if workspace else Q()


def _last_event(header: str | None, cursor: int | None) -> int | None:
    if header is None:
        return cursor
    found = read_whole(header, most=NUMBER_MAX)
    if found is None:
        message = _("Last-Event-ID must be an id of this stream.")
        raise Invalid(message, errors=[FieldError(_FIELD, "FORMAT", message)])
    return found


class _EventReader(LiveStream):
    """One open stream; each page of the console uses one."""

    look_every_s = 1.0
    opening = "retry: 3000\n\n"
    open_max = 20
    opened: ClassVar[Counter[uuid.UUID]] = Counter()

    def __init__(self, request: Request, caller: uuid.UUID, slug: str, after: int) -> None:
        super().__init__(caller)
        self._request = request
        self._slug = slug
        self._feed = EventFeed(after)
        self._scope: Q | None = None
        self._checked = 0.0
        self._rows = row_scope.NOTHING

    def poll_text(self) -> tuple[str, bool]:
        """Return the events since the last call, and False, because the stream never ends by itself."""
        if self._scope is None or time.monotonic() - self._checked >= CHECK_EVERY_S:
            self._scope = self._check()
        with row_scope.use_scope(self._rows):
            events = self._feed.poll_events(self._scope)
        if events:
            self._scope = self._check()
        return "".join(_text(event) for event in events), False

    def _check(self) -> Q:
        self._checked = time.monotonic()
        user = signed_in_still(self._request)
        self._rows = scope_of(user)
        with row_scope.use_scope(self._rows):
            return _scope(user, self._slug)


def _text(event: JobEvent) -> str:
    data: dict[str, Any] = StreamedEventSerializer(event).data
    return f"id: {event.pk}\nevent: job\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
