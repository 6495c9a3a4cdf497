"""`allotment bench packing-quality`: the platform's packing policy against the published best.

Per trace, mean of the seeds: allocation at 130 % and 100 % arrival, and the many-card pods that were refused
before 95 % arrival. It fails if a limit of `limits.toml` is missed. All 17 traces with five seeds take a
while; names of traces and `--seeds` select fewer, and only these are then compared with the limits.

Needs the traces: `ALLOTMENT_SHARED`, or a folder `shared` beside the checkout.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.support.report import read_limits
from scheduling.simulation.openb import read_arrivals, read_nodes, read_pods, scale_trace
from scheduling.simulation.pack import run_pack

OURS, BEST = "default", "fgd"
SEEDS = (42, 43, 44, 45, 46)


@dataclass(frozen=True, slots=True)
class PackingFigures:
    """Figures of one policy on one trace: mean allocation in percent at 130 % and 100 % arrival, and refused
    pods.
    """

    at_130: float
    at_100: float
    refused: int


def main(arguments: Sequence[str]) -> int:
    """Run and print; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="allotment bench packing-quality", description=__doc__)
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, metavar="N")
    options = parser.parse_args(arguments)
    folder = _folder()
    names = options.traces or sorted(
        file.stem.removeprefix("openb_pod_list_") for file in folder.glob("openb_pod_list_*.csv")
    )
    measured = {}
    console = Console()
    for name in names:
        measured[name] = tuple(_measure(folder, name, policy, options.seeds) for policy in (BEST, OURS))
        console.print(f"{name} done", style="dim")
    table, missed = _compare_policies(measured)
    console.print(table)
    for line in missed:
        console.print(line, style="red")
    return 1 if missed else 0


def _measure(folder: Path, trace: str, policy: str, seeds: Sequence[int]) -> PackingFigures:
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    pods = read_pods(folder / f"openb_pod_list_{trace}.csv")
    runs = []
    for seed in seeds:
        file = folder / "arrivals" / f"{trace}.jsonl.gz"
        arrivals = read_arrivals(file, seed, pods=len(pods), nodes=len(nodes))
        ranked, order = scale_trace(nodes, arrivals, len(pods), 1)
        runs.append(run_pack(ranked, pods, order, policy=policy, seed=seed))
    return PackingFigures(
        at_130=_mean([run.curve[130] or 0.0 for run in runs]),
        at_100=_mean([run.curve[100] or 0.0 for run in runs]),
        refused=sum(run.refused_multi_gpu_by_95 for run in runs),
    )


def _compare_policies(measured: dict[str, tuple[PackingFigures, ...]]) -> tuple[Table, list[str]]:
    table = Table(title="Cards allocated, %; many-card pods refused by 95 % arrival")
    for column in ("trace", "fgd 130", "own 130", "+", "fgd 100", "own 100", "+", "refused", "fgd"):
        table.add_column(column, justify="left" if column == "trace" else "right", no_wrap=True)
    for name, (best, ours) in measured.items():
        table.add_row(name, *_cells(best, ours))
    table.add_section()
    best, ours = (_overall([pair[side] for pair in measured.values()]) for side in (0, 1))
    table.add_row("mean, sum", *_cells(best, ours))
    return table, list(_missed(measured, best, ours))


def _missed(
    measured: dict[str, tuple[PackingFigures, ...]], best: PackingFigures, ours: PackingFigures
) -> Iterator[str]:
    bars = read_limits("packing-quality")
    if min(ours.at_130 - best.at_130, ours.at_100 - best.at_100) < bars["points_above_fgd"]:
        yield f"the mean is less than {bars['points_above_fgd']} points above fgd"
    if ours.refused > best.refused + bars["refused_above_fgd"]:
        yield f"{ours.refused} many-card pods refused, fgd {best.refused}"
    for name, (theirs, own) in measured.items():
        if own.at_130 < theirs.at_130 or own.at_100 < theirs.at_100:
            yield f"{name} is below fgd"


def _cells(best: PackingFigures, ours: PackingFigures) -> tuple[str, ...]:
    return (
        f"{best.at_130:.2f}",
        f"{ours.at_130:.2f}",
        f"{ours.at_130 - best.at_130:+.2f}",
        f"{best.at_100:.2f}",
        f"{ours.at_100:.2f}",
        f"{ours.at_100 - best.at_100:+.2f}",
        str(ours.refused),
        str(best.refused),
    )


def _overall(figures: Sequence[PackingFigures]) -> PackingFigures:
    return PackingFigures(
        at_130=_mean([entry.at_130 for entry in figures]),
        at_100=_mean([entry.at_100 for entry in figures]),
        refused=sum(entry.refused for entry in figures),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _folder() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("ALLOTMENT_SHARED") or beside) / "traces" / "openb"
