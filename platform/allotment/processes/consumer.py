"""The part of a worker that reads from the broker; it survives a broker that goes away.

Celery's consumer reconnects after a lost connection. But kombu, closing the lost connection, tries to return
unacknowledged messages over it; if the broker is gone, that fails with an error that Celery does not treat as
a connection error, and the whole worker ends.
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
"""The pauses before a restart, first and longest: doubled each time, until reading succeeded again."""
_CLOSE_S: Final = 0.1


class LastingConsumer(Consumer):  # type: ignore[misc]  # Celery publishes no types
    """Resumes reading after any error, once it has read at all.

    An error before that is a mistake of the installation, and ends the worker with a message.
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
        """Read until the worker is stopped. Raises: any error before the first successful start."""
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
        """Close the connection and ignore errors. Unacknowledged messages are delivered again."""
        if self.connection is None:
            return
        try:
            self.connection.collect(socket_timeout=_CLOSE_S)
        except Exception as error:
            log.debug("lost connection not closed", why=repr(error))
        # Else the next close would return messages over a transport that is gone.
        self.connection._default_channel = None
