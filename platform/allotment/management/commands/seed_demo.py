"""`allotment seed_demo`: give an embedded installation an operator, and the demo unless it is off."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Seed demo data (idempotent)."
    requires_system_checks: list[str] = []  # `migrate`, which runs just before, has run them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--record", action="store_true", help="record the simulated week anew, into the package"
        )

    def handle(self, *args: Any, record: bool = False, **options: Any) -> None:
        # Listing the commands imports every command module, and the demo imports numpy.
        from allotment.demo import start  # noqa: PLC0415

        if record:
            self.stdout.write(f"{start.record_history()} runs recorded")
            return
        start.prepare_installation(home=settings.ALLOTMENT_HOME, demo=settings.ALLOTMENT_DEMO)
