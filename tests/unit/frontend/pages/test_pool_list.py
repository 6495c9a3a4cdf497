"""The list of pools says what the rows of nodes, GPUs and quotas say."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from clusters.models import Device, Flavor
from foundation.core.quantities import Resource
from quotas.models import Quota
from tenants.models import Member, User
from tests.builders import tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def w() -> World:
    return world()


def read_rows(w: World, query: str = "", reader: User | None = None) -> dict[str, dict[str, str]]:
    """The rows of the page by the name of the pool; each has its cells by their heads."""
    client = Client()
    client.force_login(reader or w.platform_admin)
    answer = client.get(f"/ops/flavors{query}")
    assert answer.status_code == 200
    page = BeautifulSoup(answer.content, "html.parser")
    heads = [head.get_text(" ", strip=True) for head in page.select("table.listing thead th")]
    found = {}
    for row in page.select("table.listing tbody tr"):
        cells = [cell.get_text(" ", strip=True) for cell in row.find_all("td", recursive=False)]
        found[cells[0]] = dict(zip(heads, cells, strict=False))
    return found


def test_a_pool_shows_its_gpus_what_is_free_and_what_is_assigned(w: World) -> None:
    flavor = Quota.unscoped.filter(resource=Resource.GPU_CORES.value).first().flavor  # type: ignore[union-attr]
    devices = Device.unscoped.filter(node__flavor=flavor)
    taken = devices.first()
    assert taken is not None
    Device.unscoped.filter(pk=taken.pk).update(
        holders=1, cores_granted=taken.cores_capacity, memory_granted=taken.memory_capacity
    )
    total = devices.count()
    row = read_rows(w)[flavor.name]
    assert row["GPUs"] == str(total)
    assert row["Free GPUs"] == str(total - 1)
    assert row["Allocated"] == f"{100 / total:.0f} %"
    of_pool = Quota.unscoped.filter(flavor=flavor, resource=Resource.GPU_CORES.value)
    nominal = sum(quota.own_nominal or 0 for quota in of_pool)
    assert row["Nominal quota"].split()[0] == f"{nominal / 100:g}"
    assert ("Exceeds" in row["Nominal quota"]) == (nominal > 100 * total)
    of_pool.filter(pk=of_pool[0].pk).update(own_nominal=100 * (total + 1))
    assert "Exceeds the pool" in read_rows(w)[flavor.name]["Nominal quota"]
    of_pool.filter(pk=of_pool[0].pk).update(own_nominal=None)
    assert read_rows(w)[flavor.name]["Nominal quota"] == "unlimited"


def test_pools_are_sorted_and_filtered(w: World) -> None:
    flavor = Flavor.unscoped.order_by("name").first()
    assert flavor is not None
    Flavor(cluster=flavor.cluster, name="zz-empty", card_model="H200").save(force_insert=True)
    assert list(read_rows(w))[-1] == "zz-empty"
    assert next(iter(read_rows(w, "?sort=-name"))) == "zz-empty"
    assert list(read_rows(w, "?filterBy=card_model==H200")) == ["zz-empty"]
    row = read_rows(w)["zz-empty"]
    assert (row["GPUs"], row["Allocated"], row["Nominal quota"]) == ("0", "–", "0")


def test_quota_is_hidden_from_operators_who_may_not_see_it(w: World) -> None:
    watcher = tenancy.user("watcher")
    role = tenancy.custom_role(None, "Cluster watcher", "cluster.view")
    Member.unscoped.create(user=watcher, tenant=None, custom_role=role)
    rows = read_rows(w, reader=watcher)
    assert rows
    assert {row["Nominal quota"] for row in rows.values()} == {"–"}
    assert "–" not in {row["Nominal quota"] for row in read_rows(w).values()}
