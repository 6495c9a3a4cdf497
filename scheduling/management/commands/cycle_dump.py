"""`allotment cycle-dump`: write the input of an engine cycle of a cell to a file."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from clusters.models import Cell
from foundation.core import clock
from scheduling.engine_input.saved_cycle import dump_cycle
from scheduling.snapshots import cell_snapshot


class Command(BaseCommand):
    help = "Dump the input of one scheduling cycle"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cell", default="default", metavar="NAME")
        parser.add_argument("--json", default="-", metavar="FILE", help="default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        cell = Cell.unscoped.filter(name=options["cell"]).first()
        if cell is None:
            raise CommandError(f"scheduling domain {options['cell']!r} not found", returncode=2)
        taken = cell_snapshot(cell.pk)
        text = dump_cycle(taken.snapshot, clock.now().timestamp(), sharing=taken.sharing)
        if options["json"] == "-":
            sys.stdout.write(text + "\n")
        else:
            Path(options["json"]).write_text(text + "\n", encoding="utf-8")
