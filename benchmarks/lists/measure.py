"""The command `bench lists`: requests every list, and compares the slowest query of each with its limit.

A list is requested as it opens, for its last page, in other orders and filtered, by a platform admin and by
an editor of one workspace. The times are the server's own (`benchmarks.api.served`); processor time per
request is printed as well, because it does not depend on the other load of the machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.api.asking import percentile_of
from benchmarks.api.installation import DATABASE, BenchInstallation, WrongSize, run_installation
from benchmarks.lists.asking import ListReader, QueryFigures, measure_place
from benchmarks.lists.options import WORLD, add_options, read_size
from benchmarks.lists.places import CONSOLE, ListPlace, api_lists
from benchmarks.support.report import FigureRow, Report, print_report, read_limits

# The measurements of a kept database are moved to the present.
_FRESH: Final = """
UPDATE telemetry_reading SET at_ms = at_ms + (
    SELECT (extract(epoch FROM now()) * 1000)::bigint - 15000 - max(at_ms) FROM telemetry_reading)
"""


def main(arguments: Sequence[str]) -> int:
    """Run `allotment bench lists`; see `--help`."""
    parser = argparse.ArgumentParser(prog="allotment bench lists", description=__doc__)
    add_options(parser, times=read_limits("lists")["times"], of="query of each list")
    parser.add_argument("--reader", choices=["operator", "member"], help="one of the two readers")
    options = parser.parse_args(arguments)
    try:
        report = run(read_size(options), options.times, options.only, options.reader, options.keep)
    except WrongSize as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return print_report(report, options.json)


def run(
    size: Mapping[str, int], times: int, only: str = "", reader: str | None = None, folder: Path | None = None
) -> Report:
    """Measure each list once for each reader who may see it."""
    bounds, begun = read_limits("lists"), time.monotonic()

    def report_step(what: str) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {what}\n")

    rows, latencies = [], []
    with ExitStack() as stack:
        made = stack.enter_context(run_installation(size, 1, report_step, folder, world=WORLD))
        with made.server.connect_database(DATABASE) as connection:
            connection.execute(_FRESH)
        report_step("adding reports up")
        stack.enter_context(run_report_worker(made))
        places = [*CONSOLE, *api_lists(made.world["names"])]
        for name, account in made.world["readers"].items():
            if reader not in (None, name):
                continue
            asking = ListReader(made.ports[0], account)
            for place in places:
                if only not in place.path:
                    continue
                found = measure_place(made, asking, place, times)
                if found:
                    rows.append(_row(name, place, found, bounds))
                    report_step(f"{rows[-1].measured:7.1f} ms  {rows[-1].what}")
                latencies += [answer.ms / 1000 for each in found for answer in each.answers]
    return Report(
        name="lists",
        size={**size, "times": times},
        rows=rows,
        seconds=time.monotonic() - begun,
        rate=0.0,
        latencies_s=latencies,
    )


@contextmanager
def run_report_worker(made: BenchInstallation) -> Iterator[None]:
    """Run a process that stores the reports for lists as workers do, within the block."""
    command = [sys.executable, "-m", "benchmarks.lists.worker"]
    with subprocess.Popen(command, env=made.environment, stdout=subprocess.PIPE, text=True) as worker:
        try:
            if not (worker.stdout and worker.stdout.readline()):
                raise RuntimeError("reports can't be added up")
            yield
        finally:
            worker.terminate()


def _row(
    reader: str, place: ListPlace, found: Sequence[QueryFigures], bounds: Mapping[str, Any]
) -> FigureRow:
    """Return the figures of the slowest query of a list."""
    slowest = max(found, key=_p95)
    answers = slowest.answers
    beside = {
        "p50": percentile_of([answer.ms for answer in answers], 0.5),
        "in statements": sum(answer.database_ms for answer in answers) / len(answers),
        "statements": sum(answer.statements for answer in answers) / len(answers),
        "cpu web": sum(answer.cpu_ms for answer in answers) / len(answers),
        "cpu web p95": percentile_of([answer.cpu_ms for answer in answers], 0.95),
        "cpu database": slowest.database_ms,
    }
    limit = bounds["page_p95_ms" if place.is_page else "list_p95_ms"]
    query = f"  ?{slowest.query}" if slowest.query else ""
    return FigureRow(f"{reader}  {place.path}{query}", _p95(slowest), limit, beside)


def _p95(measured: QueryFigures) -> float:
    return percentile_of([answer.ms for answer in measured.answers], 0.95)
