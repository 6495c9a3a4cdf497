"""Cordon, uncordon and drain in the console: the page of a node, and the list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from clusters.models import Cluster, ClusterHealth, ForeignPod, Node, NodeCordon, NodeEvent
from foundation.core import clock
from scheduling.models import Attempt
from tenants.models import Role
from tests.builders import jobs, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
NODE, LIST = "/ops/nodes/node-1", "/ops/nodes"
HOSTILE = "<script>alert(1)</script> %(by)s {{ x }}"


@pytest.fixture
def there() -> World:
    """A job with checkpoints and a pod of others on the first node."""
    made = world()
    job = jobs.job(
        made.queue, made.editor, "train", roles=[jobs.RoleOf(cards=2)], checkpoint_interval_s=36_000
    )
    jobs.allocate(job, made.nodes[0])
    Attempt.unscoped.update(started_at=clock.now() - timedelta(hours=3))
    ForeignPod.unscoped.create(
        cluster=made.cluster, node_name="node-1", uid="1", namespace="web", name="shop"
    )
    return made


@pytest.fixture
def operator(there: World, client: Client) -> Client:
    client.force_login(there.platform_admin)
    return client


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def row(**fields: Any) -> NodeCordon:
    return NodeCordon.unscoped.create(
        **{
            "node": Node.unscoped.get(name="node-1"),
            "schedulable": False,
            "requested_by": "root",
            "requested_at": clock.now(),
            **fields,
        }
    )


def test_the_dialog_of_a_drain_says_what_is_lost_and_what_stays(operator: Client) -> None:
    for address in (NODE, f"{NODE}/live"):
        html = text(operator, address)
        assert "Jobs evicted: 1 · GPU-hours lost: 6" in html
        assert "GPU-hours since the last checkpoint" in html
        assert "Not evicted (not managed by Allotment): web/shop" in html
        assert 'data-dialog-open="cordon"' in html and 'data-dialog-open="uncordon"' not in html


@pytest.mark.parametrize("act", ["cordon", "drain"])
def test_the_page_asks_for_it_and_shows_who_when_and_why(operator: Client, act: str) -> None:
    answer = operator.post(NODE, {"do": act, "reason": HOSTILE})
    assert (answer.status_code, answer["Location"]) == (302, NODE)
    html = text(operator, NODE)
    assert f"{act.capitalize()} of node-1 requested" in html
    assert f"{act.capitalize()} requested" in html
    assert "Requested by root" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; %(by)s {{ x }}" in html and "<script>alert" not in html
    assert 'data-dialog-open="uncordon"' in html and 'data-dialog-open="cordon"' not in html
    assert 'data-dialog-open="drain"' in html or act == "drain"
    assert NodeCordon.unscoped.get().drain is (act == "drain")


@pytest.mark.parametrize(
    ("fields", "cordoned", "words"),
    [
        (None, True, ["Node is cordoned", "Cordoned outside Allotment."]),
        ({}, True, ["Cordon requested", "Waiting for the cluster to confirm."]),
        ({"drain": True}, True, ["Drain requested", "Jobs are evicted after the cluster confirms."]),
        ({"applied_at": clock.now()}, True, ["Node is cordoned", "Requested by root"]),
        ({"applied_at": clock.now(), "drain": True}, True, ["Node is being drained", "Jobs left: 1."]),
        (
            {"applied_at": clock.now(), "drained_at": clock.now(), "drain": True},
            True,
            ["Node is drained", "All jobs were evicted."],
        ),
        ({"schedulable": True}, True, ["Uncordon requested", "Waiting for the cluster to confirm."]),
        (
            {"ended_at": clock.now(), "refusal": "<i>forbidden</i>"},
            False,
            ["Cordon refused by the cluster", "&lt;i&gt;forbidden&lt;/i&gt;", "access.yaml"],
        ),
        (
            {"ended_at": clock.now(), "refusal": "forbidden", "schedulable": True},
            True,
            ["Uncordon refused by the cluster", "Node is cordoned"],
        ),
    ],
)
def test_the_page_says_how_far_it_is(
    operator: Client, fields: dict[str, Any] | None, cordoned: bool, words: list[str]
) -> None:
    Node.unscoped.filter(name="node-1").update(cordoned=cordoned)
    if fields is not None:
        row(**fields)
    html = text(operator, NODE)
    for word in words:
        assert word in html


def test_an_old_refusal_is_in_the_events_alone(operator: Client) -> None:
    row(ended_at=clock.now() - timedelta(hours=2), refusal="forbidden")
    assert "refused by the cluster" not in text(operator, NODE)


@pytest.mark.parametrize(
    ("code", "numbers", "words"),
    [
        ("cordoned", {"by": "root", "reason": HOSTILE}, "Cordoned by root"),
        ("uncordoned", {"by": "root"}, "Uncordoned by root"),
        ("cordoned", {}, "Cordoned: no new pods"),
        ("drain", {"by": "root", "reason": "x"}, "Drain requested by root"),
        ("drain-done", {}, "Drained: no jobs left"),
        ("cordon-refused", {"message": HOSTILE}, "Refused by the cluster: &lt;script&gt;"),
    ],
)
def test_events_of_the_node(operator: Client, code: str, numbers: dict[str, str], words: str) -> None:
    node = Node.unscoped.get(name="node-1")
    NodeEvent.unscoped.create(node=node, at=clock.now(), code=code, numbers=numbers)
    html = text(operator, NODE)
    assert words in html and "<script>alert" not in html


def test_a_silent_cluster_is_said_on_the_page(operator: Client) -> None:
    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE)
    assert operator.post(NODE, {"do": "drain"}).status_code == 302
    assert "Cluster sim is unreachable. No changes were made." in text(operator, NODE)
    assert not NodeCordon.unscoped.exists()


def test_of_what_is_not_known_nothing_is_done(operator: Client) -> None:
    assert operator.post(NODE, {"do": "reboot"}).status_code == 404
    assert operator.post("/ops/nodes/nowhere", {"do": "cordon"}).status_code == 404
    assert operator.post(LIST, {"do": "reboot", "item": "x"}).status_code == 404


@pytest.mark.parametrize(
    ("fields", "ready", "state"),
    [
        ({"drain": True}, True, "draining"),
        ({"drain": True, "applied_at": clock.now()}, True, "draining"),
        ({"drain": True, "applied_at": clock.now()}, False, "not-ready"),
        ({"drain": True, "applied_at": clock.now(), "drained_at": clock.now()}, True, "cordoned"),
        ({"drain": True, "applied_at": clock.now(), "ended_at": clock.now()}, True, "cordoned"),
        ({"applied_at": clock.now()}, True, "cordoned"),
    ],
)
def test_a_chip_finds_the_nodes_of_a_state(
    operator: Client, fields: dict[str, Any], ready: bool, state: str
) -> None:
    Node.unscoped.filter(name="node-1").update(cordoned=True, ready=ready)
    row(**fields)
    chips = {chip.value: chip.count for chip in operator.get(LIST).context["chips"]}
    assert chips == {"": 2, "ready": 1, "draining": 0, "cordoned": 0, "closed": 0, "not-ready": 0} | {
        state: 1
    }
    for one in ("ready", "draining", "cordoned", "not-ready"):
        shown = operator.get(LIST, {"state": one}).context["lines"]
        assert [(line.node.name, line.state) for line in shown if line.node.name == "node-1"] == (
            [("node-1", state)] if one == state else []
        )
    assert operator.get(NODE).context["state"] == state


def test_the_list_asks_first_with_what_is_lost(there: World, operator: Client) -> None:
    ids = [str(node.pk) for node in there.nodes]
    asked = operator.post(LIST, {"do": "drain", "item": ids}).content.decode()
    assert "Drain nodes" in asked and "Jobs evicted: 1 · GPU-hours lost: 6" in asked
    assert "web/shop" in asked and 'name="choice"' in asked
    assert not NodeCordon.unscoped.exists()
    done = operator.post(LIST, {"do": "drain", "item": ids, "choice": HOSTILE, "confirmed": "1"})
    assert done.status_code == 302
    assert NodeCordon.unscoped.filter(drain=True, reason=HOSTILE).count() == 2
    html = text(operator, LIST)
    assert "Waiting for the cluster" in html


def test_the_menu_of_a_row_offers_what_fits(there: World, operator: Client) -> None:
    Node.unscoped.filter(name="node-2").update(cordoned=True)
    html = text(operator, LIST)
    first, second = (str(node.pk) for node in there.nodes)
    assert f'value="cordon {first}"' in html and f'value="uncordon {first}"' not in html
    assert f'value="uncordon {second}"' in html and f'value="cordon {second}"' not in html
    asked = operator.post(LIST, {"one": f"cordon {first}"}).content.decode()
    assert "Cordon nodes" in asked and "You will lose" not in asked
    operator.post(LIST, {"do": "cordon", "item": first, "choice": "", "confirmed": "1"})
    assert NodeCordon.unscoped.get().node_id == there.nodes[0].pk


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"applied_at": clock.now(), "reason": "a fan fails"}, "a fan fails"),
        ({"applied_at": clock.now()}, "By root"),
        ({"applied_at": clock.now(), "drain": True, "reason": "a fan fails"}, "Draining"),
    ],
)
def test_the_list_notes_why(operator: Client, fields: dict[str, Any], note: str) -> None:
    Node.unscoped.filter(name="node-1").update(cordoned=True)
    row(**fields)
    assert f">{note}</span>" in text(operator, LIST)


def test_who_may_only_look_is_offered_nothing(there: World, client: Client) -> None:
    watcher = tenancy.user("vic")
    tenancy.member(watcher, None, Role.PLATFORM_VIEWER)
    client.force_login(watcher)
    assert "data-dialog-open" not in text(client, f"{NODE}/live")
    assert 'value="drain' not in text(client, LIST)
    client.post(NODE, {"do": "drain"})
    assert client.post(LIST, {"do": "drain", "item": str(there.nodes[0].pk)}).status_code == 403
    assert not NodeCordon.unscoped.exists()


def test_tenants_see_no_node(there: World, client: Client) -> None:
    client.force_login(there.admin)
    for address in (NODE, LIST):
        assert client.post(address, {"do": "drain", "item": str(there.nodes[0].pk)}).status_code == 403
    assert not NodeCordon.unscoped.exists()
