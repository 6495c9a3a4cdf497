"""Packing runs on small lists, and errors for invalid input."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from scheduling.simulation.cli import main
from scheduling.simulation.openb import read_arrivals, read_nodes, read_pods, scale_trace
from scheduling.simulation.pack import PackReport, run_pack

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,1000,2,T4\nn1,8000,1000,2,V100\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,1000,10,1,500,
p1,1000,10,1,600,V100|P100
p2,1000,10,2,1000,
p3,1000,10,0,0,
p4,1000,10,1,400,T4
"""
ARRIVALS = {"seed": 42, "order": [0, 1, 4, 2, 3, 0], "node_rank": [1, 0]}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The three files of a packing run."""
    found = {name: tmp_path / f"{name}.txt" for name in ("nodes", "pods", "arrivals")}
    found["nodes"].write_text(NODES)
    found["pods"].write_text(PODS)
    found["arrivals"].write_bytes(gzip.compress(json.dumps(ARRIVALS).encode()))
    return found


def packed(files: dict[str, Path], scale: int = 1) -> PackReport:
    nodes, pods = read_nodes(files["nodes"]), read_pods(files["pods"])
    arrivals = read_arrivals(files["arrivals"], 42, pods=len(pods), nodes=len(nodes))
    ranked, order = scale_trace(nodes, arrivals, len(pods), scale)
    return run_pack(ranked, pods, order, policy="bestfit", seed=42)


def test_where_pods_go(files: dict[str, Path]) -> None:
    report = packed(files)
    assert [(p.pod, p.node, p.devices) for p in report.packed] == [
        ("p0", "n1", (0,)),
        ("p1", "n1", (1,)),
        ("p4", "n0", (0,)),
        ("p2", "", ()),
        ("p3", "n1", ()),
        ("p0", "n1", (0,)),
    ]
    assert (report.arrived_pods, report.placed_pods, report.refused_multi_gpu_by_95) == (6, 5, 1)


def test_the_curve_is_allocation_by_arrival(files: dict[str, Path]) -> None:
    report = packed(files)
    assert {at: value for at, value in enumerate(report.curve) if value is not None} == {
        12: 12.5,
        28: 27.5,
        38: 37.5,
        88: 37.5,
        100: 50.0,
    }


def test_scale_repeats_nodes_and_interleaves_arrivals(files: dict[str, Path]) -> None:
    report = packed(files, 2)
    assert [p.pod for p in report.packed[:4]] == ["p0", "p0", "p1", "p1"]
    assert {p.node for p in report.packed if p.node} <= {"n0#0", "n0#1", "n1#0", "n1#1"}
    assert report.arrived_pods == 12


def run(files: dict[str, Path], *options: str) -> int:
    arguments = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    return main(["pack", *arguments, "--policy", "bestfit", *options])


def test_the_command_writes_json_and_placements(files: dict[str, Path], tmp_path: Path) -> None:
    result, places = tmp_path / "result.json", tmp_path / "places.csv"
    assert run(files, "--json", str(result), "--placements", str(places)) == 0
    found = json.loads(result.read_text())
    assert list(found) == [
        "policy", "seed", "arrived_pods", "placed_pods", "refused_multi_gpu_by_95", "whole_nodes_opened",
        "moves", "allocation_percent", "curve", "fragmentation_percent", "pods_per_second", "placements",
    ]  # fmt: skip
    assert found["allocation_percent"] == {"100": 50.0, "130": None}
    assert len(found["curve"]) == 131
    assert set(found["fragmentation_percent"]) == {"50", "80", "90"}
    rows = list(csv.DictReader(places.open()))
    assert rows[0] == {"step": "0", "pod": "p0", "node": "n1", "devices": "0"}


def test_standard_output_carries_json_alone_or_a_table(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "bestfit"
    assert run(files) == 0
    assert "50.00 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("nodes", "sn,", "name,", "nodes.txt, line 1, field sn: the column is missing"),
        ("nodes", "n1,8000", "n1,many", "nodes.txt, line 3, field cpu_milli: 'many' is not a whole number"),
        ("nodes", "n1,", "n0,", "nodes.txt, line 3, field sn: n0 stands twice"),
        ("nodes", "2,V100", "-1,V100", "nodes.txt, line 3, field gpu: -1 is below 0"),
        ("pods", "p2,1000,10,2,1000,", "p2,1000,10,2,900,", "pods.txt, line 4, field gpu_milli: is 900"),
        ("pods", "p1,1000,10,1,600", "p1,1000,10,1,0", "pods.txt, line 3, field gpu_milli: is 0"),
        ("pods", "p3,1000,10,0,0,", "p3,1000", "pods.txt, line 5, field memory_mib: the line is too short"),
        ("arrivals", '"seed": 42', '"seed": 7', "arrivals.txt, field seed: has no seed 42; it has 7"),
        ("arrivals", "[1, 0]", "[1, 1]", "arrivals.txt, line 1, field node_rank: ranks 1 nodes"),
        ("arrivals", "[0, 1, 4", "[0, 1, 9", "arrivals.txt, line 1, field order: 9 is no row of a list of 5"),
        ("arrivals", "{", "[", "arrivals.txt, line 1: isn't valid JSON: "),
    ],
)
def test_bad_input_is_one_line_that_names_the_place(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, message: str
) -> None:
    text = json.dumps(ARRIVALS) if name == "arrivals" else files[name].read_text()
    assert old in text
    files[name].write_text(text.replace(old, new, 1))
    assert run(files) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "tetris"), "policy 'tetris' not found"),
        (("--scale", "0"), "--scale is 0"),
        (("--departures", "100"), "--departures is 100"),
        (("--departures", "10", "--moves", "-1"), "--moves is -1"),
        (("--moves", "10"), "--moves needs --departures"),
        (("--json", "/nowhere/x.json"), "/nowhere/x.json: can't be written"),
        (("--nodes", "/nowhere/n.csv"), "/nowhere/n.csv: can't be read"),
        (("--arrivals", "/nowhere/a.gz"), "/nowhere/a.gz: can't be read"),
    ],
)
def test_unusable_options_say_so(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert run(files, *options) == 2
    assert message in capsys.readouterr().err
