"""Versions, XID errors and holders of GPUs: in lists, on pages and in files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.gpu.nvidia import PREFIX
from clusters.models import Device, Node
from foundation.core import clock
from scheduling.models import GpuRequestMode
from telemetry.models import GpuEvent, NodeAgent
from telemetry.store.times import to_ms
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
_GFD = {
    f"{PREFIX}cuda.driver-version.full": "550.107.02",
    f"{PREFIX}cuda.runtime-version.major": "12",
    f"{PREFIX}cuda.runtime-version.minor": "4",
}
_OLD_GFD = {
    f"{PREFIX}cuda.driver.major": "535",
    f"{PREFIX}cuda.driver.minor": "54",
    f"{PREFIX}cuda.driver.rev": "3",
    f"{PREFIX}cuda.runtime.major": "12",
    f"{PREFIX}cuda.runtime.minor": "2",
}


@pytest.fixture
def there() -> World:
    return world()


def fail(node: Node, index: int, ago: timedelta, kind: str = "xid") -> None:
    """Something happened to a GPU of a node."""
    card = Device.unscoped.get(node=node, index=index)
    at_ms = to_ms(clock.now() - ago)
    GpuEvent.unscoped.create(
        cluster_id=node.cluster_id, node_id=node.pk, device_uuid=card.uuid, kind=kind, code=79, at_ms=at_ms
    )


def read_file(there: World, client: Client, path: str, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a list as a file with some columns."""
    client.force_login(there.platform_admin)
    client.cookies[f"list-{path.rpartition('/')[2]}"] = ".".join(columns)
    text = client.get(f"{path}?format=csv").content.decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def test_nodes_show_versions_and_xid_errors_as_far_as_they_are_known(there: World, client: Client) -> None:
    first, second = there.nodes
    NodeAgent.unscoped.create(node=first, seen_at=clock.now(), driver="570.1", cuda="12.8")
    Node.unscoped.filter(pk=second.pk).update(labels=_GFD)
    for index, ago in ((0, timedelta(hours=1)), (3, timedelta(hours=23)), (3, timedelta(hours=25))):
        fail(first, index, ago)
    fail(first, 0, timedelta(hours=1), kind="lost")
    rows = read_file(there, client, "/ops/nodes", ["name", "driver", "cuda", "xids"])
    assert [list(row.values()) for row in rows] == [
        ["node-1", "570.1", "12.8", "2"],
        ["node-2", "550.107.02", "12.4", ""],
    ]
    Node.unscoped.filter(pk=second.pk).update(labels=_OLD_GFD)
    rows = read_file(there, client, "/ops/nodes", ["name", "driver", "cuda"])
    assert list(rows[1].values()) == ["node-2", "535.54.3", "12.2"]
    page = client.get("/ops/nodes/node-1").content.decode()
    assert "<dt>XID errors in 24 h</dt><dd>2</dd>" in page
    assert "<dt>XID errors in 24 h</dt><dd>–</dd>" in client.get("/ops/nodes/node-2").content.decode()
    NodeAgent.unscoped.update(seen_at=clock.now() - timedelta(hours=25))
    silent = client.get("/ops/nodes/node-1").content.decode()
    assert "<dt>XID errors in 24 h</dt><dd>–</dd>" in silent, "nobody has counted them"
    assert "<dt>Driver</dt><dd>570.1</dd>" in silent


def test_gpus_show_their_holders_and_their_errors(there: World, client: Client) -> None:
    node = there.nodes[0]
    part = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=1024)
    for queue, user, name in ((there.queue, there.editor, "one"), (there.other_queue, there.outsider, "two")):
        jobs.allocate(jobs.job(queue, user, name, roles=[part]), node)
    device = Device.unscoped.filter(node=node).order_by("index")[1]
    NodeAgent.unscoped.create(node=node, seen_at=clock.now())
    fail(node, 1, timedelta(minutes=1))
    columns = ["gpu", "tenants", "jobs", "vendor", "xids"]
    rows = {row["GPU"]: list(row.values())[1:] for row in read_file(there, client, "/ops/gpus", columns)}
    held = [row for row in rows.values() if row[1]]
    names = {there.workspace.name: "one", there.other_workspace.name: "two"}
    assert {(row[1], row[2]) for row in held} in (
        {tuple(", ".join(part) for part in (names, names.values()))},
        set(names.items()),
    )
    assert rows[f"node-1 GPU {device.index}"][3] == "1"
    assert rows["node-1 GPU 2"] == ["NVIDIA", "", "", "0"]
    assert rows["node-2 GPU 0"] == ["NVIDIA", "", "", ""]
    html = client.get(f"/ops/gpus/{device.uuid}").content.decode()
    assert "<dt>XID errors in 24 h</dt><dd>1</dd>" in html and "<dt>Vendor</dt><dd>NVIDIA</dd>" in html


def test_files_name_the_units_of_plain_numbers(there: World, client: Client) -> None:
    columns = ["name", "allocated", "memory", "memory_total", "memory_used", "cpu", "memory_share"]
    (row, _other) = read_file(there, client, "/ops/nodes", columns)
    assert list(row) == [
        "Node",
        "Allocated (%)",
        "Allocated GPU memory (GiB)",
        "GPU memory, total (GiB)",
        "GPU memory, used (GiB)",
        "Allocated CPU (%)",
        "Allocated memory (%)",
    ]
    assert float(row["GPU memory, total (GiB)"]) == sum(
        device.memory_capacity / 1024 for device in Device.unscoped.filter(node=there.nodes[0])
    )
    assert row["GPU memory, used (GiB)"] == ""


@pytest.mark.parametrize(
    ("path", "plain", "more"),
    [("nodes", "name", ("driver", "cuda", "xids")), ("gpus", "gpu", ("tenants", "jobs", "xids"))],
)
def test_what_is_not_shown_is_not_read(
    there: World, client: Client, path: str, plain: str, more: Sequence[str]
) -> None:
    client.force_login(there.platform_admin)
    counts = []
    for columns in (plain, ".".join((plain, *more))):
        client.cookies[f"list-{path}"] = columns
        client.get(f"/ops/{path}")
        with CaptureQueriesContext(connection) as asked:
            client.get(f"/ops/{path}")
        counts.append(len(asked))
    assert counts[1] - counts[0] == (2 if path == "nodes" else 3)
