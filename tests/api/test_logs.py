"""The output of tasks through the API."""

from __future__ import annotations

import pytest

from clusters.models import Cell, Cluster
from quotas.models import Queue
from tenants.models import Role, User
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.jobs import RoleOf
from tests.builders.pipeline import run_for, simulated_cluster
from tests.builders.world import World

LOGS = "/api/v1/workspaces/team-a/jobs/train/logs"


@pytest.fixture
def ran(db: None) -> tuple[Cell, Cluster, Queue, User]:
    """A job of two tasks that has run for a minute."""
    cell = clusters.cell()
    cluster, flavor = simulated_cluster(cell)
    place = tenancy.workspace("team-a")
    quotas.gpu_quota(quotas.quota_node(cell, tenancy.root()), flavor, 0)
    queue = quotas.queue(cell, place, [flavor], cards=8)
    user = tenancy.user("ed", place, Role.EDITOR)
    jobs.job(queue, user, "train", roles=[RoleOf(name="worker", replicas=2)], simulate={"run_s": 600})
    run_for(cell, cluster, 60)
    return cell, cluster, queue, user


def test_lines_of_all_tasks_by_time_and_of_one(ran: tuple[Cell, Cluster, Queue, User], as_user: As) -> None:
    client = as_user(ran[3])
    lines = client.get(LOGS).json()["items"]
    assert {line["task"] for line in lines} == {"worker-0", "worker-1"}
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert any("found 1 GPU" in line["text"] for line in lines)
    one = client.get(f"{LOGS}?task=worker-1&limit=2").json()["items"]
    assert len(one) == 2
    assert {line["task"] for line in one} == {"worker-1"}
    later = client.get(LOGS, {"since": one[0]["at"], "task": "worker-1", "limit": 1}).json()["items"]
    assert later[0]["at"] > one[0]["at"]


def test_what_has_no_lines(ran: tuple[Cell, Cluster, Queue, User], as_user: As) -> None:
    client = as_user(ran[3])
    for task in ("worker-9", "worker", "nobody-0", "-1"):
        assert client.get(LOGS, {"task": task}).status_code == 404
    for query in ("limit=0", "since=yesterday", "attempt=0", "follow=maybe", "previous=true&attempt=1"):
        assert client.get(f"{LOGS}?{query}").status_code == 400
    assert client.get(f"{LOGS}?attempt=7").json()["items"] == []


def test_a_cluster_without_logs_says_so(
    ran: tuple[Cell, Cluster, Queue, User], as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.backends.simulated.backend.SimulatedBackend.capabilities", _Dumb())
    assert as_user(ran[3]).get(LOGS).json()["code"] == "LOGS_UNAVAILABLE"


class _Dumb:
    logs = False


def test_nothing_is_printed_before_the_start(w: World, as_user: As) -> None:
    jobs.job(w.queue, w.editor, "train")
    assert as_user(w.viewer).get(LOGS).json()["items"] == []
    assert as_user(w.outsider).get(LOGS).status_code == 404
