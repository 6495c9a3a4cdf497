"""`allotment bench NAME`: run one benchmark of the checkout and judge it by its limits."""

from __future__ import annotations

import importlib
import importlib.util
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

_NAMES = ("api", "engine-cycle", "packing", "pipeline", "replay")


class Command(BaseCommand):
    help = "Measure and judge by the limits: api, engine-cycle, packing, pipeline, replay"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=_NAMES)
        parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - is standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        if importlib.util.find_spec("benchmarks") is None:
            raise CommandError("benchmarks are part of the source checkout, not of an installed package")
        # Imported by name: the package does not depend on the folder that measures it.
        report = importlib.import_module(f"benchmarks.{options['name'].replace('-', '_')}").run()
        raise SystemExit(importlib.import_module("benchmarks.report").show(report, options["json"]))
