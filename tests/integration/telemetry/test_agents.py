"""The API of node agents: keys for tokens and by hand, and reports under them."""

from __future__ import annotations

import gzip
import json
import zlib
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.urls import include, path
from rest_framework.test import APIClient

from clusters.backends.base import BackendUnavailable
from clusters.models import Node
from foundation.models import AuditRecord
from telemetry.api.urls import urlpatterns as telemetry_urls
from telemetry.models import AgentKey, GpuEvent, NodeAgent, Reading
from telemetry.services import agent_keys
from telemetry.store.times import to_ms
from tenants.models import User
from tests.builders import clusters
from tests.integration.telemetry.conftest import START, Bench

urlpatterns = [path("api/v1/", include(telemetry_urls))]
pytestmark = pytest.mark.urls(__name__)
AT = to_ms(START)


class Vouching:
    """A replacement of a cluster that knows one token of one node."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.down = False

    def verify_agent(self, token: str, node: str) -> bool:
        self.asked.append((token, node))
        if self.down:
            raise BackendUnavailable("no route to host")
        return (token, node) == ("of-node-1", "node-1")


@pytest.fixture
def cluster(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Vouching:
    made = Vouching()
    monkeypatch.setattr(agent_keys, "backend_for", lambda _: made)
    return made


def exchange(token: str = "of-node-1", **body: str) -> Any:
    client = APIClient()
    if token:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client.post("/api/v1/agent/keys", {"cluster": "sim", "node": "node-1"} | body)


def report(bench: Bench, *batches: dict[str, Any], **more: Any) -> dict[str, Any]:
    values = {"utilization_percent": 37.5, "memory_used_mib": 100, "sm_clock_mhz": 1410}
    batch = {
        "at_ms": AT,
        "interval_ms": 15_000,
        "devices": [{"uuid": bench.device(0).uuid, "values": values}],
    }
    return {"version": 1, "node": "node-1", "sent_at_ms": AT, "batches": list(batches or (batch,))} | more


def send(key: str, body: Any, **headers: str) -> Any:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}", **headers)
    if isinstance(body, bytes):
        return client.generic("POST", "/api/v1/agent/samples", body, content_type="application/json")
    return client.post("/api/v1/agent/samples", body)


def made(bench: Bench, cluster: Vouching) -> str:
    return str(exchange().json()["key"])


def test_a_token_that_the_cluster_confirms_becomes_a_key(bench: Bench, cluster: Vouching) -> None:
    answer = exchange()
    assert answer.status_code == 200, answer.data
    assert answer.json()["expires_at"] == "2026-03-03T08:00:00Z"
    key = answer.json()["key"]
    row = AgentKey.unscoped.get()
    assert key not in json.dumps([row.prefix, row.secret_hash])
    assert (row.node, row.manual) == (bench.world.nodes[0], False)
    record = AuditRecord.unscoped.get(action="agent-key.issue")
    assert (record.after["node"], record.after["prefix"]) == ("node-1", row.prefix)
    assert send(key, report(bench)).status_code == 200
    by_id = exchange(cluster=str(bench.world.cluster.pk))
    assert by_id.status_code == 200


@pytest.mark.parametrize(
    ("token", "body"),
    [("of-node-2", {}), ("", {}), ("of-node-1", {"node": "node-2"}), ("of-node-1", {"node": "none"}),
     ("of-node-1", {"cluster": "none"})],
)  # fmt: skip
def test_every_other_token_is_refused_alike(
    bench: Bench, cluster: Vouching, token: str, body: dict[str, str]
) -> None:
    assert exchange(token, **body).status_code == 403
    assert not AgentKey.unscoped.exists()


def test_a_simulated_cluster_confirms_no_agent(bench: Bench) -> None:
    assert exchange().status_code == 403


def test_a_cluster_that_does_not_answer_is_no_refusal(bench: Bench, cluster: Vouching) -> None:
    cluster.down = True
    assert (exchange().status_code, exchange().json()["code"]) == (503, "CLUSTER_SILENT")


def test_only_the_newest_keys_of_a_node_stay(bench: Bench, cluster: Vouching) -> None:
    keys = [made(bench, cluster) for _ in range(7)]
    assert [send(key, report(bench)).status_code for key in keys] == [401] * 2 + [200] * 5


def test_a_report_is_stored_and_answered(bench: Bench, cluster: Vouching) -> None:
    key = made(bench, cluster)
    answer = send(key, report(bench))
    assert answer.json() == {
        "stored": 1, "duplicates": 0, "expired": 0, "dropped_events": 0,
        "unknown_devices": [], "unknown_pods": [], "interval_s": 15,
    }  # fmt: skip
    assert send(key, report(bench)).json()["duplicates"] == 1
    assert Reading.unscoped.get().cores_used == 37.5
    assert NodeAgent.unscoped.get().seen_at == START


def test_a_report_may_be_compressed(bench: Bench, cluster: Vouching) -> None:
    packed = gzip.compress(json.dumps(report(bench)).encode())
    assert send(made(bench, cluster), packed, HTTP_CONTENT_ENCODING="gzip").json()["stored"] == 1


def test_a_bomb_is_not_unpacked(bench: Bench, cluster: Vouching) -> None:
    key = made(bench, cluster)
    bomb = gzip.compress(b" " * 64 * 2**20)
    assert len(bomb) < 100_000
    assert send(key, bomb, HTTP_CONTENT_ENCODING="gzip").status_code == 413
    assert send(key, b" " * (4 * 2**20 + 1)).status_code == 413
    whole = gzip.compress(json.dumps(report(bench)).encode())
    for broken in (b"no gzip", whole[:-9], whole + whole, zlib.compress(b"{}")):
        assert send(key, broken, HTTP_CONTENT_ENCODING="gzip").status_code == 400
    assert send(key, whole, HTTP_CONTENT_ENCODING="br").status_code == 400
    assert not Reading.unscoped.exists()


def test_the_node_of_the_key_is_the_node_of_the_body(bench: Bench, cluster: Vouching) -> None:
    key = made(bench, cluster)
    assert send(key, report(bench, node="node-2")).status_code == 403
    neighbour = {"uuid": bench.device(0, node=1).uuid, "values": {"power_w": 1}}
    found = send(key, report(bench, {"at_ms": AT, "interval_ms": 15_000, "devices": [neighbour]})).json()
    assert (found["stored"], found["unknown_devices"]) == (0, [neighbour["uuid"]])


def test_nothing_reaches_a_node_of_the_same_name_elsewhere(bench: Bench, cluster: Vouching) -> None:
    other = clusters.cluster(bench.world.cell, "beta")
    clusters.node(clusters.flavor(other), "node-1", cards=1)
    theirs = {"uuid": "GPU-beta-node-1-0", "values": {"power_w": 1}}
    body = report(bench, {"at_ms": AT, "interval_ms": 15_000, "devices": [theirs]})
    assert send(made(bench, cluster), body).json()["unknown_devices"] == ["GPU-beta-node-1-0"]
    assert not Reading.unscoped.exists()


def test_the_first_wrong_field_is_reported(bench: Bench, cluster: Vouching) -> None:
    bad = {"at_ms": AT, "interval_ms": 15_000, "devices": [{"uuid": "GPU-1", "values": {"power_w": -1}}]}
    answer = send(made(bench, cluster), report(bench, bad))
    assert answer.status_code == 422
    assert answer.json()["code"] == "REPORT_INVALID"
    assert [error["field"] for error in answer.json()["errors"]] == ["batches.0.devices.0.values.power_w"]
    text = json.dumps(report(bench)).replace("37.5", "NaN").encode()
    assert send(made(bench, cluster), text).status_code == 400


def test_what_waited_for_two_hours_is_taken_and_what_is_older_is_counted(
    bench: Bench, cluster: Vouching
) -> None:
    key = made(bench, cluster)
    bench.clock.move_to(START + timedelta(hours=2))
    batches = report(bench)["batches"]
    older = [{**batches[0], "at_ms": AT - 1}]
    found = send(key, report(bench, *batches, *older)).json()
    assert (found["stored"], found["expired"]) == (1, 1)


@pytest.mark.parametrize("spoil", ["revoked_at", "expires_at"])
def test_a_key_that_ended_is_not_taken(bench: Bench, cluster: Vouching, spoil: str) -> None:
    key = made(bench, cluster)
    AgentKey.unscoped.update(**{spoil: START})
    assert send(key, report(bench)).status_code == 401


def test_a_key_ends_with_its_node(bench: Bench, cluster: Vouching) -> None:
    key = made(bench, cluster)
    Node.unscoped.update(present=False)
    assert send(key, report(bench)).status_code == 401


@pytest.mark.parametrize("key", ["", "aga_", "aga_00000000_x", "alt_00000000_x", "x" * 5_000])
def test_what_is_no_key_is_not_taken(bench: Bench, key: str) -> None:
    assert send(key, report(bench)).status_code == 401


@override_settings(ALLOTMENT_RATES={"agent": 2})
def test_reports_of_a_node_are_limited(bench: Bench, cluster: Vouching) -> None:
    keys = [made(bench, cluster), made(bench, cluster), made(bench, cluster)]
    assert [send(key, report(bench)).status_code for key in keys] == [200, 200, 429]


def call(user: User, method: str, place: str = "", **body: Any) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    return getattr(client, method)(f"/api/v1/admin/agent-keys{place}", body or None)


def test_an_operator_makes_lists_and_revokes_keys(bench: Bench) -> None:
    admin = bench.world.platform_admin
    answer = call(admin, "post", cluster="sim", node="node-1")
    assert answer.status_code == 201, answer.data
    key = answer.json()["key"]
    assert send(key, report(bench)).status_code == 200
    (row,) = call(admin, "get").json()["items"]
    assert (row["node"], row["cluster"], row["manual"]) == ("node-1", "sim", True)
    assert "key" not in row
    assert call(admin, "delete", f"/{row['id']}").status_code == 204
    assert send(key, report(bench)).status_code == 401
    assert [r.action for r in AuditRecord.unscoped.filter(entity="agent-key").order_by("id")] == [
        "agent-key.create", "agent-key.revoke",
    ]  # fmt: skip
    assert call(bench.world.admin, "get").status_code == 403
    assert call(admin, "post", cluster="sim", node="none").status_code == 404
    assert (
        call(admin, "post", cluster="sim", node="node-1", expires_at="2020-01-01T00:00Z").status_code == 400
    )


def test_inventory_and_events_are_kept(bench: Bench, cluster: Vouching) -> None:
    uuid = bench.device(0).uuid
    facts = {"uuid": uuid, "name": "A100", "serial": "42", "index": 0, "pci_bus_id": "0000:01:00.0",
             "numa_node": 1, "links": [{"to": "GPU-2", "kind": "nvlink", "count": 12}]}  # fmt: skip
    lost = {"device": uuid, "kind": "xid", "code": 79, "at_ms": AT}
    body = report(
        bench,
        {"at_ms": AT, "interval_ms": 15_000, "events": [lost]},
        inventory={"driver": "550.54", "nvml": "12.550", "cuda": "12.4", "devices": [facts]},
        unsupported={uuid: ["encoder_percent"]},
    )
    key = made(bench, cluster)
    assert send(key, body).status_code == send(key, report(bench)).status_code == 200
    agent = NodeAgent.unscoped.get()
    assert (agent.driver, agent.cuda, agent.unsupported) == ("550.54", "12.4", {uuid: ["encoder_percent"]})
    assert (agent.devices[0]["numa_node"], agent.devices[0]["links"][0]["count"]) == (1, 12)
    assert GpuEvent.unscoped.get().code == 79


def test_events_that_are_too_old_or_too_many_are_counted(bench: Bench, cluster: Vouching) -> None:
    events = [
        {"device": bench.device(0).uuid, "kind": "xid", "code": 31, "at_ms": AT - number}
        for number in range(300)
    ]
    old = {**events[0], "at_ms": AT - 2 * 3_600_000 - 1}
    batches = [
        {"at_ms": AT - 15_000 * number, "interval_ms": 15_000, "events": [*events[number::2], old]}
        for number in range(2)
    ]
    found = send(made(bench, cluster), report(bench, *batches)).json()
    assert (found["dropped_events"], GpuEvent.unscoped.count()) == (46, 256)
    assert not GpuEvent.unscoped.filter(at_ms=old["at_ms"]).exists()
