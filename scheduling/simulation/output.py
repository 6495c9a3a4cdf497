"""This module writes the result of an offline command: JSON, a table on the terminal, or files."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from scheduling.simulation.departures import Departed
from scheduling.simulation.errors import InputError
from scheduling.simulation.pack import PackReport, no_progress
from scheduling.simulation.pack import Progress as Report
from scheduling.simulation.replay import ReplayReport

STANDARD_OUTPUT = "-"


def write_json(target: str, result: dict[str, Any]) -> None:
    """Write the result to a file, or to standard output for `-`.

    Raises:
        InputError: when the file cannot be written.
    """
    text = json.dumps(result, indent=2) + "\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror}", file=Path(target)) from error


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table.

    Raises:
        InputError: when the file cannot be written.
    """
    try:
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror}", file=file) from error


@contextmanager
def progress_bar(what: str) -> Iterator[Report]:
    """Show a progress bar on a terminal, nothing elsewhere; yield the function that reports progress."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield no_progress
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_pack(report: PackReport) -> None:
    """Print a packing result as a table."""
    table = Table(title=f"Packing with {report.policy}, seed {report.seed}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for label, value in (
        ("pods arrived", str(report.arrived_pods)),
        ("pods placed", str(report.placed_pods)),
        ("multi-card pods refused by 95 % arrival", str(report.refused_multi_gpu_by_95)),
        ("cards allocated at 100 % arrival", _percent(report.curve[100])),
        ("cards allocated at 130 % arrival", _percent(report.curve[130])),
        *(
            (f"idle cards that are fragments at {at} % arrival", _percent(value))
            for at, value in report.fragmentation.items()
        ),
        ("pods per second", f"{report.pods_per_second:,.0f}"),
        *_departed(report.departed),
    ):
        table.add_row(label, value)
    Console().print(table)


def _departed(departed: Departed | None) -> Iterator[tuple[str, str]]:
    if departed is None:
        return
    per_slot = f"{departed.cards_moved / departed.gained:.2f}" if departed.gained else "none"
    yield "pods departed at 90 % load", str(departed.left)
    yield "whole-node slots before departures", str(departed.slots_loaded)
    yield "whole-node slots without moves", str(departed.slots_without)
    yield "whole-node slots with moves", str(departed.slots_with)
    yield "pods moved", str(departed.moves)
    yield "cards moved per slot", per_slot


def show_replay(report: ReplayReport) -> None:
    """Print a replay result as a table."""
    console = Console()
    table = Table(title=f"Replay with {report.policy}: {report.finished} of {report.jobs} jobs finished")
    for column in ("tenant", "mean queue s", "mean completion s", "rho mean", "rho worst"):
        table.add_column(column, justify="left" if column == "tenant" else "right")
    for name, figures in report.per_tenant.items():
        table.add_row(
            name,
            f"{figures.queue_s:,.0f}",
            f"{figures.jct_s:,.0f}",
            f"{figures.rho_mean:.2f}",
            f"{figures.rho_max:.2f}",
        )
    table.add_section()
    table.add_row("all", f"{report.queue.mean:,.0f}", f"{report.jct.mean:,.0f}", "", "")
    console.print(table)
    console.print(
        f"queue p50 {report.queue.p50:,.0f} s, p95 {report.queue.p95:,.0f} s, "
        f"p99 {report.queue.p99:,.0f} s · "
        f"guarantee violations {report.guarantee_violations} · jobs harmed {report.jobs_harmed} · "
        f"preemptions {report.preemptions} · cards in use {100 * report.gpu_utilisation:.1f} % · "
        f"{report.wall_s:.1f} s"
    )


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f} %"
