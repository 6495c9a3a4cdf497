"""The list of GPUs and the page of one: contents, missing values, and the rights to see them."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.gpu.measures import MEASURES, Level
from clusters.models import Device
from foundation.core import clock
from frontend.texts.gpu_measures import format_measure
from telemetry.models import Channel, GpuEvent, GpuProcess, NodeAgent, Reading, Scope
from telemetry.store.packing import pack_values
from telemetry.store.times import to_ms
from tests.builders import clusters, jobs
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

pytestmark = pytest.mark.django_db


@pytest.fixture
def there() -> World:
    made = world()
    jobs.allocate(jobs.job(made.queue, made.editor, "train", roles=[jobs.RoleOf(cards=1)]), made.nodes[0])
    return made


@pytest.fixture
def operator(there: World, client: Client) -> Client:
    client.force_login(there.platform_admin)
    return client


def device(there: World, index: int = 0) -> Device:
    return Device.unscoped.get(node=there.nodes[0], index=index)


def read(card: Device, **values: float) -> None:
    channel = Channel.unscoped.create(
        scope=Scope.CARD, cluster_id=card.node.cluster_id, node_id=card.node_id, device_id=card.pk
    )
    Reading.unscoped.create(
        channel=channel,
        at_ms=to_ms(clock.now() - timedelta(seconds=5)),
        cores_used=values.pop("use", None),
        cores_allocated=100,
        memory_allocated_mib=0,
        values=pack_values(values),
    )


def row_of(html: str, card: Device) -> str:
    (row,) = re.findall(rf'<tr id="gpu-{card.pk}".*?</tr>', html, re.DOTALL)
    return str(row)


def test_what_is_not_measured_is_a_dash_and_never_zero(there: World, operator: Client) -> None:
    first, second = device(there), device(there, 1)
    read(first, use=37.0, power_limit_w=400.0)
    html = page(operator, "/ops/gpus")
    assert "37" in row_of(html, first)
    for name in ("Temperature", "Power"):
        assert f'data-label="{name}">–</td>' in row_of(html, first)
    for name in ("Utilization", "Temperature"):
        assert f'data-label="{name}">–</td>' in row_of(html, second)


def test_the_list_is_narrowed_by_its_address(there: World, operator: Client) -> None:
    card = device(there, 3)
    Device.unscoped.filter(pk=card.pk).update(healthy=False)
    for query in (f"uuid={card.uuid}", "state=unhealthy"):
        assert re.findall(r'<tr id="gpu-([^"]*)"', page(operator, f"/ops/gpus?{query}")) == [str(card.pk)]
    assert len(re.findall(r'<tr id="gpu-', page(operator, "/ops/gpus?state=allocated"))) == 1
    assert len(re.findall(r'<tr id="gpu-', page(operator, "/ops/gpus?node=node-2"))) == 8
    assert "No GPU matches these filters" in page(operator, "/ops/gpus?model=none")


def test_the_page_shows_who_holds_it_and_what_runs_without_an_allocation(
    there: World, operator: Client
) -> None:
    card, now = device(there), clock.now()
    read(card, use=80.0, throttle_reasons=4.0, temperature_c=70.0)
    NodeAgent.unscoped.create(
        node=card.node,
        seen_at=now,
        driver="570.1",
        devices=[{"uuid": card.uuid, "pci_bus_id": "0000:1b:00.0", "links": [
            {"to": device(there, 1).uuid, "kind": "nvlink", "count": 12}
        ]}],
        unsupported={card.uuid: ["encoder_percent"]},
    )  # fmt: skip
    GpuProcess.unscoped.create(
        id=uuid.uuid4(), cluster_id=card.node.cluster_id, node_id=card.node_id, device_id=card.pk, pid=4711,
        name="miner", first_seen_ms=to_ms(now) - 9000, last_seen_ms=to_ms(now),
    )  # fmt: skip
    GpuEvent.unscoped.create(
        cluster_id=card.node.cluster_id, node_id=card.node_id, device_uuid=card.uuid, kind="xid", code=79,
        at_ms=to_ms(now),
    )  # fmt: skip
    html = page(operator, f"/ops/gpus/{card.uuid}")
    for text in (
        "train",
        "miner",
        "No allocation",
        "XID 79",
        "0000:1b:00.0",
        "570.1",
        "Power limit (software)",
    ):
        assert text in html, text
    assert "nvlink × 12" in html
    assert re.search(r"<dt>Encoder</dt><dd>Not supported</dd>", html)
    assert re.search(r"<dt>Decoder</dt><dd>–</dd>", html)
    assert html.count("data-chart-url=") == 12


@pytest.mark.parametrize("tail", ["", "/live", "/charts/memory", "/charts/temperature"])
def test_pages_are_for_operators_alone(there: World, client: Client, tail: str) -> None:
    address = f"/ops/gpus/{device(there).uuid}{tail}"
    client.force_login(there.platform_admin)
    assert client.get(address).status_code == 200
    assert client.get(f"/ops/gpus/none{tail}").status_code == 404
    client.force_login(there.admin)
    assert client.get(address).status_code == 403
    assert client.get("/ops/gpus").status_code == 403


def test_queries_do_not_grow_with_gpus(there: World, operator: Client) -> None:
    operator.get("/ops/gpus")
    counts = []
    for extra in (0, 3):
        for number in range(extra):
            clusters.node(there.flavor, name=f"more-{number}")
        with CaptureQueriesContext(connection) as asked:
            page(operator, "/ops/gpus")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 22


def test_the_page_of_a_node_leads_to_its_gpus(there: World, operator: Client) -> None:
    assert f'href="/ops/gpus/{device(there).uuid}"' in page(operator, "/ops/nodes/node-1")


def test_the_page_of_a_node_shows_its_gpus_their_use_and_errors(there: World, operator: Client) -> None:
    def facts() -> dict[str, str]:
        html = page(operator, "/ops/nodes/node-1").partition("node-facts")[2].partition("</section>")[0]
        return dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]*)</dd>", html))

    assert (facts()["GPU utilization"], facts()["GPU memory used"], facts()["Driver"]) == ("–", "–", "–")
    assert facts()["GPU slices"] == "0"
    for index, use in ((0, 80.0), (1, 20.0)):
        read(device(there, index), use=use)
    Reading.unscoped.update(memory_used_mib=device(there).memory_mib // 2)
    node = there.nodes[0]
    NodeAgent.unscoped.create(node=node, seen_at=clock.now(), driver="570.1")
    for code in (94, 79, 999):
        GpuEvent.unscoped.create(
            cluster_id=node.cluster_id, node_id=node.pk, device_uuid=device(there, 1).uuid, kind="xid",
            code=code, at_ms=to_ms(clock.now()) - code,
        )  # fmt: skip
    found = facts()
    assert (found["GPU utilization"], found["GPU memory used"]) == ("50.0 %", "50.0 %")
    assert (found["Driver"], found["Allocation mode"]) == ("570.1", "whole GPUs")
    html = page(operator, "/ops/nodes/node-1")
    for text in ("GPU 1 · XID 94: GPU memory error (ECC), contained", "XID 79: hardware error", "XID 999<"):
        assert text in html, text


def test_measures_have_labels_in_place_of_their_names(there: World, operator: Client) -> None:
    card = device(there)
    read(card, use=37.0, xid_errors=2.0, memory_used_mib=1024.0)
    html = page(operator, f"/ops/gpus/{card.uuid}")
    (shown,) = re.findall(r'<section class="card" id="measures".*?</section>', html, re.DOTALL)
    assert "XID errors" in shown and "GPU memory used" in shown
    assert not re.findall(r">\s*[a-z]+(?:_[a-z0-9]+)+\s*<", html)
    assert {format_measure(one.name) for one in MEASURES if Level.DEVICE in one.levels}, "each has one"
