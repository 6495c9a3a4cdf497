"""`allotment relay`: publish hints to the broker as soon as their transaction has committed."""

from __future__ import annotations

import signal
import threading
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, close_old_connections
from kombu.exceptions import KombuError

from foundation import health, outbox

log = structlog.get_logger(__name__)
_BEAT_EVERY_S = 5.0


class Command(BaseCommand):
    help = "Publish hints to the broker. Several relays may run beside each other."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--poll", type=float, default=0.1, help="seconds between two looks")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        poll, since_beat = options["poll"], _BEAT_EVERY_S
        while not stop.is_set():
            published = self._publish()
            since_beat += poll
            if since_beat >= _BEAT_EVERY_S:
                self._beat()
                since_beat = 0.0
            stop.wait(0 if published else poll)

    def _publish(self) -> int:
        try:
            return outbox.publish_due()
        except (KombuError, OSError, DatabaseError) as error:
            # Rolled back: the hints are still there. Wait a little and look again.
            log.warning("relay could not publish", error=str(error))
            close_old_connections()
            return 0

    def _beat(self) -> None:
        try:
            health.beat("relay")
        except DatabaseError as error:
            log.warning("relay could not report", error=str(error))
            close_old_connections()
