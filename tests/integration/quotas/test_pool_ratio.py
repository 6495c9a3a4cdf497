"""The CPU and memory quota that go with a GPU: from the nodes, or as the pool's settings say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from clusters.models import Flavor, Node, PlacementPolicy
from clusters.services.flavor import flavor_set
from foundation.core.errors import Invalid, PermissionDenied, PreconditionFailed
from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from quotas.files import FileFormat
from quotas.models import Quota
from quotas.selectors.pools.pool_size import pool_sizes
from quotas.services.quota_files.pool_form import amounts_of_gpus
from quotas.services.quota_files.quota_file import QuotaFile, quota_file_apply
from quotas.services.team import TeamPlan, TeamPool, team_preview
from tests.builders import quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
CPU, MEMORY = Resource.CPU, Resource.MEMORY


@pytest.fixture
def there() -> World:
    """Two nodes with eight GPUs each; the root keeps 10 GPUs and ample CPU and memory."""
    made = world()
    root = quotas.quota_node(made.cell, tenancy.root())
    Quota.unscoped.filter(node=root).delete()
    quotas.gpu_quota(root, made.flavor, 10)
    return made


def set_ratio(there: World, cpu: int | None, memory: int | None, **more: Any) -> Flavor:
    return flavor_set(
        acting_user=there.platform_admin,
        flavor=there.flavor,
        cpu_per_gpu=cpu,
        memory_per_gpu=memory,
        placement=there.flavor.placement_policy,
        **more,
    )


def of_team(there: World, gpus: int) -> dict[Resource, int | None]:
    plan = TeamPlan(tenancy.root(), "New", pools=[TeamPool(there.flavor, gpus)])
    return dict(team_preview(acting_user=there.platform_admin, plan=plan).pools[0].amounts)


def test_the_ratio_of_the_nodes_is_the_default(there: World) -> None:
    nodes = Node.unscoped.filter(flavor=there.flavor)
    cpu = sum(node.cpu_millicores for node in nodes)
    memory = sum(node.memory_mib for node in nodes)
    amounts = of_team(there, 4)
    assert (amounts[CPU], amounts[MEMORY]) == (cpu * 4 // 16, memory * 4 // 16)


def test_a_new_team_gets_the_ratio_of_the_pool(there: World) -> None:
    set_ratio(there, 6000, None)
    from_nodes = of_team(there, 4)[MEMORY]
    assert of_team(there, 4)[CPU] == 24_000
    set_ratio(there, 6000, 50_000)
    assert of_team(there, 4) | {CPU: 24_000, MEMORY: 200_000} == of_team(there, 4)
    assert from_nodes != 200_000


def test_a_file_in_gpus_and_the_form_use_it_as_well(there: World) -> None:
    set_ratio(there, 6000, 50_000)
    team = tenancy.workspace("new")
    node = quotas.quota_node(there.cell, team)
    found = {amount.resource: amount.nominal for amount in amounts_of_gpus(node, there.flavor, 3)}
    assert (found[CPU], found[MEMORY]) == (18_000, 150_000)
    text = "quotas: [{tenant: new, pools: {a100: {gpus: 2, cpu: nodes, memory: nodes}}}]"
    quota_file_apply(acting_user=there.platform_admin, file=QuotaFile(text, FileFormat.YAML, "q.yaml"))
    rows = Quota.unscoped.filter(node=node, resource__in=(CPU, MEMORY)).values_list("resource", "own_nominal")
    assert dict(rows) == {"cpu": 12_000, "memory": 100_000}


def test_a_pool_without_nodes_has_a_ratio_once_it_is_set(there: World) -> None:
    Node.unscoped.update(present=False)
    assert pool_sizes([there.flavor])[there.flavor.pk].compute_share(CPU, 2) is None
    changed = set_ratio(there, 6000, 50_000)
    assert pool_sizes([changed])[changed.pk].compute_share(CPU, 2) == 12_000


@pytest.mark.parametrize("amount", [0, -1, 2**31])
def test_amounts_out_of_bounds_are_refused(there: World, amount: int) -> None:
    with pytest.raises(Invalid) as refused:
        set_ratio(there, 6000, amount)
    assert [error.field for error in refused.value.errors] == ["memory_per_gpu"]
    assert Flavor.unscoped.get(pk=there.flavor.pk).cpu_per_gpu is None


def test_only_who_edits_clusters_sets_it_and_it_is_recorded(there: World) -> None:
    with pytest.raises(PermissionDenied):
        flavor_set(
            acting_user=there.admin,
            flavor=there.flavor,
            cpu_per_gpu=1,
            memory_per_gpu=None,
            placement=PlacementPolicy.SPREAD,
        )
    set_ratio(there, 6000, None, expected=0)
    with pytest.raises(PreconditionFailed):
        set_ratio(there, 7000, None, expected=0)
    record = AuditRecord.unscoped.get(action="flavor.set")
    assert (record.before["cpu_per_gpu"], record.after["cpu_per_gpu"]) == (None, 6000)


def test_the_page_of_the_pool(there: World, client: Client) -> None:
    client.force_login(there.platform_admin)
    address = f"/ops/flavors/{there.cluster.name}/a100"
    text = client.get(address).content.decode()
    node = there.nodes[0]
    assert f"Empty: {node.cpu_millicores / 8000:g}, the ratio of the nodes" in text
    form = {"cpu_per_gpu": "6.5", "memory_per_gpu": "48", "placement": "default", "version": "0"}
    assert "Pool a100 updated" in client.post(address, form, follow=True).content.decode()
    flavor = Flavor.unscoped.get(pk=there.flavor.pk)
    assert (flavor.cpu_per_gpu, flavor.memory_per_gpu) == (6500, 48 * 1024)
    old = client.post(address, {**form, "cpu_per_gpu": "9"})
    assert old.status_code == 400
    assert 'value="9"' in old.content.decode()
    wrong = client.post(address, {**form, "version": "1", "memory_per_gpu": "lots"})
    assert "Invalid memory amount" in wrong.content.decode()
    assert address in client.get(f"/ops/clusters/{there.cluster.name}").content.decode()
    assert client.get(f"/ops/flavors/{there.cluster.name}/none").status_code == 404


def test_the_tree_shows_it_and_suggests_by_it(there: World, client: Client) -> None:
    set_ratio(there, 6000, 51_200)
    client.force_login(there.platform_admin)
    text = client.get("/ops/quotas/tree").content.decode()
    assert "1 GPU : 6 CPU cores : 50 GiB" in text
    ratio = re.search(r'data-ratio="([^"]*)"', text)
    assert ratio
    assert json.loads(ratio[1].replace("&quot;", '"')) == {"cpu": 60.0, "memory": 512.0}


def test_the_ratio_over_rest(there: World, client: Client) -> None:
    client.force_login(there.platform_admin)
    address = f"/api/v1/admin/flavors/{there.cluster.name}/a100"
    found = client.get(address)
    assert found.json()["cpu_per_gpu"] is None
    body = {"cpu_per_gpu": 8000, "memory_per_gpu": None}
    headers = {"If-Match": found.headers["ETag"]}
    changed = client.patch(address, body, content_type="application/json", headers=headers)
    assert changed.status_code == 200
    assert client.get(address).json() | body == client.get(address).json()
    assert [item["name"] for item in client.get("/api/v1/admin/flavors").json()["items"]] == ["a100"]
    zero = client.patch(
        address,
        {**body, "cpu_per_gpu": 0},
        content_type="application/json",
        headers={"If-Match": changed.headers["ETag"]},
    )
    assert zero.status_code == 400
