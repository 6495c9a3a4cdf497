"""`allotment trace-import`: submit the jobs of a trace to the running platform."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scheduling.services.trace_import.feed import Fed, Report, feed_jobs, speed_set
from scheduling.services.trace_import.philly import Rejected, Trace, read_shares, read_trace
from scheduling.services.trace_import.places import places_ensure, pool_of
from tenants.management.results import FAILED, USAGE, acting_user, report_refusals, write_json

FORMATS: Final = ("philly", "openb", "helios", "acme", "pai")
_SHOWN: Final = 10


class Command(BaseCommand):
    help = "Submit the jobs of a trace to the running platform"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="CSV file of jobs")
        parser.add_argument(
            "--format", required=True, choices=FORMATS, help="trace format; currently only philly"
        )
        parser.add_argument("--tenants", metavar="CSV", help="GPUs per tenant; default: equal shares")
        parser.add_argument("--limit", type=int, metavar="N", help="submit only the first N jobs")
        parser.add_argument(
            "--speedup", type=float, default=600.0, metavar="X", help="speed-up factor (default 600)"
        )
        parser.add_argument("--cell", metavar="NAME", help="required with more than one scheduling domain")
        parser.add_argument(
            "--user", metavar="NAME", help=("submitting user; default: the first platform admin")
        )
        parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        _check(options)
        file = Path(options["file"])
        trace, shares = _read(file, options["tenants"], options["limit"])
        if trace.rejected:
            # A single invalid row prevents the whole import, and all invalid rows are reported.
            self._finish(options["json"], len(trace.jobs), Fed(rejected=trace.rejected))
        user = acting_user(options["user"])
        with report_refusals():
            pool = pool_of(options["cell"])
            speed_set(pool, options["speedup"])
            places = places_ensure(acting_user=user, pool=pool, shares=shares)
        with _progress(len(trace.jobs)) as report:
            fed = feed_jobs(
                acting_user=user,
                trace=trace,
                file=str(file),
                places=places,
                speedup=options["speedup"],
                report=report,
            )
        self._finish(options["json"], len(trace.jobs), fed)

    def _finish(self, target: str | None, jobs: int, fed: Fed) -> None:
        rejected = [asdict(row) for row in fed.rejected]
        if target:
            write_json(target, {"jobs": jobs, "submitted": fed.submitted, "rejected": rejected})
        if target != "-":
            self.stdout.write(f"{fed.submitted} of {jobs} jobs submitted, {len(rejected)} rejected")
        if fed.rejected:
            raise CommandError(_lines(fed.rejected), returncode=FAILED if fed.submitted else USAGE)


def _check(options: dict[str, Any]) -> None:
    if options["format"] != "philly":
        raise CommandError(f"--format {options['format']}: not supported; valid: philly", returncode=USAGE)
    if not 0 < options["speedup"] < float("inf"):
        raise CommandError(f"--speedup {options['speedup']:g}: must be above 0", returncode=USAGE)
    if options["limit"] is not None and options["limit"] < 1:
        raise CommandError(f"--limit {options['limit']}: must be at least 1", returncode=USAGE)


def _read(file: Path, tenants: str | None, limit: int | None) -> tuple[Trace, dict[str, int]]:
    shares, rejected = read_shares(Path(tenants)) if tenants else (None, [])
    trace = read_trace(file, shares if shares else None, limit)
    trace.rejected[:0] = rejected
    if shares is None:
        found = Counter(job.tenant for job in trace.jobs)
        shares = dict.fromkeys(found, 1_000_000)  # equal shares above the capacity divide all cards
    return trace, shares


def _lines(rejected: list[Rejected]) -> str:
    lines = [
        ", ".join(
            part
            for part in (
                row.file,
                f"line {row.line}" if row.line else "",
                f"field {row.field}" if row.field else "",
            )
            if part
        )
        + f": {row.message}"
        for row in rejected[:_SHOWN]
    ]
    more = len(rejected) - _SHOWN
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


@contextmanager
def _progress(total: int) -> Iterator[Report]:
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (TextColumn("submitting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
