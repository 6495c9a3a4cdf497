"""The cluster's events about the pods of a job, through the API and on its page."""

from __future__ import annotations

import pytest
from django.test import Client

from clusters.backends.simulated.faults import set_reachable
from clusters.models import Cluster, SimulatedPod
from tenants.models import Role, User
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.jobs import RoleOf
from tests.builders.pipeline import run_for, simulated_cluster
from tests.builders.world import World

EVENTS = "/api/v1/workspaces/team-a/jobs/train/pod-events"
PAGE = "/w/team-a/jobs/{}/pod-events"


@pytest.fixture
def ran(db: None) -> tuple[Cluster, User]:
    """A job of two tasks that has run for a minute."""
    cell = clusters.cell()
    cluster, flavor = simulated_cluster(cell)
    place = tenancy.workspace("team-a")
    queue = quotas.queue(cell, place, [flavor], cards=8)
    user = tenancy.user("ed", place, Role.EDITOR)
    jobs.job(queue, user, "train", roles=[RoleOf(name="worker", replicas=2)], simulate={"run_s": 600})
    run_for(cell, cluster, 60)
    return cluster, user


def test_events_of_all_tasks_newest_first_and_of_one(ran: tuple[Cluster, User], as_user: As) -> None:
    client = as_user(ran[1])
    found = client.get(EVENTS).json()["items"]
    assert [event["at"] for event in found] == sorted((event["at"] for event in found), reverse=True)
    told = {(event["task"], event["reason"]) for event in found}
    assert told == {(f"worker-{n}", reason) for n in range(2) for reason in ("Scheduled", "Started")}
    one = client.get(EVENTS, {"task": "worker-1"}).json()["items"]
    assert {event["task"] for event in one} == {"worker-1"}
    assert client.get(EVENTS, {"task": "worker-9"}).status_code == 404
    assert client.get(EVENTS, {"attempt": 7}).json()["items"] == []
    assert client.get(EVENTS, {"attempt": 0}).status_code == 400


def test_what_went_wrong_is_a_warning(ran: tuple[Cluster, User], as_user: As, client: Client) -> None:
    user = ran[1]
    SimulatedPod.unscoped.update(reason="Evicted", message="The node was low on memory", ended_ms=70_000)
    warned = [event for event in as_user(user).get(EVENTS).json()["items"] if event["warning"]]
    assert {(event["reason"], event["message"]) for event in warned} == {
        ("Evicted", "The node was low on memory")
    }
    client.force_login(user)
    text = client.get(PAGE.format("train")).content.decode()
    assert "The node was low on memory" in text
    assert "worker-1" in text


def test_an_unreachable_cluster_is_reported_without_an_error(
    ran: tuple[Cluster, User], as_user: As, client: Client
) -> None:
    set_reachable(ran[0].pk, False)
    answer = as_user(ran[1]).get(EVENTS)
    assert (answer.status_code, answer.json()["code"]) == (409, "CLUSTER_UNREACHABLE")
    client.force_login(ran[1])
    answer = client.get(PAGE.format("train"))
    assert answer.status_code == 200
    assert "is unreachable" in answer.content.decode()
    chinese = client.get(PAGE.format("train"), headers={"Accept-Language": "zh-hans"})
    assert "不可达" in chinese.content.decode()


def test_nothing_is_noted_before_the_start(w: World, as_user: As, client: Client) -> None:
    job = jobs.job(w.queue, w.editor, "train")
    assert as_user(w.viewer).get(EVENTS).json()["items"] == []
    assert as_user(w.outsider).get(EVENTS).status_code == 404
    client.force_login(w.outsider)
    assert client.get(PAGE.format(job.pk)).status_code == 404
