"""Departures on a small cluster, and the platform's own policy on a published trace."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from scheduling.engine import WorkloadShape
from scheduling.engine.model import Device, GpuMode, GpuRequest, Node, Request
from scheduling.simulation.departures import Departures
from scheduling.simulation.errors import UsageError
from scheduling.simulation.openb import CARD, TracePod, read_arrivals, read_nodes, read_pods, scale_trace
from scheduling.simulation.pack import PackReport, run_pack


def node(name: str) -> Node:
    devices = tuple(
        Device(uuid=f"{name}/{at}", index=at, model="a", mode=GpuMode.SLICE, cores=CARD) for at in range(8)
    )
    return Node(id=name, cpu=96_000, memory=1 << 20, devices=devices)


def pod(name: str, milli: int) -> TracePod:
    gpu = (
        GpuRequest(cards=1, mode=GpuMode.SLICE, cores=milli, memory=0)
        if milli < CARD
        else GpuRequest(cards=1)
    )
    return TracePod(name, Request(cpu=4_000, memory=1_000, gpu=gpu), WorkloadShape(4_000, milli, 1))


NODES = [node(f"n{at:02}") for at in range(12)]
PODS = [pod(f"p{at}", milli) for at, milli in enumerate((1000, 500, 250, 1000, 700, 300))]


def run(seed: int = 1, departures: Departures | None = None) -> PackReport:
    order = [at % len(PODS) for at in range(200)]
    return run_pack(NODES, PODS, order, policy="default", seed=seed, departures=departures)


def test_the_run_ends_at_ninety_percent() -> None:
    report = run(departures=Departures(50))
    assert report.departed is not None
    assert report.placed_pods < run().placed_pods
    assert report.departed.left == round(report.placed_pods / 2)
    assert report.departed.moves == 0
    assert report.departed.slots_with == report.departed.slots_without


def test_moves_open_slots_and_are_counted() -> None:
    without, with_moves = run(departures=Departures(60)), run(departures=Departures(60, moves=40))
    assert without.departed is not None and with_moves.departed is not None
    assert with_moves.departed.slots_without == without.departed.slots_with
    assert with_moves.departed.gained > 0
    assert 0 < with_moves.departed.moves <= 40
    figures = with_moves.to_json()
    assert figures["whole_nodes_opened"] == with_moves.departed.slots_with
    assert figures["moves"] == with_moves.departed.moves


@pytest.mark.parametrize("moves", [1, 3, 20])
def test_each_opened_slot_is_a_node_without_pods(moves: int) -> None:
    departed = run(departures=Departures(60, moves)).departed
    assert departed is not None
    assert departed.moves <= moves
    # Whole nodes are never opened without a move, and no more of them than there are nodes.
    assert departed.gained <= departed.moves
    assert departed.slots_with <= len(NODES)
    assert departed.cards_moved <= departed.moves


def test_departures_depend_on_the_seed_alone() -> None:
    assert run(3, Departures(40, 20)).departed == run(3, Departures(40, 20)).departed
    assert len({run(seed, Departures(90)).departed for seed in range(3)}) > 1


@pytest.mark.parametrize("what", [Departures(0), Departures(100), Departures(10, -1)])
def test_senseless_departures_are_refused(what: Departures) -> None:
    with pytest.raises(UsageError, match=r"at least|above"):
        run(departures=what)


@pytest.mark.shared
def test_the_own_policy_allocates_more_than_the_published_best(shared_dir: Path) -> None:
    folder = shared_dir / "traces" / "openb"
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    pods = read_pods(folder / "openb_pod_list_gpushare100.csv")
    stream = folder / "arrivals" / "gpushare100.jsonl.gz"
    arrivals = read_arrivals(stream, 42, pods=len(pods), nodes=len(nodes))
    ranked, order = scale_trace(nodes, arrivals, len(pods), 1)
    report = run_pack(ranked, pods, order, policy="default", seed=42)
    with (folder / "published_allocation.csv").open() as table:
        rows = {(row["workload"], row["sc_policy"], row["seed"]): row for row in csv.DictReader(table)}
    best = rows["openb_pod_list_gpushare100", "06-FGD", "42"]
    assert (report.curve[130] or 0) > float(best["130"]) + 1.5
    assert (report.curve[100] or 0) > float(best["100"]) + 0.5
