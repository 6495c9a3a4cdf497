"""`GET /live`: server-sent events that notify a page of possible changes of its content.

No event carries data: a page fetches its own parts again, with the permissions of its reader. A reader gets
the kinds of changes of tenants that they may see, and those of the platform with a role on it. `beat` shows
that the connection is alive, so that a page can mark its numbers as outdated without it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from typing import ClassVar, Final

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from frontend.pages.live.change_log import log
from frontend.shell.page_shell import get_viewer, login_required
from tenants.access.grants import grants_of
from tenants.api.responses.live_stream import LiveStream
from tenants.api.responses.streams import session_user_still
from tenants.models import User

BEAT_S: Final = 3.0
CHECK_EVERY_S: Final = 15.0


@require_GET
@login_required
def stream_changes(request: HttpRequest) -> StreamingHttpResponse:
    """Open the stream of a page."""
    reader = get_viewer(request)
    ChangeStream.require_room(reader.pk, _("Too many open pages (%(count)s). Close one first."))
    return ChangeStream(request, reader).build_response()


class ChangeStream(LiveStream):
    """The stream of one open page."""

    look_every_s = 1.0
    opening = "event: beat\ndata: {}\n\n"
    open_max = 100
    opened: ClassVar[Counter[uuid.UUID]] = Counter()

    def __init__(self, request: HttpRequest, reader: User) -> None:
        super().__init__(reader.pk)
        self._request = request
        self._reader = reader
        self._grants = grants_of(reader)
        self._seen, _changes = log.read_since(None)
        self._checked = self._spoke = time.monotonic()

    def poll_text(self) -> tuple[str, bool]:
        """Return the kinds that changed since the last call; the stream never ends by itself."""
        now = time.monotonic()
        if now - self._checked >= CHECK_EVERY_S:
            self._reader = session_user_still(self._request)
            self._grants = grants_of(self._reader)
            self._checked = now
        kinds = self._list_kinds()
        if kinds:
            text = f"event: changed\ndata: {json.dumps({'kinds': kinds})}\n\n"
        elif now - self._spoke >= BEAT_S:
            text = self.opening
        else:
            return "", False
        self._spoke = now
        return text, False

    def _list_kinds(self) -> list[str]:
        """Return the kinds of new changes that the reader may see, with their present roles.

        Roles are read when there is something to report, and every `CHECK_EVERY_S` to find added roles.
        """
        self._seen, changes = log.read_since(self._seen)
        if any(change.is_visible(self._reader.pk, self._grants) for change in changes):
            self._grants = grants_of(self._reader)
        return sorted({c.kind for c in changes if c.is_visible(self._reader.pk, self._grants)})
