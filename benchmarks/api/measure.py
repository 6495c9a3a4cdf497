"""The command `bench api`: measures response times, and compares the 95th percentile with the limits.

Each kind of request is measured separately, so that a fast kind cannot hide a slow one, by as many clients at
once as there are web processes: each process always handles one request. Everything runs on the same cores,
including the clients and the database. The times are the server's own (`benchmarks.api.served`); processor
time per request is printed as well, because it does not depend on the other load of the machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.api.asking import Answered, ask_all, percentile_of, warm_up
from benchmarks.api.installation import BenchInstallation, WrongSize, run_installation
from benchmarks.api.requests import KINDS
from benchmarks.support.processor import seconds_of, seconds_of_family
from benchmarks.support.report import FigureRow, Report, print_report, read_limits

_SIZES: Final = ("tenants", "queues", "jobs")
_WORLD: Final = "benchmarks.api.world"


def main(arguments: Sequence[str]) -> int:
    """Run `allotment bench api`; see `--help`."""
    bounds = read_limits("api")
    parser = argparse.ArgumentParser(prog="allotment bench api", description=__doc__)
    for name in _SIZES:
        parser.add_argument(f"--{name}", type=int, default=bounds[name], metavar="N")
    parser.add_argument(
        "--scale", type=float, default=1.0, help=("scale of all three, for example 0.02 for a quick run")
    )
    parser.add_argument(
        "--requests", type=int, default=bounds["requests"], metavar="N", help="number of each kind"
    )
    parser.add_argument(
        "--clients", type=int, default=bounds["processes"], metavar="N", help="concurrent requests"
    )
    parser.add_argument("--only", nargs="+", metavar="KIND", choices=[*KINDS], default=[*KINDS])
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the database in this directory, or reuse it"
    )
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    size = {name: max(int(getattr(options, name) * options.scale), 5) for name in _SIZES}
    try:
        report = run(size, options.only, options.requests, options.clients, options.keep)
    except WrongSize as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return print_report(report, options.json)


def run(
    size: Mapping[str, int], kinds: Sequence[str], requests: int, clients: int, folder: Path | None = None
) -> Report:
    """Measure each kind once."""
    bounds = read_limits("api")
    begun = time.monotonic()
    with _progress() as progress:
        task = progress.add_task("", total=len(kinds))

        def report_step(what: str) -> None:
            progress.update(task, description=what)
            if not progress.console.is_terminal:
                progress.console.print(f"{time.monotonic() - begun:6.1f} s  {what}")

        rows, answers = [], []
        with run_installation(size, bounds["processes"], report_step, folder, world=_WORLD) as made:
            for kind in kinds:
                report_step(kind)
                row, found = _kind(made, kind, requests, clients, bounds)
                rows.append(row)
                answers += found
                progress.advance(task)
    return Report(
        name="api",
        size={**size, "requests": requests, "processes": bounds["processes"], "clients": clients},
        rows=rows,
        seconds=time.monotonic() - begun,
        rate=0.0,
        latencies_s=[answer.ms / 1000 for answer in answers],
    )


def _progress() -> Progress:
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _kind(
    made: BenchInstallation, kind: str, requests: int, clients: int, bounds: Mapping[str, Any]
) -> tuple[FigureRow, list[Answered]]:
    teams = made.world["teams"]
    warm_up(made.ports, kind, teams)
    web, database = seconds_of(made.web), seconds_of_family(made.database)
    found = ask_all(made.ports, kind, teams, requests=requests, clients=clients)
    web, database = seconds_of(made.web) - web, seconds_of_family(made.database) - database
    times = [answer.ms for answer in found]
    beside = {
        "p50": percentile_of(times, 0.50),
        "p99": percentile_of(times, 0.99),
        "in statements": sum(answer.database_ms for answer in found) / len(found),
        "statements": sum(answer.statements for answer in found) / len(found),
        "cpu web": 1000 * web / len(found),
        "cpu database": 1000 * database / len(found),
    }
    limit = bounds["submit_p95_ms" if kind == "submit" else "read_p95_ms"]
    return FigureRow(f"{kind}: p95, ms", percentile_of(times, 0.95), limit, beside), found
