"""`allotment cycle-replay FILE`: run a saved cycle again and print its decisions."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from scheduling.engine_input.saved_cycle import DumpError, replay_cycle


class Command(BaseCommand):
    help = "Replay a saved scheduling cycle"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--json", metavar="FILE", help="write the decisions as JSON; - for standard output"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = replay_cycle(options["file"].read_text(encoding="utf-8"))
        except (OSError, DumpError) as error:
            raise CommandError(f"{options['file']}: {error}", returncode=2) from error
        text = json.dumps(result, indent=2, sort_keys=True)
        if options["json"] == "-":
            sys.stdout.write(text + "\n")
            return
        if options["json"]:
            Path(options["json"]).write_text(text + "\n", encoding="utf-8")
        table = Table("job", "status", "reason", "numbers", title=f"{len(result['decisions'])} decisions")
        for outcome in result["outcomes"]:
            numbers = ", ".join(f"{key} {value}" for key, value in outcome["numbers"].items())
            table.add_row(outcome["job"], outcome["status"], outcome["reason"] or "", numbers)
        Console().print(table)
