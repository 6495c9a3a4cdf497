"""`allotment doctor` finds what is wrong, says what to do, and keeps its JSON keys."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from clusters.models import Cluster, ClusterHealth
from foundation.core import clock
from foundation.monitoring import health
from tests.builders.world import world


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit status and the output of one run."""
    try:
        call_command("doctor", *arguments)
    except SystemExit as end:
        return int(str(end.code)), capsys.readouterr().out
    return 0, capsys.readouterr().out


@pytest.mark.django_db
def test_what_is_well_passes(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("settings", "home", "database", "migrations")
    status, output = run(capsys, *(word for name in names for word in ("--only", name)), "--json", "-")
    checks = json.loads(output)["checks"]
    assert [check["name"] for check in checks] == list(names)
    assert [check for check in checks if not check["ok"]] == []
    assert status == 0
    assert all(set(check) == {"name", "ok", "message", "help"} for check in checks)


@pytest.mark.django_db
def test_a_worker_that_never_reported_is_a_failure_with_advice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "doctor.json"
    status, output = run(capsys, "--only", "relay", "--json", str(file))
    assert status == 1
    assert "check that `allotment relay` is running" in " ".join(output.split())
    assert json.loads(file.read_text(encoding="utf-8"))["checks"][0]["ok"] is False


@pytest.mark.django_db
def test_a_fresh_report_of_the_relay_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    health.record_heartbeat("relay")
    assert run(capsys, "--only", "relay")[0] == 0


@pytest.mark.django_db
def test_an_unknown_check_is_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "allotment.management.commands.doctor.run_checks",
        lambda: [health.CheckResult("database", True, "sqlite")],
    )
    with pytest.raises(CommandError, match="no check is called nonsense") as caught:
        call_command("doctor", "--only", "nonsense")
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_a_result_file_that_cannot_be_written_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file or directory") as caught:
        call_command("doctor", "--only", "database", "--json", str(tmp_path / "no" / "file"))
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_a_cluster_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    here = world()
    Cluster.unscoped.update(health=ClusterHealth.HEALTHY, observed_at=clock.now())
    assert run(capsys, "--only", "clusters")[0] == 0

    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE, health_message="no route to host")
    status, output = run(capsys, "--only", "clusters")
    assert status == 1
    assert f"{here.cluster.name}: no route to host" in " ".join(output.split())

    Cluster.unscoped.update(health=ClusterHealth.HEALTHY, observed_at=clock.now() - timedelta(minutes=5))
    status, output = run(capsys, "--only", "clusters")
    assert status == 1
    assert "last looked at 300 s ago" in " ".join(output.split())

    Cluster.unscoped.update(observed_at=clock.now(), missing_permissions=["get pods/log"])
    status, output = run(capsys, "--only", "clusters", "--json", "-")
    check = json.loads(output)["checks"][0]
    assert status == 1 and "access.yaml" in check["help"]
    assert check["message"] == f"{here.cluster.name}: missing permissions: get pods/log"


@pytest.mark.django_db
def test_an_installation_without_a_cluster_gets_the_way_to_one(capsys: pytest.CaptureFixture[str]) -> None:
    status, output = run(capsys, "--only", "clusters")
    assert status == 1
    assert "allotment cluster add" in " ".join(output.split())
