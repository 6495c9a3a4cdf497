"""The grids of allocation and utilization by hour and day."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from clusters.models import Node
from telemetry.models import Channel, RolledTenMinutes, Scope
from telemetry.store.times import TEN_MINUTES_MS, to_ms
from tests.builders import clusters
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 12, 15, 40, tzinfo=UTC)


def measure_hour(channel: Channel, at: datetime, *, cards: int, used: float, allocated: float) -> None:
    """Roll-ups of an hour; `used` and `allocated` are percent points over all GPUs."""
    RolledTenMinutes.unscoped.bulk_create(
        RolledTenMinutes(
            channel=channel, at_ms=to_ms(at) + part * TEN_MINUTES_MS, count=60, covered_ms=TEN_MINUTES_MS,
            cores_used=used, cores_allocated=allocated, memory_allocated_mib=0, cards=cards,
            cards_sampled=cards, cards_allocated=cards,
        )
        for part in range(6)
    )  # fmt: skip


@pytest.fixture
def there() -> World:
    """One hour of the cluster, and of two nodes of which one is in another pool."""
    made = world()
    other = clusters.flavor(made.cluster, "other")
    Node.unscoped.filter(pk=made.nodes[1].pk).update(flavor=other)
    of = {"cluster_id": made.cluster.pk}
    total = Channel.unscoped.create(scope=Scope.CLUSTER, **of)
    first, second = (
        Channel.unscoped.create(scope=Scope.NODE, node_id=node.pk, **of) for node in made.nodes[:2]
    )
    at = datetime(2026, 11, 10, 20, tzinfo=UTC)
    measure_hour(total, at, cards=4, used=100, allocated=200)
    measure_hour(first, at, cards=2, used=100, allocated=200)
    measure_hour(second, at, cards=2, used=0, allocated=0)
    return made


def ask(world: World, client: Client, kind: str, **query: str) -> dict[str, object]:
    client.force_login(world.platform_admin)
    with time_machine.travel(NOW, tick=False):
        answer = client.get(f"/ops/overview/hours/{kind}", query)
    found: dict[str, object] = answer.json()
    return found


def known_cells(found: dict[str, object]) -> dict[tuple[str, str], float]:
    (grid,) = found["figure"]["data"]  # type: ignore[index]
    return {
        (day, hour): rate
        for day, row in zip(grid["y"], grid["z"], strict=True)
        for hour, rate in zip(grid["x"], row, strict=True)
        if rate is not None
    }


@pytest.mark.parametrize(
    ("zone", "cells"),
    [
        ("UTC", [("Nov 10", "20")]),
        ("Asia/Shanghai", [("Nov 11", "04")]),
        ("Asia/Kolkata", [("Nov 11", "01"), ("Nov 11", "02")]),
        ("Nowhere/City", [("Nov 10", "20")]),
    ],
)
def test_an_hour_is_where_its_time_zone_has_it_and_others_are_empty(
    there: World, client: Client, zone: str, cells: list[tuple[str, str]]
) -> None:
    assert known_cells(ask(there, client, "used", time_zone=zone)) == dict.fromkeys(cells, 25)
    assert known_cells(ask(there, client, "allocated", time_zone=zone)) == dict.fromkeys(cells, 50)


def test_a_pool_has_its_own_nodes_alone_and_the_table_distinguishes_0_from_nothing(
    there: World, client: Client
) -> None:
    pools = {node.flavor.name: str(node.flavor_id) for node in Node.unscoped.select_related("flavor")}
    first = known_cells(ask(there, client, "used", pool=pools[there.flavor.name]))
    assert set(first.values()) == {50}
    found = ask(there, client, "used", pool=pools["other"])
    assert set(known_cells(found).values()) == {0}
    table = found["figure"]["layout"]["meta"]["table"]  # type: ignore[index]
    (row,) = [row for row in table["rows"] if row[0] == "Nov 10"]
    assert (row[21], row[20]) == ("0 %", "–")
    assert "highest 0 % (Nov 10 20:00)" in str(found["summary"])


def test_the_page_states_the_zone_and_keeps_the_choice(there: World, client: Client) -> None:
    client.force_login(there.platform_admin)
    html = client.get("/ops/overview", {"time_zone": "Asia/Shanghai"}).content.decode()
    assert "Last 7 days, time zone Asia/Shanghai." in html
    assert "/ops/overview/hours/used?time_zone=Asia%2FShanghai" in html
    assert client.get("/ops/overview/hours/other").status_code == 404
