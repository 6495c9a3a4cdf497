"""The output of every benchmark: a table, and the same figures as JSON."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

LIMITS = Path(__file__).parents[1] / "limits.toml"
_WIDE = 160


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure and its limit; without a limit it is only printed. `beside` are related figures."""

    what: str
    measured: float
    limit: float | None = None
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.limit is None or self.measured <= self.limit


@dataclass(slots=True)
class Report:
    """One run of a benchmark. `rate` is per second, the percentiles are in milliseconds."""

    name: str
    size: Mapping[str, int]
    rows: Sequence[FigureRow]
    seconds: float
    rate: float
    latencies_s: Sequence[float] = field(default_factory=tuple)
    peak_rss_mib: float | None = None

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "size": dict(self.size),
            "rows": [{**asdict(row), "passed": row.passed} for row in self.rows],
            "seconds": round(self.seconds, 3),
            "rate": round(self.rate, 1),
            "p50_ms": self._percentile(0.50),
            "p95_ms": self._percentile(0.95),
            "p99_ms": self._percentile(0.99),
            "peak_rss_mib": round(self.peak_rss_mib or own_peak_rss_mib(), 1),
        }

    def _percentile(self, share: float) -> float | None:
        if not self.latencies_s:
            return None
        ordered = sorted(self.latencies_s)
        return round(1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 2)


def own_peak_rss_mib() -> float:
    """Return the peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read_limits(name: str) -> dict[str, Any]:
    """Return the limits of one benchmark."""
    table: dict[str, Any] = tomllib.loads(LIMITS.read_text(encoding="utf-8"))[name]
    return table


def print_report(report: Report, json_target: str | None) -> int:
    """Print the report (`-` writes the JSON to standard output); return the exit status."""
    body = report.to_json()
    if json_target == "-":
        sys.stdout.write(json.dumps(body, indent=2) + "\n")
        return 0 if report.passed else 1
    if json_target:
        Path(json_target).write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    beside = list(dict.fromkeys(name for row in report.rows for name in row.beside))
    table = Table("what", "measured", "limit", "", *beside, title=f"{report.name}  {dict(report.size)}")
    for row in report.rows:
        limit = "" if row.limit is None else f"{row.limit:g}"
        verdict = "" if row.limit is None else ("ok" if row.passed else "[red]over[/red]")
        figures = (f"{row.beside[name]:.1f}" if name in row.beside else "" for name in beside)
        table.add_row(row.what, f"{row.measured:.2f}", limit, verdict, *figures)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE  # output to a file or a log is not truncated
    console.print(table)
    return 0 if report.passed else 1


def run_command(name: str, run: Callable[[], Report], arguments: Sequence[str]) -> int:
    """Run a benchmark without options of its own: parse, run, print; return the exit status."""
    parser = argparse.ArgumentParser(prog=f"allotment bench {name}", description=run.__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - for standard output")
    options = parser.parse_args(arguments)
    return print_report(run(), options.json)
