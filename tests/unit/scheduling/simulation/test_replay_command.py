"""The replay command: files, options, exit status, and errors for invalid input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from scheduling.simulation.cli import main

TENANTS = "vc,nodes,gpus\na,1,8\nb,1,8\n"
JOBS = """vc,vc_job_no,submit_s_since_2017_10_01_est,num_gpu,duration_s,in_helios_window
a,0,-5,8,100,0
a,1,0,8,100,1
b,0,10,4,50,1
a,2,20,8,10,1
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A trace of three jobs in the window, and two tenants."""
    found = {name: tmp_path / f"{name}.csv" for name in ("jobs", "tenants")}
    found["jobs"].write_text(JOBS)
    found["tenants"].write_text(TENANTS)
    return found


def run(files: dict[str, Path], *options: str) -> int:
    arguments = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    return main(["replay", *arguments, "--policy", "static-fifo", *options])


def test_events_let_anyone_check_the_figures(files: dict[str, Path], tmp_path: Path) -> None:
    result, events = tmp_path / "result.json", tmp_path / "events.csv"
    assert run(files, "--json", str(result), "--events", str(events)) == 0
    rows = list(csv.DictReader(events.open()))
    assert list(rows[0]) == ["t_s", "event", "job", "tenant", "gpus", "nodes"]
    times = {(row["job"], row["event"]): int(row["t_s"]) for row in rows}
    waits = [times[name, "start"] - times[name, "submit"] for name in ("a-1", "b-0", "a-2")]
    assert waits == [0, 0, 80]
    found = json.loads(result.read_text())
    assert found["queue_s"]["mean"] == round(sum(waits) / 3, 3)
    assert found["per_tenant"]["a"]["queue_s"] == 40.0


def test_more_nodes_for_a_tenant(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, "--nodes-per-tenant", "a=2", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["queue_s"]["mean"] == 0


def test_a_table_for_people(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, "--compress", "2") == 0
    assert "3 of 3 jobs finished" in capsys.readouterr().out


def test_jobs_that_never_finish_are_a_failure(files: dict[str, Path]) -> None:
    files["jobs"].write_text(JOBS.replace("b,0,10,4", "b,0,10,16"))
    assert run(files) == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("jobs", "b,0,10,4", "c,0,10,4", "jobs.csv, line 4, field vc: 'c' is not among the tenants"),
        ("jobs", "a,2,20", "a,1,20", "jobs.csv, line 5, field vc_job_no: a-1 stands twice"),
        ("jobs", "10,4,50", "10,0,50", "jobs.csv, line 4, field num_gpu: 0 is below 1"),
        ("jobs", "10,4,50", "10,4,x", "jobs.csv, line 4, field duration_s: 'x' is not a whole number"),
        (
            "tenants",
            "b,1,8",
            "b,1,4",
            "tenants.csv, line 3, field gpus: all tenants need nodes of the same size",
        ),
        ("tenants", "b,1,8", "b,3,8", "tenants.csv, line 3, field gpus: 8 GPUs are not divisible"),
        ("tenants", "b,1,8", "a,1,8", "tenants.csv, line 3, field vc: a stands twice"),
    ],
)
def test_bad_input_is_one_line_that_names_the_place(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, message: str
) -> None:
    files[name].write_text(files[name].read_text().replace(old, new, 1))
    assert run(files) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "chance"), "policy 'chance' not found"),
        (("--compress", "0"), "--compress is 0"),
        (("--nodes-per-tenant", "c=1"), "names c, the tenants are a, b"),
        (("--nodes-per-tenant", "a=none"), "is not NAME=N"),
    ],
)
def test_unusable_options_say_so(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert run(files, *options) == 2
    assert message in capsys.readouterr().err
