"""Nodes and flavors of one name in two clusters: each is reachable, and no answer mixes them up."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from clusters.models import Node
from quotas.models import QueueFlavor
from tests.api.conftest import As
from tests.builders import clusters, jobs
from tests.builders.world import World

NODE = "/api/v1/admin/nodes/node-1"


@pytest.fixture
def west(w: World) -> Node:
    """A node of the same name in a second cluster, with one card, on which a job runs."""
    flavor = clusters.flavor(clusters.cluster(w.cell, "west"), "a100")
    node = clusters.node(flavor, "node-1", cards=1)
    jobs.allocate(jobs.job(w.queue, w.editor, "there", roles=[jobs.RoleOf(cards=1)]), node)
    jobs.allocate(jobs.job(w.queue, w.editor, "here", roles=[jobs.RoleOf(cards=2)]), w.nodes[0])
    return node


@pytest.fixture
def operator(w: World, west: Node, as_user: As) -> APIClient:
    return as_user(w.platform_admin)


@pytest.mark.parametrize(("cluster", "cards", "job"), [("sim", 8, "here"), ("west", 1, "there")])
def test_each_is_read_by_its_cluster(operator: APIClient, cluster: str, cards: int, job: str) -> None:
    node = operator.get(f"{NODE}?cluster={cluster}").json()
    assert (node["cluster"], len(node["devices"])) == (cluster, cards)
    holds = operator.get(f"{NODE}/holds?cluster={cluster}").json()["items"]
    assert {hold["job"] for hold in holds} == {job}


@pytest.mark.parametrize("path", [NODE, f"{NODE}/holds"])
def test_without_a_cluster_neither_is_taken_for_the_other(operator: APIClient, path: str) -> None:
    answer = operator.get(path)
    error = answer.json()["errors"][0]
    assert (answer.status_code, error["field"], error["code"]) == (400, "cluster", "AMBIGUOUS")
    assert "sim, west" in error["message"]


def test_a_name_that_is_there_once_needs_no_cluster(w: World, as_user: As) -> None:
    operator = as_user(w.platform_admin)
    assert operator.get(f"{NODE}?cluster=none").status_code == 404
    assert operator.get(NODE).json()["cluster"] == "sim"


def test_the_console_reaches_each_and_every_link_names_the_cluster(
    w: World, west: Node, client: Client
) -> None:
    client.force_login(w.platform_admin)
    page = client.get("/ops/nodes/node-1?cluster=west").content.decode()
    assert "cluster west" in page
    assert "/ops/nodes/node-1/live?cluster=west" in page
    assert client.get("/ops/nodes/node-1")["Location"] == "/ops/nodes?name=node-1"
    found = client.get("/ops/nodes?name=node-1").content.decode()
    for cluster in ("sim", "west"):
        assert f"/ops/nodes/node-1?cluster={cluster}" in found
        assert f"/ops/nodes/node-1?cluster={cluster}" in client.get("/search?q=node-1").content.decode()
    assert "/ops/nodes/node-1?cluster=west" in client.get("/w/team-a/jobs?q=there").content.decode()


def test_the_tasks_of_a_job_name_the_cluster_of_their_node(w: World, west: Node, as_user: As) -> None:
    tasks = as_user(w.editor).get("/api/v1/workspaces/team-a/jobs/there/tasks").json()["items"]
    place = tasks[0]["allocation"]
    assert (place["node"], place["cluster"]) == ("node-1", "west")


def test_a_queue_names_the_cluster_of_its_flavors_where_needed_and_takes_them_back(
    w: World, west: Node, as_user: As
) -> None:
    assert west.flavor is not None
    QueueFlavor.unscoped.create(queue=w.queue, flavor=west.flavor, position=1)
    admin, address = as_user(w.admin), f"/api/v1/workspaces/team-a/queues/{w.queue.name}"
    names = ["sim/a100", "west/a100"]
    answer = admin.get(address)
    assert answer.json()["flavors"] == names
    listed: Any = admin.get("/api/v1/workspaces/team-a/queues").json()["items"]
    assert listed[0]["flavors"] == names
    body, version = {"flavors": names[::-1]}, {"If-Match": answer["ETag"]}
    changed = admin.patch(address, body, headers=version)
    assert (changed.status_code, changed.json()["flavors"]) == (200, names[::-1])


def test_a_view_without_parameters_says_that_there_are_none(w: World, as_user: As) -> None:
    answer = as_user(w.platform_admin).get("/api/v1/admin/clusters/sim?colour=red")
    assert answer.status_code == 400
    message = answer.json()["errors"][0]["message"]
    assert message == "Unknown parameter. No parameters are accepted."
