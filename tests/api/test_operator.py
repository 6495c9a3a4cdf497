"""Nodes and cards over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from foundation.models import AuditRecord, Hint
from tests.api.conftest import As
from tests.builders import clusters, jobs
from tests.builders.world import World

ADMIN = "/api/v1/admin"


@pytest.fixture
def operator(w: World, as_user: As) -> APIClient:
    return as_user(w.platform_admin)


def test_nodes_with_cards_in_a_constant_number_of_queries(
    w: World, operator: APIClient, django_assert_max_num_queries: Any
) -> None:
    clusters.nodes(w.flavor, 10, prefix="more")

    with django_assert_max_num_queries(5):
        body = operator.get(f"{ADMIN}/nodes?limit=100").json()

    assert body["total"] == 12
    assert {len(node["devices"]) for node in body["items"]} == {8}


def test_filters_of_nodes_and_cards(w: World, operator: APIClient) -> None:
    clusters.node(w.flavor, "broken", cards=2, ready=False)

    assert operator.get(f"{ADMIN}/nodes?ready=false").json()["total"] == 1
    assert operator.get(f"{ADMIN}/nodes?name=node&flavor=a100&cluster=sim").json()["total"] == 2
    assert operator.get(f"{ADMIN}/devices?node=broken").json()["total"] == 2
    assert operator.get(f"{ADMIN}/devices?healthy=false").json()["total"] == 0
    assert operator.get(f"{ADMIN}/devices?colour=red").status_code == 400


def test_one_node_and_one_card_with_their_holders(
    w: World, operator: APIClient, django_assert_max_num_queries: Any
) -> None:
    job = jobs.job(w.queue, w.editor, "train", roles=[jobs.RoleOf(replicas=2, cards=2)])
    jobs.allocate(job, w.nodes[0])

    node = operator.get(f"{ADMIN}/nodes/node-1").json()
    card = node["devices"][0]["uuid"]
    assert (node["cpu_granted"], node["devices"][0]["cores_granted"]) == (2000, 100)
    assert operator.get(f"{ADMIN}/devices/{card}").json()["node"] == "node-1"
    with django_assert_max_num_queries(5):
        holds = operator.get(f"{ADMIN}/nodes/node-1/holds").json()
    assert [(hold["job"], hold["index"], hold["workspace"]) for hold in holds["items"]] == [
        ("train", 0, "team-a"),
        ("train", 1, "team-a"),
    ]
    hold = operator.get(f"{ADMIN}/devices/{card}/holds").json()["items"][0]
    assert (hold["job_id"], hold["exclusive"], hold["cores"]) == (str(job.pk), True, 100)
    assert operator.get(f"{ADMIN}/nodes/nowhere").status_code == 404
    assert operator.get(f"{ADMIN}/devices/nowhere").status_code == 404


def test_clusters_do_not_show_their_connection(w: World, operator: APIClient) -> None:
    body = operator.get(f"{ADMIN}/clusters").json()["items"][0]

    assert (body["name"], body["cell"], body["flavors"]) == ("sim", "default", ["a100"])
    assert "connection" not in body


def test_the_sharing_of_a_cell_is_read_and_changed(w: World, operator: APIClient) -> None:
    listed = operator.get(f"{ADMIN}/cells").json()["items"]
    assert listed == [{"name": "default", "sharing": "fair", "clusters": ["sim"], "last_cycle_at": None}]
    seen = operator.get(f"{ADMIN}/cells/default")
    changed = operator.patch(
        f"{ADMIN}/cells/default", {"sharing": "classical"}, headers={"If-Match": seen["ETag"]}
    )
    assert (changed.status_code, changed.json()["sharing"]) == (200, "classical")
    assert changed["ETag"] == operator.get(f"{ADMIN}/cells/default")["ETag"] != seen["ETag"]
    record = AuditRecord.unscoped.get(action="cell.set")
    assert (record.before, record.after) == ({"sharing": "fair"}, {"sharing": "classical"})
    assert Hint.unscoped.filter(topic="cycle", key=str(w.cell.pk)).exists()


@pytest.mark.parametrize("body", [{"sharing": "by-lot"}, {"sharing": None}, {}, {"sharing": "fair", "x": 1}])
def test_a_cell_is_not_changed_by_a_wrong_body(w: World, operator: APIClient, body: Any) -> None:
    answer = operator.patch(f"{ADMIN}/cells/default", body, format="json", headers={"If-Match": "*"})
    assert answer.status_code == 400
    assert operator.get(f"{ADMIN}/cells/nowhere").status_code == 404
    w.cell.refresh_from_db()
    assert (w.cell.sharing, w.cell.version) == ("fair", 0)
