"""The operators' pages: their viewers, their contents, and the number of their queries."""

from __future__ import annotations

import itertools
import json
import random
import re
from datetime import datetime, timedelta
from operator import eq, ge, le

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster, Device, Flavor, ForeignPod, GpuMode, Node
from clusters.selectors.capacity import FlavorCapacity, capacity_now
from clusters.selectors.grid import node_grid
from foundation.core import clock
from foundation.core.quantities import Resource
from frontend.pages.operations.overview.use_histogram import use_histogram
from frontend.pages.operations.overview.work_charts import draw_kinds, draw_states
from quotas.models import LedgerEntry, QueueFlavor
from scheduling.models import Allocation, Job, JobState
from scheduling.selectors.jobs.row import count_holding
from scheduling.snapshots import empty_snapshot
from telemetry.models import Channel, GapCause, Reading, Scope, TelemetryGap, Tick
from telemetry.series import utilisation_now
from telemetry.store.times import to_ms
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db

PAGES = ("/ops/overview", "/ops/overview/live", "/ops/nodes", "/ops/nodes?part=rows", "/ops/nodes/node-1")
CHARTS = ("/ops/overview/charts/allocation", "/ops/nodes/node-1/charts/card-utilisation")


@pytest.fixture
def there() -> World:
    """Return two nodes: a job of two cards and one of a slice run on the first, and one is pending."""
    made = world()
    two = jobs.job(made.queue, made.editor, "train", roles=[jobs.RoleOf(cards=2)])
    jobs.allocate(two, made.nodes[0])
    quotas.reserve(made.queue, made.flavor, Resource.GPU_CORES, 200)
    jobs.job(made.queue, made.editor, "late", reason="NO_ROOM")
    return made


@pytest.fixture
def operator(there: World, client: Client) -> Client:
    client.force_login(there.platform_admin)
    return client


def reading(device: Device, used: float, cores: int = 100) -> None:
    """Store a reading of one card, a few seconds old."""
    channel = Channel.unscoped.create(
        scope=Scope.CARD, cluster_id=device.node.cluster_id, node_id=device.node_id, device_id=device.pk
    )
    Reading.unscoped.create(
        channel=channel,
        at_ms=to_ms(clock.now() - timedelta(seconds=5)),
        cores_used=used,
        cores_allocated=cores,
        memory_used_mib=1024,
        memory_allocated_mib=40960,
        temperature_c=61.0,
        power_w=240.0,
    )


@pytest.mark.parametrize("address", PAGES)
def test_an_operator_sees_the_page(operator: Client, address: str) -> None:
    assert operator.get(address).status_code == 200


@pytest.mark.parametrize("address", [*PAGES, *CHARTS])
def test_a_member_without_the_right_is_refused(there: World, client: Client, address: str) -> None:
    client.force_login(there.admin)
    assert client.get(address).status_code == 403


@pytest.mark.parametrize("address", [*PAGES, *CHARTS])
def test_a_stranger_is_sent_to_sign_in(there: World, client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login?next=")


@pytest.mark.parametrize("address", [*PAGES[:2], "/ops/nodes/node-1/live"])
def test_pages_only_answer_reading_requests(operator: Client, address: str) -> None:
    assert operator.post(address).status_code == 405


def test_the_overview_counts_and_names(there: World, operator: Client) -> None:
    first = Device.unscoped.filter(node=there.nodes[0], index=0).get()
    reading(first, 80)
    html = operator.get("/ops/overview").content.decode()
    assert "12.5 %" in html  # two of sixteen cards
    assert "2 of 16 GPUs" in html
    assert "80.0 %" in html  # the only card that answered
    assert "Pending jobs" in html
    assert "Insufficient resources on nodes" in html
    assert "Team A" in html
    assert "2 / 8" in html
    assert 'href="/ops/nodes/node-1#gpu-0"' in html


def test_the_distribution_counts_allocated_gpus_and_distinguishes_idle_from_unmeasured(there: World) -> None:
    Device.unscoped.update(cores_granted=0, memory_granted=0, holders=0)
    assert use_histogram(node_grid(viewer=there.platform_admin), {}) is None
    devices = list(Device.unscoped.order_by("pk"))
    for device, used in zip(devices, (0, 0.5, 5, 10, 19.9, 95, 100), strict=False):
        reading(device, used)
    Device.unscoped.filter(pk__in=[device.pk for device in devices[:9]]).update(cores_granted=100, holders=1)
    reading(devices[10], 50)  # no job holds it
    chart = use_histogram(node_grid(viewer=there.platform_admin), utilisation_now(there.platform_admin))
    assert chart is not None
    (bars,) = chart.figure["data"]
    found = {name: count for name, count in zip(bars["x"], bars["y"], strict=True) if count}
    assert found == {"Idle": 2, "1–10 %": 1, "10–20 %": 2, "90–100 %": 2, "No data": 2}
    assert chart.figure["layout"]["meta"]["table"]["rows"][0] == ["Idle", "2"]


def test_without_readings_nothing_is_said_about_use(operator: Client) -> None:
    assert "No data in the last 30 s" in operator.get("/ops/overview").content.decode()


@pytest.mark.parametrize("address", ["/ops/overview", "/ops/nodes", "/ops/nodes/node-1"])
@pytest.mark.parametrize("many", [False, True])
def test_no_use_is_drawn_and_no_zero_shown_of_what_is_not_measured(
    there: World, operator: Client, monkeypatch: pytest.MonkeyPatch, address: str, many: bool
) -> None:
    if many:
        monkeypatch.setattr("frontend.pages.operations.overview.gpu_tiles.MANY_NODES", 1)
    text = operator.get(address).content.decode()
    assert "0 used" not in text
    assert "0 % used" not in text
    drawn = re.findall(r'class="fill-used" (?:x="[^"]*" width="[^"]*" y="[^"]*" height|d)="([^"]*)"', text)
    assert set(drawn) <= {"", "0%", "0.0%"}
    if address == "/ops/overview":
        assert (drawn or many) and "unmeasured" in text  # a small drawing has no legend for absent values
        row = row_of(text, there)
        assert '<td class="num" data-label="Utilization of allocated">–</td>' in row
        assert re.search(r"Idle GPUs.{0,200}–", text, re.DOTALL)


def row_of(text: str, there: World) -> str:
    """Return the row of team A in the table of tenants."""
    (row,) = re.findall(rf'<tr id="tenant-{there.workspace.pk}".*?</tr>', text, re.DOTALL)
    return str(row)


def test_use_of_allocated_counts_measured_jobs_only(there: World, operator: Client) -> None:
    """A second job without a reading does not halve the use of the first."""
    read, _unread = (
        jobs.allocate(jobs.job(there.queue, there.editor, name, roles=[jobs.RoleOf(cards=1)]), there.nodes[1])
        for name in ("read", "unread")
    )
    LedgerEntry.unscoped.update(reserved=400)
    device = Device.unscoped.filter(node=there.nodes[1]).first()
    assert device is not None
    channel = Channel.unscoped.create(
        scope=Scope.SLICE,
        cluster_id=there.cluster.pk,
        node_id=there.nodes[1].pk,
        device_id=device.pk,
        job_id=read.job_id,
        allocation_id=Allocation.unscoped.get(task__job=read.job_id).pk,
        workspace_id=there.workspace.pk,
    )
    Reading.unscoped.create(
        channel=channel,
        at_ms=to_ms(clock.now() - timedelta(seconds=5)),
        cores_used=80.0,
        cores_allocated=100,
        memory_used_mib=1024,
        memory_allocated_mib=40960,
    )
    text = operator.get("/ops/overview").content.decode()
    row = row_of(text, there)
    assert '<td class="num" data-label="Utilization of allocated">80 %</td>' in row


@pytest.mark.parametrize(
    "address",
    [
        "/outages", "/ops/overview", "/ops/nodes", "/ops/nodes/node-1", "/ops/efficiency", "/ops/queues",
        "/ops/flavors", "/ops/quotas/tree", "/w/team-a/overview", "/w/team-a/jobs",
        "/outages?workspace=team-a",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("health", "words"), [("unreachable", "is unreachable"), ("disowned", "belongs to another platform")]
)
def test_a_cluster_that_does_not_answer_is_named_on_top(
    there: World, operator: Client, address: str, health: str, words: str
) -> None:
    assert words not in operator.get(address).content.decode()
    there.cluster.health, there.cluster.health_since = health, clock.now()
    there.cluster.save()
    page = operator.get(address).content.decode()
    assert page.count(f"Cluster {there.cluster.name} {words}") == 1
    assert "since <time" in page


def test_an_outage_is_shown_to_the_workspaces_that_use_the_cluster(there: World, operator: Client) -> None:
    other = clusters.cluster(there.cell, "other")
    other.health, other.health_since = "unreachable", clock.now()
    other.save()
    said = "Cluster other is unreachable"
    member = Client()
    member.force_login(there.viewer)
    assert said in operator.get("/ops/queues").content.decode()
    assert said not in operator.get(f"/outages?cluster={there.cluster.name}").content.decode()
    for address in ("/w/team-a/overview", "/w/team-a/jobs", "/outages?workspace=team-a", "/outages"):
        assert said not in member.get(address).content.decode(), "no queue of the workspace uses it"

    QueueFlavor.unscoped.create(queue=there.queue, flavor=clusters.flavor(other, "far"), position=9)

    for address in ("/w/team-a/overview", "/w/team-a/jobs", "/outages?workspace=team-a", "/outages"):
        assert said in member.get(address).content.decode()
    assert member.get("/outages?workspace=team-z").status_code == 404


def test_utilization_that_an_outage_hides_is_not_called_the_first_one(there: World, operator: Client) -> None:
    assert "No data yet" in operator.get("/w/team-a/overview").content.decode()
    Cluster.unscoped.update(health="unreachable", health_since=clock.now())
    page = operator.get("/w/team-a/overview").content.decode()
    assert "No data yet" not in page
    assert f"Cluster {there.cluster.name} unreachable" in page


def test_quota_of_several_pools_is_never_added_up(there: World, operator: Client) -> None:
    other = clusters.flavor(there.cluster, "l40s", card_model="L40S", card_memory_mib=46_068)
    quotas.gpu_quota(there.queue.node, other, 4)
    text = operator.get("/ops/overview").content.decode()
    row = row_of(text, there)
    assert re.findall(r'<span class="pool-part">([^<]*)</span>', row)[:2] == ["2 / 8", "0 / 4"]


def test_stranded_cards_have_their_reason(there: World, operator: Client) -> None:
    Node.unscoped.filter(pk=there.nodes[1].pk).update(cordoned=True)
    html = operator.get("/ops/overview").content.decode()
    assert "8 free GPUs can&#x27;t be used: 1 node cordoned." in html


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cordoned": True}, "1 node cordoned"),
        ({"closed": True}, "1 node closed to new jobs"),
        ({"held_until": clock.now() + timedelta(days=1000)}, "1 node closed to new jobs"),
        ({"ready": False}, "1 node not ready"),
    ],
)
def test_cards_of_nodes_that_take_nothing_are_no_capacity_to_use(
    there: World, operator: Client, fields: dict[str, object], why: str
) -> None:
    """Capacity that the engine does not use is not free, whatever the reason."""
    open_before = [row for row in capacity_now(viewer=there.platform_admin) if row.cards]
    Node.unscoped.filter(pk=there.nodes[1].pk).update(**fields)
    (before,), (row,) = open_before, [r for r in capacity_now(viewer=there.platform_admin) if r.cards]
    assert (before.closed, row.closed) == (0, 8)
    assert (row.free, row.stranded) == (before.free - 8, 8)
    (seen,) = [n for n in empty_snapshot(there.cell.pk).fleet.nodes if n.id == str(there.nodes[1].pk)]
    assert not (seen.ready and seen.schedulable)
    html = operator.get("/ops/overview").content.decode()
    assert f"8 free GPUs can&#x27;t be used: {why}." in html
    assert "8 on unschedulable nodes" in html


def test_capacity_counts_what_fits_on_usable_nodes(there: World) -> None:
    """Slices of 30 % and whole GPUs, on one node, in one rack and on a node without free CPU."""

    def read_capacity() -> FlavorCapacity:
        (row,) = [row for row in capacity_now(viewer=there.platform_admin) if row.cards]
        return row

    Device.unscoped.update(cores_granted=0, memory_granted=0, holders=0)
    assert read_capacity().slices == 0  # the pool has whole GPUs alone
    Flavor.unscoped.update(gpu_mode=GpuMode.SLICE)
    Node.unscoped.update(rack="r1")
    part_used, broken = Device.unscoped.filter(node=there.nodes[0]).order_by("index")[:2]
    Device.unscoped.filter(pk=part_used.pk).update(cores_granted=45, cores_foreign=10, holders=1)
    Device.unscoped.filter(pk=broken.pk).update(healthy=False, cores_granted=0)
    row = read_capacity()
    assert (row.slices, row.free, row.one_node, row.one_rack) == (1 + 14 * 3, 14, 8, 14)
    Node.unscoped.filter(pk=there.nodes[1].pk).update(rack="r2")
    assert read_capacity().one_rack == 8
    Node.unscoped.filter(pk=there.nodes[1].pk).update(cpu_foreign=10**6)
    row = read_capacity()
    assert (row.slices, row.free, row.stranded, row.closed) == (1 + 6 * 3, 6, 8, 0)


def test_who_holds_cards_that_are_not_ours_is_added_up_by_origin(there: World, operator: Client) -> None:
    def pod(name: str, origin: str, namespace: str, **held: object) -> None:
        ForeignPod.unscoped.create(
            cluster=there.cluster, uid=name, node_name="node-1", name=name, namespace=namespace,
            origin=origin, **held,
        )  # fmt: skip

    pod("a", "other", "legacy", cards={"": 2})
    pod("b", "other", "ml-old", cards={"": 1, "1g.5gb": 3})
    pod("c", "other", "web", cpu_millicores=500)
    for name in ("d", "e"):  # two parts of one card
        pod(name, "installation", "theirs", shares=[["GPU-0", 30, 1000]])
    html = operator.get("/ops/overview").content.decode()
    assert "managed by the platform: 6 GPUs. By namespace: ml-old (4), legacy (2)." in html
    assert "Other installation: 1 GPU. By namespace: theirs (1)." in html
    assert "web (" not in html
    other = clusters.cluster(there.cell, name="west")
    clusters.node(clusters.flavor(other), name="w-1")
    assert "By namespace" not in operator.get(f"/ops/overview?cluster={other.name}").content.decode()


def test_no_nodes_at_all_say_what_to_do(client: Client) -> None:
    client.force_login(tenancy.platform_admin())
    for address in ("/ops/overview", "/ops/nodes"):
        assert "No nodes yet" in client.get(address).content.decode()


def test_the_cluster_switcher_narrows_everything(there: World, operator: Client) -> None:
    other = clusters.cluster(there.cell, "west")
    clusters.node(clusters.flavor(other, "h200", card_model="H200"), "west-1")
    html = operator.get("/ops/overview?cluster=west").content.decode()
    assert "0 of 8 GPUs" in html
    assert "node-1" not in html
    assert "/ops/nodes/west-1?cluster=west" in html
    assert "24 GPUs" in operator.get("/ops/overview").content.decode()
    assert "node-1" not in operator.get("/ops/nodes?cluster=west").content.decode()


@pytest.mark.parametrize("page", ["/ops/overview", "/ops/nodes", "/ops/overview/charts/power"])
def test_an_unknown_cluster_is_not_found(operator: Client, page: str) -> None:
    assert operator.get(f"{page}?cluster=nowhere").status_code == 404


def test_an_unknown_range_is_the_usual_one(operator: Client) -> None:
    html = operator.get("/ops/overview?range=1000y").content.decode()
    assert 'range=1h" aria-current="true"' in html
    assert operator.get("/ops/overview/charts/memory?range=1000y").status_code == 200


@pytest.mark.parametrize("kind", ["allocation", "memory", "power", "distribution"])
def test_charts_of_the_clusters_are_data(operator: Client, kind: str) -> None:
    answer = operator.get(f"/ops/overview/charts/{kind}?range=6h")
    assert answer.status_code == 200
    assert set(json.loads(answer.content)) == {"figure", "summary", "csv"}


@pytest.mark.parametrize(
    "kind", ["allocation", "memory", "card-utilisation", "card-memory", "card-temperature", "card-power"]
)
def test_charts_of_a_node_are_data(operator: Client, kind: str) -> None:
    assert operator.get(f"/ops/nodes/node-1/charts/{kind}").status_code == 200


def test_a_gap_is_shown_with_its_cause(there: World, operator: Client) -> None:
    now = clock.now()
    TelemetryGap.unscoped.create(
        cluster=there.cluster,
        started_at=now - timedelta(minutes=20),
        ended_at=now - timedelta(minutes=10),
        cause=GapCause.UNREACHABLE,
        message="connection refused",
    )
    answer = json.loads(operator.get("/ops/overview/charts/allocation").content)
    [_start, _end, cause] = answer["figure"]["layout"]["meta"]["gaps"][-1]
    assert cause == "Cluster sim unreachable: connection refused"


@pytest.mark.parametrize(
    "address",
    ["/ops/nodes/nowhere", "/ops/nodes/nowhere/live", "/ops/nodes/nowhere/charts/memory",
     "/ops/nodes/node-1/charts/nothing", "/ops/overview/charts/nothing"],
)  # fmt: skip
def test_what_does_not_exist_is_not_found(operator: Client, address: str) -> None:
    assert operator.get(address).status_code == 404


def test_the_list_is_filtered_by_the_address(there: World, operator: Client) -> None:
    Node.unscoped.filter(pk=there.nodes[1].pk).update(ready=False, not_ready_since=clock.now())
    ready = operator.get("/ops/nodes?state=ready").content.decode()
    assert "node-1" in ready
    assert "node-2" not in ready
    lost = operator.get("/ops/nodes?state=not-ready&flavor=a100&name=ODE-2").content.decode()
    assert "node-2" in lost
    assert "Not ready" in lost
    nothing = operator.get("/ops/nodes?name=xyz").content.decode()
    assert "No node matches these filters" in nothing


def test_the_list_is_filtered_by_sums_of_the_cards(there: World, operator: Client) -> None:
    chance = random.Random(3)
    for number in range(8):
        clusters.node(there.flavor, f"mixed-{number}", cards=number)
    for card in Device.unscoped.filter(node__name__startswith="mixed"):
        card.cores_granted = chance.choice([0, 0, 25, 70, 100])
        card.holders = 1 if card.cores_granted else 0
        card.healthy = chance.random() < 0.8
        card.save()
    facts: dict[str, dict[str, float | None]] = {}
    for node in Node.unscoped.prefetch_related("devices"):
        cards = list(node.devices.all())
        facts[node.name] = {
            "cards": len(cards),
            "free_cards": sum(card.healthy and not card.holders for card in cards),
            "unhealthy_cards": sum(not card.healthy for card in cards),
            "largest_left": max((100 - c.cores_granted for c in cards if c.healthy), default=0),
            "allocated_percent": sum(c.cores_granted for c in cards) / len(cards) if cards else None,
        }
    compare = {"==": eq, ">=": ge, "<=": le}
    for name, sign, value in itertools.product(facts["node-1"], compare, (0, 2, 30)):
        expected = {
            node for node, has in facts.items() if has[name] is not None and compare[sign](has[name], value)
        }
        text = operator.get(
            "/ops/nodes", {"filterBy": f"{name}{sign}{value}", "pageSize": 100}
        ).content.decode()
        assert set(re.findall(r'>((?:node|mixed)-\d)</a><span class="sub">', text)) == expected, (
            name,
            sign,
            value,
        )
        chips = re.findall(r'class="chip[^>]*>\s*All\s*<[^>]*>(\d+)<', text)
        assert chips == [str(len(expected))], "the chips count the same nodes"


@pytest.mark.parametrize(
    "query", ["page=0", "page=-3", "page=last", "page=99999", "sort=password", "state=odd", "name=%00"]
)
def test_odd_parameters_show_the_list(operator: Client, query: str) -> None:
    html = operator.get(f"/ops/nodes?{query}").content.decode()
    assert "node-1" in html


def test_sorting_turns_the_list_round(operator: Client) -> None:
    html = operator.get("/ops/nodes?sort=-name").content.decode()
    assert html.index(">node-2<") < html.index(">node-1<")
    html = operator.get("/ops/nodes?sort=free").content.decode()
    assert html.index(">node-1<") < html.index(">node-2<")


def test_a_long_list_is_paged(there: World, operator: Client) -> None:
    for number in range(60):
        clusters.node(there.flavor, f"more-{number:02}", cards=1)
    first = operator.get("/ops/nodes").content.decode()
    assert "page 1 of 2" in first
    assert "node-2" in operator.get("/ops/nodes?page=2").content.decode()


def test_the_node_names_who_holds_its_cards(there: World, operator: Client) -> None:
    device = Device.unscoped.filter(node=there.nodes[0], index=0).get()
    reading(device, 37)
    job = there.queue.jobs.get(name="train")
    html = operator.get("/ops/nodes/node-1").content.decode()
    assert f'href="/w/team-a/jobs/{job.pk}"' in html
    assert "0–1" in html
    assert ">2 GPUs<" in html
    assert "37 %" in html
    assert "61 °C" in html
    assert "whole GPU" in html
    assert "Scheduled" in html


def test_a_broken_card_and_node_say_so(there: World, operator: Client) -> None:
    Device.unscoped.filter(node=there.nodes[1], index=3).update(healthy=False)
    Node.unscoped.filter(pk=there.nodes[1].pk).update(ready=False, not_ready_since=clock.now())
    html = operator.get("/ops/nodes/node-2").content.decode()
    assert "Node is not ready" in html
    assert "Unhealthy" in html
    assert "Not schedulable" in html


def test_many_nodes_are_drawn_small(there: World, operator: Client) -> None:
    clusters.nodes(there.flavor, 60, cards=2, prefix="more")
    html = operator.get("/ops/overview").content.decode()
    assert html.count('class="mosaic ') == 62
    assert 'class="gpu"' not in html


@pytest.mark.parametrize(
    ("address", "budget"), [("/ops/overview", 40), ("/ops/nodes", 25), ("/ops/nodes/node-1", 26)]
)
def test_queries_do_not_grow_with_nodes_and_jobs(
    there: World, operator: Client, address: str, budget: int
) -> None:
    operator.get(address)
    with CaptureQueriesContext(connection) as few:
        operator.get(address)
    for number in range(6):
        node = clusters.node(there.flavor, f"extra-{number}")
        job = jobs.job(there.other_queue, there.outsider, roles=[jobs.RoleOf(cards=2)])
        jobs.allocate(job, node)
        jobs.allocate(jobs.job(there.queue, there.editor), there.nodes[0])
        jobs.job(there.queue, there.editor, state=JobState.QUEUED)
    with CaptureQueriesContext(connection) as many:
        operator.get(address)
    assert len(many) <= len(few) + 1  # the reader's session may be read once more
    assert len(few) <= budget


def test_time_before_the_first_reading_is_no_zero(operator: Client) -> None:
    answer = json.loads(operator.get("/ops/overview/charts/power").content)
    [[_start, _end, cause]] = answer["figure"]["layout"]["meta"]["gaps"]
    assert cause == "Before the first sample"


def test_the_axis_of_a_chart_is_the_chosen_range(there: World, operator: Client) -> None:
    channel = Channel.unscoped.create(scope=Scope.CLUSTER, cluster_id=there.cluster.pk)
    began = clock.now() - timedelta(minutes=30)
    for minutes in range(30):
        Tick.unscoped.create(
            channel=channel,
            at_ms=to_ms(began + timedelta(minutes=minutes)),
            cards=16,
            cards_sampled=16,
            cards_allocated=8,
            cores_used=400,
            cores_allocated=800,
            memory_capacity_mib=1,
            memory_used_mib=1,
            memory_allocated_mib=1,
            power_w=2000.0,
            temperature_c=50.0,
            temperature_max_c=60.0,
        )
    figure = json.loads(operator.get("/ops/overview/charts/allocation?range=1h").content)["figure"]
    start, end = map(datetime.fromisoformat, figure["layout"]["xaxis"]["range"])
    assert end - start == timedelta(hours=1)
    ((_begin, until, cause),) = figure["layout"]["meta"]["gaps"]
    assert cause == "Before the first sample"
    assert abs(datetime.fromisoformat(until) - began) < timedelta(minutes=2)


def test_a_custom_range_and_the_comparison_reach_every_chart(there: World, operator: Client) -> None:
    chosen = "from=2026-03-01T10:00:00Z&to=2026-03-01T12:00:00Z&compare=1"
    for address in ("/ops/overview", "/ops/nodes/node-1"):
        html = operator.get(f"{address}?{chosen}").content.decode().replace("&amp;", "&")
        addresses = re.findall(r'data-chart-url="([^"]*)"', html)
        assert len(addresses) >= 4
        # The grids by hour and day are always of the last seven days, and say so.
        assert all(chosen in one for one in addresses if "/hours/" not in one)
        assert "data-chart-every" not in html, "a stretch that is over is not asked for again"
        assert 'aria-checked="true"' in html
    chart = json.loads(operator.get(addresses[0]).content)
    assert chart["figure"]["layout"]["xaxis"]["range"] == ["2026-03-01T10:00:00Z", "2026-03-01T12:00:00Z"]
    assert {trace.get("name") for trace in chart["figure"]["data"]} >= {"used", "used, previous period"}
    file = operator.get(chart["csv"])
    assert file.status_code == 200


def test_a_range_that_cannot_be_shown_says_why(operator: Client) -> None:
    html = operator.get("/ops/overview?from=2026-03-01T12:00&to=2026-03-01T11:00").content.decode()
    assert "The end must be at least one minute after the start." in html


def test_the_table_of_tenants_ends_above_the_level_with_too_many(
    there: World, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = f'id="tenant-{there.workspace.pk}"'
    root = f'id="tenant-{there.workspace.parent_id}"'
    page = operator.get("/ops/overview").content.decode()
    assert team in page and root in page and "All tenants</a></p>" not in page
    monkeypatch.setattr("frontend.pages.operations.overview.tenants_table.ROWS_MAX", 2)
    page = operator.get("/ops/overview").content.decode()
    assert team not in page and root in page and "All tenants</a></p>" in page


def test_charts_of_the_overview_count_jobs_by_state_and_type(there: World, operator: Client) -> None:
    Job.unscoped.update(state=JobState.SUCCEEDED)
    for kind in ("batch", "notebook", "notebook"):
        job = jobs.job(there.queue, there.editor, kind=kind)
        jobs.allocate(job, there.nodes[0])
        Job.unscoped.filter(pk=job.pk).update(state=JobState.RUNNING)
    jobs.job(there.queue, there.editor, state=JobState.QUEUED)
    found = count_holding(viewer=there.platform_admin, cluster_id=None)
    assert found == {("running", "batch"): 1, ("running", "notebook"): 2}
    [kinds] = draw_kinds(found).figure["data"]
    assert dict(zip(kinds["x"], kinds["y"], strict=True)) == {"Batch": 1, "Notebook": 2}
    [states] = draw_states(found, 1).figure["data"]
    assert dict(zip(states["x"], states["y"], strict=True)) == {"Pending": 1, "Running": 3}
    assert draw_kinds({("evicting", "batch"): 1}) is None
    page = operator.get("/ops/overview").content.decode()
    for title in ("GPUs by pool", "Jobs by state", "Running jobs by type"):
        assert title in page
