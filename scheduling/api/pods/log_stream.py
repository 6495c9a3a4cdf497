"""`GET …/jobs/{job}/logs?follow=true`: the log lines of a job's tasks as server-sent events.

The reader is authenticated again at every read. The streams have their own threads, because a cluster that
does not answer occupies one until the time limit.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _
from rest_framework.request import Request

from foundation.sql import row_scope
from scheduling.models import Job
from scheduling.selectors.pods.log_follow import LogFollower
from scheduling.selectors.pods.logs import LogLine, LogQuery
from tenants.access.row_scope import scope_of
from tenants.api.responses.live_stream import LiveStream
from tenants.api.responses.streams import signed_in_still
from tenants.models import User
from tenants.selectors.tenant import workspace_get

_AT_ONCE: Final = 8


def follow_log(request: Request, viewer: User, job: Job, query: LogQuery) -> StreamingHttpResponse:
    """Begin the stream. Raises: TooManyStreams."""
    refusal = _("Too many open log streams (%(count)s). Close one first.")
    Reader.require_room(viewer.pk, refusal)
    return Reader(request, viewer.pk, job.workspace.slug, LogFollower(job.pk, query)).build_response()


class Reader(LiveStream):
    """One open stream."""

    look_every_s = 2.0
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="logs")
    open_max = 5
    opened: ClassVar[Counter[uuid.UUID]] = Counter()

    def __init__(self, request: Request, caller: uuid.UUID, slug: str, follower: LogFollower) -> None:
        super().__init__(caller)
        self._request, self._slug, self._follower = request, slug, follower

    def poll_text(self) -> tuple[str, bool]:
        """Return the lines since the last call, and whether the attempt has ended."""
        user = signed_in_still(self._request)
        with row_scope.use_scope(scope_of(user)):
            workspace = workspace_get(viewer=user, slug=self._slug)
            news = self._follower.poll_lines(viewer=user, workspace=workspace)
        return "".join(map(_text, news.lines)), news.over


def _text(line: LogLine) -> str:
    at = line.at.isoformat() if line.at else None
    data = {"task": line.task, "at": at, "text": line.text}
    return f"event: line\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
