"""`allotment node`: nodes are listed, cordoned, drained and uncordoned from a shell."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError

from clusters.models import Cluster, ClusterHealth, Node, NodeCordon
from foundation.models import AuditRecord
from scheduling.models import Job, JobState
from tenants.models import Role
from tests.builders import jobs, tenancy
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage() -> Iterator[Stage]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        made = Stage()
        Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
        tenancy.platform_admin()
        yield made


@pytest.fixture
def train(stage: Stage) -> Job:
    """A job of two GPUs that runs on one node."""
    job = stage.submit("train", jobs.RoleOf(cards=2), run_s=100_000)
    stage.run(24)
    assert state(job) == JobState.RUNNING
    return job


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("node", *words, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run_and_read(*words: str) -> Any:
        run(*words, "--json", "-")
        return json.loads(capsys.readouterr().out)

    return run_and_read


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("builtins.input", lambda _question: text)


def node_of(job: Job) -> Node:
    return Node.unscoped.get(allocations__attempt__job=job, allocations__released_at__isnull=True)


def test_a_list_says_where_new_pods_are_placed(stage: Stage, run_json: Callable[..., Any]) -> None:
    assert {row["name"]: row["cordoned"] for row in run_json("list")["items"]} == {
        "node-01": False,
        "node-02": False,
    }
    assert run("cordon", "node-01", "--reason", "a fan fails") == "node node-01: cordon requested\n"
    stage.run(9)

    assert "cordoned" in run("list")
    assert [row["name"] for row in run_json("list", "--cordoned")["items"]] == ["node-01"]
    assert NodeCordon.unscoped.get(node__name="node-01").reason == "a fan fails"
    assert run("uncordon", "node-01") == "node node-01: uncordon requested\n"
    stage.run(9)
    assert run_json("list", "--cordoned")["items"] == []
    assert AuditRecord.unscoped.filter(action__in=["node.cordon", "node.uncordon"]).count() == 2


def test_a_drain_names_what_it_evicts_and_asks(
    stage: Stage, train: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_of(train)
    answer(monkeypatch, "yes")
    with pytest.raises(CommandError, match="no changes were made"):
        run("drain", node.name)
    assert not NodeCordon.unscoped.exists()

    answer(monkeypatch, node.name)
    shown = run("drain", node.name)
    assert "Jobs to be evicted: 1 (" in shown
    assert f"  {train.workspace.slug}/train (" in shown
    assert shown.endswith(f"node {node.name}: drain requested\n")
    stage.run(60)
    assert node_of(train) != node
    assert "drained" in run("list", "--cordoned")


def test_without_a_terminal_nothing_is_drained_unless_confirmed(
    stage: Stage, train: Job, monkeypatch: pytest.MonkeyPatch, run_json: Callable[..., Any]
) -> None:
    def no_terminal(_question: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", no_terminal)
    name = node_of(train).name
    with pytest.raises(CommandError, match="--yes"):
        run("drain", name)
    assert not NodeCordon.unscoped.exists()
    assert run_json("drain", name, "--yes", "--reason", "fans")["cordon"]["drain"] is True


def test_only_who_may_edit_clusters_changes_a_node(stage: Stage) -> None:
    tenancy.user("vera", role=Role.PLATFORM_VIEWER)
    for words in (["cordon", "node-01"], ["uncordon", "node-01"], ["drain", "node-01", "--yes"]):
        with pytest.raises(CommandError) as caught:
            run(*words, "--user", "vera")
        assert caught.value.returncode == 1
    with pytest.raises(CommandError, match="not found"):
        run("cordon", "node-99")
    assert not NodeCordon.unscoped.exists()
