"""The command `bench kube`: a whole platform on PostgreSQL, a real API server, and nodes simulated by kwok.

First, plain calls: the pods per second that the API server allows to be created and bound here. Then, through
the platform: the time from submission to binding at a steady rate; the time to fill all GPUs with jobs of one
GPU; and the time in which one large job reclaims its team's quota from borrowers. Times of binding are those
reported by a watch of the API server's pods. Everything runs on the same cores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.kube.cluster import Administrator, Bindings
from benchmarks.kube.figures import KubeFigures, Size, build_report, size_of
from benchmarks.kube.user import BenchUser
from benchmarks.kube.waiting import print_progress
from benchmarks.support.control_plane import ControlPlane, running_control_plane, running_nodes
from benchmarks.support.postgres import PostgresServer
from benchmarks.support.processor import child_processes, seconds_of, seconds_of_family
from benchmarks.support.report import Report, print_report, read_limits
from benchmarks.support.running import RunningPlatform, platform_on_postgres


def main(arguments: Sequence[str]) -> int:
    """Run `allotment bench kube`; see `--help`."""
    parser = argparse.ArgumentParser(prog="allotment bench kube", description=__doc__)
    parser.add_argument(
        "--share", type=float, default=1.0, help=("scale of nodes and jobs, for example 0.1 for a quick run")
    )
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    return print_report(run(options.share), options.json)


def run(share: float = 1.0) -> Report:
    """Measure once, with a `share` of the nodes and of the jobs."""
    bounds = read_limits("kube")
    size = size_of(bounds, share)
    with _cluster(size) as (plane, administrator):
        print_progress(f"{size.plain} bare pods, twice, then as many minimal ones")
        created, bound = administrator.measure_plain_calls(size.plain, size.nodes)
        minimal = administrator.measure_minimal_pods(size.plain, size.nodes)
        teams = (f"filler={size.cards - size.owned}", f"owner={size.owned}")
        world = ("benchmarks.kube.world", plane.write_kubeconfig(), *teams)
        with platform_on_postgres(world=world) as (running, server):
            user = BenchUser(running, Bindings(plane))
            per_s = bounds["steady_per_s"]
            print_progress(f"{size.steady} jobs, {per_s} a second, after {per_s} that warm up")
            user.submit_steadily(per_s, per_s)
            steady_s = user.submit_steadily(size.steady, per_s)
            before = _spent(running, server)
            print_progress(f"{size.cards} jobs of one card")
            filled_s = user.fill_cards(size.cards)
            after = _spent(running, server)
            print_progress(f"one job of {size.owned} cards")
            reclaimed_s = user.reclaim_cards(size.owned, size.each)
    spent = {f"{name} while filling": used - before[name] for name, used in after.items()}
    return build_report(
        bounds, size, KubeFigures(created, bound, minimal, steady_s, filled_s, reclaimed_s, spent)
    )


def _spent(running: RunningPlatform, server: PostgresServer) -> dict[str, float]:
    """Return the processor seconds so far of the platform, of PostgreSQL, of the cluster, and of this
    process.
    """
    cluster = set(child_processes(os.getpid())) - {running.pid, server.process.pid}
    return {
        **running.processor_seconds(),
        "PostgreSQL": seconds_of_family(server.process.pid),
        "the cluster": seconds_of(cluster),
        "this benchmark": seconds_of([os.getpid()]),
    }


@contextmanager
def _cluster(size: Size) -> Iterator[tuple[ControlPlane, Administrator]]:
    with running_control_plane() as plane, running_nodes(plane):
        administrator = Administrator(plane)
        print_progress(f"{size.nodes} nodes")
        administrator.create_nodes(size.nodes, size.each)
        yield plane, administrator
