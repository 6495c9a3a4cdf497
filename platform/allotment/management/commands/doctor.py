"""`allotment doctor`: settings, servers, workers and clusters, each with help if it does not work."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core import checks as django_checks
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from clusters.selectors.health import check_clusters
from foundation.core.lazy_import import defer_import
from foundation.monitoring.health import CheckResult, run_checks

_DEEP: Final = defer_import("allotment.setup.deep_check:deep_checks")


class Command(BaseCommand):
    help = "Check the installation and suggest fixes"
    requires_system_checks: list[str] = []  # they are one of the checks below

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", metavar="FILE", help="write the result to FILE; - for standard output")
        parser.add_argument(
            "--deep",
            action="store_true",
            help=("also compare the allocations in every cluster with the database; takes some seconds"),
        )
        parser.add_argument("--only", metavar="NAME", action="append", help="run this check only; repeatable")

    def handle(self, *args: Any, **options: Any) -> None:
        deep = _DEEP() if options["deep"] else []
        results = _select([_settings(), _home(), *_checks(), *deep], options["only"])
        if options["json"]:
            _write(options["json"], results)
        if options["json"] != "-":
            Console().print(_table(results))
        if not all(result.ok for result in results):
            sys.exit(1)


def _checks() -> list[CheckResult]:
    """Run the readiness checks, and that of the clusters, which is separate, because an unreachable cluster
    must not restart anything here.
    """
    results = run_checks()
    database = any(result.name == "database" and result.ok for result in results)
    return [*results, check_clusters()] if database else results


def _select(results: list[CheckResult], only: list[str] | None) -> list[CheckResult]:
    known = {result.name for result in results}
    unknown = sorted(set(only or []) - known)
    # If the database is down, the checks that need it can't run: then its own line is the result.
    down = [result for result in results if result.name == "database" and not result.ok]
    if unknown and not down:
        raise CommandError(
            f"no check is called {unknown[0]}; there are {', '.join(sorted(known))}", returncode=2
        )
    return [result for result in results if not only or result.name in only or (unknown and result in down)]


def _settings() -> CheckResult:
    problems = [
        str(message.msg)
        for message in django_checks.run_checks()
        if message.is_serious(django_checks.WARNING) and not message.is_silenced()
    ]
    name = settings.SETTINGS_MODULE
    return CheckResult("settings", not problems, "; ".join(problems) or name, "see: allotment check")


def _home() -> CheckResult:
    home = Path(settings.ALLOTMENT_HOME)
    try:
        probe = home / ".doctor"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return CheckResult(
            "home", False, f"{home}: {error.strerror}", "set ALLOTMENT_HOME to a writable folder"
        )
    return CheckResult("home", True, str(home))


def _write(target: str, results: list[CheckResult]) -> None:
    text = json.dumps({"checks": [asdict(result) for result in results]}, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--json {target}: {error.strerror}", returncode=2) from error


def _table(results: list[CheckResult]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "check", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for result in results:
        mark = "[green]ok[/]" if result.ok else "[red]no[/]"
        table.add_row(mark, result.name, result.message, "" if result.ok else result.help)
    return table
