"""Sessions in the database, as Django keeps them, found by a statement that is prepared: every page begins
with one, and the ORM takes longer to write that statement than the database to answer it.
"""

from __future__ import annotations

from typing import Final

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session

from foundation.core import clock
from foundation.sql.prepared import PreparedQuery

_OPEN: Final = PreparedQuery(
    lambda key, now: Session.objects.filter(session_key=key, expire_date__gt=now).order_by()
)


class SessionStore(db.SessionStore):
    """One session by its key."""

    def _get_session_from_db(self) -> Session | None:
        found = _OPEN.fetch_first(self.session_key or "", clock.now())
        if found is None:
            self._session_key = None
        return found
