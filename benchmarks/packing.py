"""`allotment bench packing`: CPU time per pod and allocation, for every policy on the openb traces.

The same pods are then submitted to a cell, as jobs of one queue: a hundred in each cycle, and all in one.

With `--all` or `--trace` it runs all or some traces and seeds instead, and prints for each policy the largest
difference from its published allocation curve. Needs the traces: `ALLOTMENT_SHARED`, or a folder `shared`
beside the checkout.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.support.report import FigureRow, Report, print_report, read_limits
from foundation.core.garbage_collection import gc_freeze_loaded
from scheduling.engine.model import Node
from scheduling.simulation.cell import pack_in_cycles
from scheduling.simulation.openb import Arrivals, TracePod, read_arrivals, read_nodes, read_pods, scale_trace
from scheduling.simulation.pack import OFFERED, PackReport, run_pack

PUBLISHED = {
    "dotprod": "02-DotProd",
    "clustering": "03-GpuClustering",
    "packing": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
SEEDS = (42, 43, 44, 45, 46)
SCALES = (1, 8)
IN_CYCLES = ("bestfit", "fgd", "default")
TOLERANCE = 0.01
PREFIX = "openb_pod_list_"


def find_traces(folder: Path) -> list[str]:
    """Return all traces by name."""
    return sorted(file.stem.removeprefix(PREFIX) for file in folder.glob(f"{PREFIX}*.csv"))


def run_packing(folder: Path, policy: str, trace: str, seed: int, scale: int = 1) -> PackReport:
    """Run one packing. Raises: InputError when the traces are missing."""
    nodes, pods, arrivals = _lists(folder, trace, seed)
    ranked, order = scale_trace(nodes, arrivals, len(pods), scale)
    return run_pack(ranked, pods, order, policy=policy, seed=seed)


@lru_cache(maxsize=1)
def _lists(folder: Path, trace: str, seed: int) -> tuple[list[Node], list[TracePod], Arrivals]:
    """Return the nodes, pods and arrivals for comparing policies, read once for all policies."""
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    pods = read_pods(folder / f"{PREFIX}{trace}.csv")
    stream = folder / "arrivals" / f"{trace}.jsonl.gz"
    return nodes, pods, read_arrivals(stream, seed, pods=len(pods), nodes=len(nodes))


def run() -> Report:
    """Run every policy on the trace `default` at both scales; a rate below its minimum fails."""
    floors, folder = read_limits("packing"), _folder()
    rows, pods, seconds = [], 0, 0.0
    for policy in OFFERED:
        for scale in SCALES:
            report = run_packing(folder, policy, "default", SEEDS[0], scale)
            taken = report.arrived_pods / report.pods_per_second
            pods, seconds = pods + report.arrived_pods, seconds + taken
            floor = floors.get(f"{policy}_pods_per_s")
            bound = None if floor is None else 1e6 / floor
            at = f"{policy} × {scale}"
            rows.append(FigureRow(f"{at}, µs a pod", 1e6 * taken / report.arrived_pods, bound))
            rows.append(FigureRow(f"{at}, % allocated at 130 %", report.curve[130] or 0.0))
    nodes, asked, arrivals = _lists(folder, "default", SEEDS[0])
    ranked, order = scale_trace(nodes, arrivals, len(asked), 1)
    gc_freeze_loaded()  # as in the workers that run cycles
    for policy in IN_CYCLES:
        for group, came in ((100, "100 a cycle"), (len(order), "all in one cycle")):
            rate = pack_in_cycles(ranked, asked, order, policy=policy, group=group).pods_per_second
            rows.append(FigureRow(f"{policy}, {came}, µs a pod", 1e6 / rate))
    size = {"policies": len(OFFERED), "nodes at most": 1213 * SCALES[-1]}
    return Report(name="packing", size=size, rows=rows, seconds=seconds, rate=pods / seconds)


def compare_curves(policies: Sequence[str], chosen: Sequence[str], seeds: Iterable[int]) -> int:
    """Print the largest difference from the published curves; return 1 if one is beyond the tolerance."""
    folder = _folder()
    with (folder / "published_allocation.csv").open() as stream:
        known = {(row["workload"], row["sc_policy"], int(row["seed"])): row for row in csv.DictReader(stream)}
    table = Table("trace", *policies, title="Largest difference from the published allocation, points")
    worst = 0.0
    for trace in chosen:
        found = dict.fromkeys(policies, 0.0)
        for seed in seeds:
            for policy in policies:
                published = known[f"{PREFIX}{trace}", PUBLISHED[policy], seed]
                for at, value in enumerate(run_packing(folder, policy, trace, seed).curve):
                    if value is not None:
                        found[policy] = max(found[policy], abs(value - float(published[str(at)])))
        worst = max(worst, *found.values())
        table.add_row(trace, *(f"{difference:.2f}" for difference in found.values()))
    Console().print(table)
    # Both sides are rounded to two decimals, so a difference of one unit carries float noise.
    return int(worst > TOLERANCE + 1e-6)


def main(arguments: Sequence[str]) -> int:
    """Run `allotment bench packing`; see `--help`."""
    parser = argparse.ArgumentParser(prog="allotment bench packing", description=__doc__)
    parser.add_argument(
        "--all", action="store_true", help=("run all traces and seeds and compare with the published figures")
    )
    parser.add_argument("--policy", choices=tuple(PUBLISHED), nargs="+", default=tuple(PUBLISHED))
    parser.add_argument("--trace", nargs="+", help="run these traces only")
    parser.add_argument("--seed", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--json", metavar="FILE", help="write the speeds as JSON; - for standard output")
    options = parser.parse_args(arguments)
    if not options.all and options.trace is None:
        return print_report(run(), options.json)
    return compare_curves(options.policy, options.trace or find_traces(_folder()), options.seed)


def _folder() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("ALLOTMENT_SHARED") or beside) / "traces" / "openb"
