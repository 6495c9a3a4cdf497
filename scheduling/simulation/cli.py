"""The commands `pack` and `replay`: options, files and exit status.

Exit status: 0 done, 1 failed (some jobs never finished), 2 invalid usage or input; then one line names file,
line and field, and nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from scheduling.simulation.departures import Departures
from scheduling.simulation.errors import InputError, UsageError
from scheduling.simulation.openb import read_arrivals, read_nodes, read_pods, scale_trace
from scheduling.simulation.output import (
    progress_bar,
    show_pack,
    show_replay,
    write_csv,
    write_json,
)
from scheduling.simulation.pack import OFFERED, check_policy, run_pack
from scheduling.simulation.philly import read_jobs, read_tenants
from scheduling.simulation.pools import POLICIES, pool_policy
from scheduling.simulation.replay import run_replay

DONE, FAILED, BAD_USAGE = 0, 1, 2


def add_pack_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pack`."""
    parser.add_argument("--nodes", type=Path, required=True, metavar="CSV", help="node file")
    parser.add_argument("--pods", type=Path, required=True, metavar="CSV", help="pod file")
    parser.add_argument(
        "--arrivals", type=Path, required=True, metavar="JSONL", help="arrivals file, plain or .gz"
    )
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="seed of the arrivals (default 42)")
    parser.add_argument("--policy", required=True, metavar="P", help=f"one of {', '.join(OFFERED)}")
    parser.add_argument("--scale", type=int, default=1, metavar="K", help="repeat nodes and pods K times")
    parser.add_argument(
        "--departures",
        type=float,
        metavar="PCT",
        help=("share of pods that finish at 90 %% load, in percent"),
    )
    parser.add_argument(
        "--moves", type=int, metavar="N", help="maximum number of tasks to move after departures"
    )
    parser.add_argument("--placements", type=Path, metavar="FILE", help="write step,pod,node,devices")
    _add_json(parser)


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `replay`."""
    parser.add_argument("--jobs", type=Path, required=True, metavar="CSV", help="job file")
    parser.add_argument("--tenants", type=Path, required=True, metavar="CSV", help="tenants file")
    parser.add_argument("--policy", required=True, metavar="P", help=f"one of {', '.join(POLICIES)}")
    parser.add_argument(
        "--nodes-per-tenant",
        nargs="+",
        default=[],
        metavar="NAME=N",
        help="override the number of nodes",
    )
    parser.add_argument("--compress", type=float, default=1.0, metavar="X", help="speed up arrivals by X")
    parser.add_argument(
        "--heads-only",
        action="store_true",
        help="count guarantee violations only for the first job of each tenant's queue",
    )
    parser.add_argument("--events", type=Path, metavar="CSV", help="write t_s,event,job,tenant,gpus,nodes")
    _add_json(parser)


def pack_command(options: argparse.Namespace) -> int:
    """Run `pack`; return the exit status."""
    try:
        return _pack(options)
    except (InputError, UsageError) as error:
        return _complain("pack", error)


def replay_command(options: argparse.Namespace) -> int:
    """Run `replay`; return the exit status."""
    try:
        return _replay(options)
    except (InputError, UsageError) as error:
        return _complain("replay", error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m scheduling.simulation.cli pack …`; return the exit status."""
    parser = argparse.ArgumentParser(prog="scheduling.simulation.cli", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_pack_arguments(commands.add_parser("pack", help="simulate pod placement from a trace"))
    add_replay_arguments(commands.add_parser("replay", help="simulate job scheduling from a trace"))
    options = parser.parse_args(arguments)
    return pack_command(options) if options.command == "pack" else replay_command(options)


def _pack(options: argparse.Namespace) -> int:
    check_policy(options.policy)
    departures = _departures(options)
    nodes, pods = read_nodes(options.nodes), read_pods(options.pods)
    arrivals = read_arrivals(options.arrivals, options.seed, pods=len(pods), nodes=len(nodes))
    ranked, order = scale_trace(nodes, arrivals, len(pods), options.scale)
    with progress_bar("packing") as progress:
        report = run_pack(
            ranked,
            pods,
            order,
            policy=options.policy,
            seed=options.seed,
            departures=departures,
            progress=progress,
        )
    result = report.to_json()
    if options.placements is not None:
        rows = ((p.step, p.pod, p.node, " ".join(map(str, p.devices))) for p in report.packed)
        write_csv(options.placements, ("step", "pod", "node", "devices"), rows)
        result["placements"] = str(options.placements)
    if options.json is not None:
        write_json(options.json, result)
    if options.json != "-":
        show_pack(report)
    return DONE


def _departures(options: argparse.Namespace) -> Departures | None:
    if options.departures is None:
        if options.moves is not None:
            raise UsageError("--moves needs --departures: without departures no pod waits for whole nodes")
        return None
    departures = Departures(options.departures, options.moves or 0)
    departures.check_options()
    return departures


def _replay(options: argparse.Namespace) -> int:
    pool_policy(options.policy)
    tenants = read_tenants(options.tenants, _nodes_per_tenant(options.nodes_per_tenant))
    jobs = read_jobs(options.jobs, tenants)
    with progress_bar("replaying") as progress:
        report = run_replay(
            jobs,
            tenants,
            policy=options.policy,
            compress=options.compress,
            heads_only=options.heads_only,
            progress=progress,
        )
    if options.events is not None:
        rows = ((e.t_s, e.event, e.job, e.tenant, e.gpus, " ".join(e.nodes)) for e in report.events)
        write_csv(options.events, ("t_s", "event", "job", "tenant", "gpus", "nodes"), rows)
    if options.json is not None:
        write_json(options.json, report.to_json())
    if options.json != "-":
        show_replay(report)
    return DONE if report.finished == report.jobs else FAILED


def _nodes_per_tenant(pairs: Sequence[str]) -> dict[str, int]:
    nodes = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if not name or not number.isdecimal() or int(number) < 1:
            raise UsageError(f"--nodes-per-tenant {pair!r} is not NAME=N with N of 1 or more")
        nodes[name] = int(number)
    return nodes


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")


def _complain(command: str, error: Exception) -> int:
    sys.stderr.write(f"{command}: {error}\n")
    return BAD_USAGE


if __name__ == "__main__":
    raise SystemExit(main())
