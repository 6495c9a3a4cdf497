"""`GET /live`: server-sent events that tell a page that what it shows may have changed.

No event carries data: a page fetches its own parts again, with the rights of its reader. `beat` shows that
the connection lives, so that a page knows when its numbers are no longer kept fresh.
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

from frontend.pages.live import marks
from frontend.shell.page_shell import get_viewer, login_required
from tenants.api.live_stream import LiveStream
from tenants.api.streams import session_user_still

BEAT_S: Final = 3.0
CHECK_EVERY_S: Final = 15.0


@require_GET
@login_required
def stream_changes(request: HttpRequest) -> StreamingHttpResponse:
    """Begin the stream of the page that asks."""
    caller = get_viewer(request).pk
    ChangeStream.require_room(caller, _("Too many open pages (%(count)s). Close one first."))
    return ChangeStream(request, caller).build_response()


class ChangeStream(LiveStream):
    """One open page."""

    look_every_s = 1.0
    opening = "event: beat\ndata: {}\n\n"
    open_max = 100
    opened: ClassVar[Counter[uuid.UUID]] = Counter()

    def __init__(self, request: HttpRequest, caller: uuid.UUID) -> None:
        super().__init__(caller)
        self._request = request
        self._seen = marks.reader.read_marks()
        self._checked = self._spoke = time.monotonic()

    def poll_text(self) -> tuple[str, bool]:
        """Return the kinds that changed since the last call; there is always more to come."""
        now = time.monotonic()
        if now - self._checked >= CHECK_EVERY_S:
            session_user_still(self._request)
            self._checked = now
        found = marks.reader.read_marks()
        changed = marks.list_changed(self._seen, found)
        self._seen = found
        if changed:
            text = f"event: changed\ndata: {json.dumps({'kinds': changed})}\n\n"
        elif now - self._spoke >= BEAT_S:
            text = self.opening
        else:
            return "", False
        self._spoke = now
        return text, False
