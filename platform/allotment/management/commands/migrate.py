"""`allotment migrate`: Django's command, safe to run concurrently with processes and with itself."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import OperationalError, connections

from foundation.sql.forward_migrations import ForwardExecutor

# Django's command looks the executor up by this name and offers no other way to replace it.
migrate.MigrationExecutor = ForwardExecutor  # type: ignore[attr-defined]
_LOCK: Final = 0x616C6C6F746D6967  # "allotmig"
# Less than the second after which PostgreSQL looks for deadlocks: this command gives up, not another session.
_LOCK_TIMEOUT_MS: Final = 500
_ATTEMPTS: Final = 60
_PAUSE_S: Final = (0.1, 0.5)
_IN_USE: Final = frozenset({"55P03", "40P01"})  # lock_not_available, deadlock_detected


class Command(migrate.Command):
    """The command `migrate`: on PostgreSQL one migration runs at a time, and none blocks statements of
    running processes.

    A change of a table waits for all its readers, and all later statements wait for the change. So the
    command gives up after half a second and retries later; migrations applied by then stay applied.
    """

    help = f"{migrate.Command.help} Waits for another migrate, and tries again where a table is in use."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--attempts", type=int, default=_ATTEMPTS, help="number of attempts for a table in use"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        attempts = max(1, options["attempts"])
        with _alone(options["database"]):
            for attempt in range(1, attempts + 1):
                try:
                    super().handle(*args, **options)
                    return
                except OperationalError as error:
                    if getattr(error.__cause__, "sqlstate", None) not in _IN_USE:
                        raise
                    if attempt == attempts:
                        raise CommandError(
                            f"a table was in use at each of {attempts} attempts ({error}); what was applied"
                            " stays. End long transactions, and run allotment migrate again."
                        ) from error
                    self.stderr.write(f"a table is in use, attempt {attempt + 1} of {attempts} follows")
                    time.sleep(random.uniform(*_PAUSE_S))


@contextmanager
def _alone(database: str) -> Iterator[None]:
    """Hold the migration lock during the block; wait half a second at most for any other lock."""
    connection = connections[database]
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{_LOCK_TIMEOUT_MS}ms"])
    try:
        yield
    finally:
        if connection.connection is not None and not connection.connection.closed:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
                cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
