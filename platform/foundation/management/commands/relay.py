"""`allotment relay`: publish hints to the broker as soon as their transaction has committed.

With `--beat` the process also sends the periodic tasks, as `celery beat` does: an installation on one machine
saves the memory of one process that way.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import psycopg
import structlog
from celery import current_app
from celery.beat import Service
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, close_old_connections, connection
from kombu.exceptions import KombuError

from foundation.messaging import outbox
from foundation.monitoring import counters, health

log = structlog.get_logger(__name__)
_BEAT_EVERY_S = 5.0
_BEAT_STOPS_S = 5.0
# With notifications, polling finds only missed and delayed hints, and the due time of these is known.
_NOTIFIED_POLL_S = 0.5


class Command(BaseCommand):
    help = "Publish events to the broker. Run more than one relay for availability."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--beat", action="store_true", help="also send the periodic tasks; in one process only"
        )
        parser.add_argument("--poll", type=float, default=0.1, help="poll interval in seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        bell = Bell(stop, options["poll"])
        beaten_at = -_BEAT_EVERY_S
        beat = Beat() if options["beat"] else None
        while not stop.is_set():
            if beat is not None and not beat.is_alive():
                raise CommandError("the thread that sends the periodic tasks has ended")
            published = self._publish(bell)
            if time.monotonic() - beaten_at >= _BEAT_EVERY_S:
                self._beat()
                beaten_at = time.monotonic()
            if not published:
                bell.wait_for_hints()
        if beat is not None:
            beat.stop_beat()

    def _publish(self, bell: Bell) -> int:
        try:
            bell.listen_for_hints()  # before the query: a hint committed after it notifies
            published = outbox.publish_due()
            bell.due_in = outbox.due_in()
        except (KombuError, OSError, DatabaseError) as error:
            # Rolled back: the hints are still there. Wait a little and try again.
            log.warning("relay could not publish", error=str(error))
            bell.due_in = None
            close_old_connections()
            return 0
        return published

    def _beat(self) -> None:
        try:
            health.record_heartbeat("relay")
            counters.write_due()
        except DatabaseError as error:
            log.warning("relay could not report", error=str(error))
            close_old_connections()


class Beat:
    """Celery's scheduler of periodic tasks in a thread, started at once."""

    def __init__(self) -> None:
        app = current_app._get_current_object()
        self._service = Service(app, scheduler_cls=app.conf.beat_scheduler)
        self._thread = threading.Thread(target=self._service.start, name="beat", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """True while it sends."""
        return self._thread.is_alive()

    def stop_beat(self) -> None:
        """Stop the beat, which stores when it sent each task; takes at most the shortest period of a task."""
        self._service.stop()
        self._thread.join(_BEAT_STOPS_S)


class Bell:
    """Waits for a committed hint if the database notifies, and `poll` seconds at most."""

    def __init__(self, stop: threading.Event, poll: float) -> None:
        self._stop, self._poll = stop, poll
        self._listening: object | None = None
        self.due_in: float | None = None

    def listen_for_hints(self) -> None:
        """Subscribe the present connection to hints. Raises: DatabaseError."""
        if connection.vendor != "postgresql":
            return
        connection.ensure_connection()
        if self._listening is not connection.connection:
            with connection.cursor() as cursor:
                cursor.execute(f"LISTEN {outbox.CHANNEL}")
            self._listening = connection.connection

    def wait_for_hints(self) -> None:
        """Return when a hint may be due, or when the relay has to stop."""
        own = connection.connection
        subscribed = own is not None and own is self._listening
        longest = max(self._poll, _NOTIFIED_POLL_S) if subscribed else self._poll
        seconds = longest if self.due_in is None else min(max(self.due_in, 0.0), longest)
        if not subscribed:
            self._stop.wait(seconds)
            return
        try:
            for _ in own.notifies(timeout=seconds, stop_after=1):
                pass
        except psycopg.Error as error:
            log.warning("relay can't subscribe to events", error=str(error))
            close_old_connections()
            self._stop.wait(self._poll)
