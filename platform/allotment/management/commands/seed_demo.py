"""`allotment seed_demo`: give an embedded installation an operator, a simulated cluster and four teams."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Seed demo data (idempotent)."
    requires_system_checks: list[str] = []  # `migrate`, just before it, has run them

    def handle(self, *args: Any, **options: Any) -> None:
        # The list of commands imports every command, and the demo imports numpy.
        from allotment.demo.setup import demo_setup  # noqa: PLC0415

        demo_setup(home=settings.ALLOTMENT_HOME)
