"""`allotment trace-import`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from clusters.backends.simulated.seed import NodeGroup, build_cluster
from clusters.models import SimulatedCluster
from quotas.models import Queue, Quota
from scheduling.models import Job, JobRole
from scheduling.services.trace_import import feed as feeding
from scheduling.services.trace_import.feed import Pace, feed_jobs, spec_of
from scheduling.services.trace_import.philly import ImportedJob, read_shares, read_trace
from tenants.models import Tenant
from tests.builders.world import World, world

HEAD = (
    "vc,vc_job_no,submit_s_since_vc_first_job,submit_s_since_2017_10_01_est,num_gpu,duration_s,"
    "in_helios_window\n"
)
GOOD = HEAD + "aa,1,0,60,1,30,1\naa,2,0,0,16,300,1\nbb,1,0,30,8,90,1\nbb,2,0,10,1,90,0\n"


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text(GOOD)
    return file


@pytest.fixture
def w(db: None) -> World:
    made = world()
    build_cluster(made.cluster, node_groups=(NodeGroup(prefix="n", nodes=2, cards=8, card_model="A100-40G"),))
    return made


def run(file: Path, out: Path, *options: str) -> dict[str, Any]:
    try:
        call_command("trace_import", str(file), "--format", "philly", "--json", str(out), *options)
    except CommandError as error:
        return json.loads(out.read_text()) | {"status": error.returncode, "said": str(error)}
    return json.loads(out.read_text()) | {"status": 0}


def test_jobs_of_the_window_by_time(trace_file: Path) -> None:
    trace = read_trace(trace_file)

    assert [job.name for job in trace.jobs] == ["aa-2", "bb-1", "aa-1"]
    assert trace.rejected == []
    assert [job.name for job in read_trace(trace_file, limit=1).jobs] == ["aa-2"]


@pytest.mark.parametrize(
    ("row", "line", "field"),
    [
        ("aa,3,0,x,1,30,1", 6, "submit_s_since_2017_10_01_est"),
        ("aa,3,0,0,0,30,1", 6, "num_gpu"),
        ("aa,3,0,0,1,-1,1", 6, "duration_s"),
        ("aa,1,0,0,1,30,1", 6, "vc_job_no"),
        (",3,0,0,1,30,1", 6, "vc"),
        ("cc,3,0,0,1,30,1", 6, "vc"),
    ],
)
def test_bad_rows_are_reported_with_line_and_field(trace_file: Path, row: str, line: int, field: str) -> None:
    trace_file.write_text(GOOD + row + "\n")

    rejected = read_trace(trace_file, tenants=["aa", "bb"]).rejected

    assert [(item.line, item.field) for item in rejected] == [(line, field)]


def test_a_missing_column_file_or_encoding_is_one_line(tmp_path: Path, trace_file: Path) -> None:
    trace_file.write_text("vc,gpus\naa,8\n")
    assert [(r.line, r.field) for r in read_trace(trace_file).rejected] == [(1, "vc_job_no")]
    assert read_shares(trace_file) == ({"aa": 8}, [])
    assert read_trace(tmp_path / "none.csv").rejected[0].message
    trace_file.write_bytes(b"\xff\xfe\x00")
    assert read_trace(trace_file).rejected


def test_more_cards_than_a_node_has_become_a_gang() -> None:
    spec = spec_of(ImportedJob(2, "aa-2", "aa", 0, 16, 300))

    assert (spec.roles[0].replicas, spec.min_available) == (2, 2)
    assert spec.roles[0].gpu is not None and spec.roles[0].gpu.cards == 8
    assert spec.simulate["run_s"] == 300


def test_workspaces_queues_and_jobs_are_made(w: World, trace_file: Path, tmp_path: Path) -> None:
    tenants = tmp_path / "vcs.csv"
    tenants.write_text("vc,nodes,gpus\naa,3,24\nbb,1,8\n")

    result = run(trace_file, tmp_path / "out.json", "--tenants", str(tenants), "--speedup", "100000")

    assert result == {"jobs": 3, "submitted": 3, "rejected": [], "status": 0}
    assert set(Tenant.unscoped.filter(slug__startswith="vc-").values_list("slug", flat=True)) == {
        "vc-aa",
        "vc-bb",
    }
    # 32 cards were owned, the pool has 16: each gets its part.
    queue = Queue.unscoped.get(workspace__slug="vc-aa")
    assert Quota.unscoped.get(node=queue.node, resource="gpu.cards").own_nominal == 12
    assert JobRole.unscoped.get(job__name="aa-2").replicas == 2
    assert SimulatedCluster.unscoped.get().anchors[-1][2] == 100000


def test_a_second_import_rejects_names_in_use_and_keeps_the_queues(
    w: World, trace_file: Path, tmp_path: Path
) -> None:
    run(trace_file, tmp_path / "out.json", "--speedup", "100000")

    result = run(trace_file, tmp_path / "out.json", "--speedup", "100000")

    assert (result["submitted"], result["status"]) == (0, 2)
    assert {row["line"] for row in result["rejected"]} == {2, 3, 4}
    assert "NAME_TAKEN" in result["rejected"][0]["message"]
    assert Queue.unscoped.filter(workspace__slug="vc-aa").count() == 1


def test_one_bad_row_stops_all_of_it(w: World, trace_file: Path, tmp_path: Path) -> None:
    trace_file.write_text(GOOD + "aa,9,0,0,many,1,1\n")

    result = run(trace_file, tmp_path / "out.json")

    assert (result["submitted"], result["status"]) == (0, 2)
    assert result["rejected"][0] == {
        "file": str(trace_file),
        "line": 6,
        "field": "num_gpu",
        "message": "'many' is not a whole number",
    }
    assert "line 6, field num_gpu" in result["said"]
    assert not Job.unscoped.exists()
    assert not Tenant.unscoped.filter(slug__startswith="vc-").exists()


def test_the_pace_is_that_of_the_trace_divided_by_the_factor(
    w: World, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [0.0]
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(round(seconds, 3))
        at[0] += seconds

    monkeypatch.setattr(feeding, "job_submit", lambda **_: None)
    fed = feed_jobs(
        acting_user=w.platform_admin,
        trace=read_trace(trace_file),
        file="jobs.csv",
        places={"aa": w.workspace, "bb": w.other_workspace},
        speedup=10,
        report=lambda done: None,
        pace=Pace(now=lambda: at[0], wait=wait),
    )

    assert waits == [3.0, 3.0]
    assert fed.submitted == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "openb"], "not supported; valid: philly"),
        (["--format", "philly", "--speedup", "0"], "above 0"),
        (["--format", "philly", "--limit", "0"], "at least 1"),
    ],
)
def test_bad_usage_is_one_line(trace_file: Path, options: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said) as caught:
        call_command("trace_import", str(trace_file), *options)

    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)
