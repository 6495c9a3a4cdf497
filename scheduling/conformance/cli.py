"""The command `conformance`: runs files of cases and prints a table of the results.

Exit status: 0 all cases passed, 1 some failed, 2 invalid usage or a file that cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scheduling.conformance.conformance import FileReport, read_cases, run_files
from scheduling.conformance.errors import BadCase
from scheduling.simulation.output import progress_bar, write_json

DONE, FAILED, BAD_USAGE = 0, 1, 2
PIPED = 140


def add_conformance_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `conformance`."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.json", help="exported case files")
    parser.add_argument("--verbose", action="store_true", help="print failed and skipped cases")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")


def conformance_command(options: argparse.Namespace) -> int:
    """Run `conformance`; return the exit status."""
    try:
        files = [file for file in map(read_cases, options.files) if file is not None]
        if not files:
            raise BadCase("none of the files holds cases")
    except BadCase as error:
        sys.stderr.write(f"conformance: {error}\n")
        return BAD_USAGE
    with progress_bar("running cases") as progress:
        reports = run_files(files, progress)
    if options.json is not None:
        write_json(options.json, {"files": [report.to_json() for report in reports]})
    if options.json != "-":
        print_reports(reports, verbose=options.verbose)
    return FAILED if any(report.failed for report in reports) else DONE


def print_reports(reports: Sequence[FileReport], *, verbose: bool) -> None:
    """Print a line for each file and the sums; with `verbose` every difference."""
    # Names of tables are long; without a terminal the width is large enough for one line.
    console = Console() if sys.stdout.isatty() else Console(width=PIPED)
    table = Table()
    table.add_column("file", overflow="fold")
    for name in ("cases", "passed", "failed", "skipped", "%"):
        table.add_column(name, justify="right")
    for report in reports:
        table.add_row(Path(report.file).stem, *_figures([report]))
    table.add_section()
    table.add_row("all", *_figures(reports))
    console.print(table)
    for report in reports if verbose else ():
        for failure in report.failed:
            _line(console, report, failure.name, f"expected {failure.expected}, got {failure.got}")
        for skip in report.skipped:
            _line(console, report, skip.name, f"skipped: {skip.why}")


def _line(console: Console, report: FileReport, name: str, text: str) -> None:
    console.print(f"{Path(report.file).stem}: {name}: {text}", markup=False, highlight=False, soft_wrap=True)


def _figures(reports: Sequence[FileReport]) -> tuple[str, ...]:
    cases, passed = sum(r.cases for r in reports), sum(r.passed for r in reports)
    failed, skipped = sum(len(r.failed) for r in reports), sum(len(r.skipped) for r in reports)
    return (
        str(cases),
        str(passed),
        str(failed),
        str(skipped),
        f"{100 * passed / cases:.1f}" if cases else "",
    )
