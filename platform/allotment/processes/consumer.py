"""The part of a worker that reads from the broker, for brokers that go away.

Celery's own reconnects after a lost connection. But kombu, closing the lost one, tries to give unacknowledged
messages back over it; when the broker is gone as well, that fails with an error which Celery does not take
for one of the connection's, and the whole worker ends.
"""

from __future__ import annotations

import time
from typing import Final

import structlog
from celery.bootsteps import CLOSE, TERMINATE
from celery.worker import state
from celery.worker.consumer import Consumer

log = structlog.get_logger(__name__)
_PAUSES_S: Final = (0.5, 30.0)
"""Before it starts again: at first and at most. Doubled each time, until it has read again."""
_CLOSE_S: Final = 0.1


class LastingConsumer(Consumer):  # type: ignore[misc]  # Celery publishes no types
    """Reads again after whatever ended its reading, once it has read at all.

    What fails before that is a mistake of the installation, and ends the worker with a message.
    """

    _has_read = False
    _pause_s = _PAUSES_S[0]

    def on_ready(self) -> None:
        """Celery's hook: messages are read from here on."""
        self._has_read, self._pause_s = True, _PAUSES_S[0]
        super().on_ready()

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        """Celery's hook: the connection is lost. It is closed here, before Celery closes it once more."""
        self._abandon_connection()
        super().on_connection_error_after_connected(exc)

    def keep_reading(self) -> None:
        """Read until the worker is told to stop. Raises: whatever ends it before it has ever read."""
        while True:
            try:
                super().start()
            except Exception:
                if not self._has_read or self.blueprint.state in (CLOSE, TERMINATE):
                    raise
                log.exception("reading from the broker failed; starts again", pause_s=self._pause_s)
                self._start_afresh()
            else:
                return

    def _start_afresh(self) -> None:
        self._abandon_connection()
        self.connection = None
        self.on_close()
        self._cancel_connection_timer_entries()
        self.blueprint.restart(self)
        until = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _PAUSES_S[1])
        while time.monotonic() < until:
            state.maybe_shutdown()
            time.sleep(0.1)

    def _abandon_connection(self) -> None:
        """Close the connection, whatever comes of it. What was not acknowledged is handed out again."""
        if self.connection is None:
            return
        try:
            self.connection.collect(socket_timeout=_CLOSE_S)
        except Exception as error:
            log.debug("lost connection not closed", why=repr(error))
        # Else the next close would give messages back over a transport that is gone.
        self.connection._default_channel = None
