"""Flavors from a shell: found with the quota of what they have, refused when empty, removed when unused."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from clusters.models import Cell, Cluster, Device, Flavor, GpuMode, Node
from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from quotas.models import Quota, QuotaRevision
from tenants.models import Role, Tenant
from tests.builders import clusters, jobs, quotas, tenancy

pytestmark = pytest.mark.django_db
PRODUCT = "nvidia.com/gpu.product"
Amounts = dict[str, dict[str, int | None]]


@pytest.fixture
def east(db: None) -> Cluster:
    """Nodes without flavors: three of whole cards, two of slices, one of MIG instances, one without cards."""
    cluster = clusters.cluster(clusters.cell(), "east")
    for name, memory, mode, count in (
        ("H200", 143_771, GpuMode.WHOLE, 3),
        ("L40S", 46_068, GpuMode.SLICE, 2),
        ("A100-MIG", 10_240, GpuMode.MIG, 1),
    ):
        pool = clusters.flavor(
            cluster, name.lower(), card_model=name, card_memory_mib=memory, mode=mode,
            node_selector={PRODUCT: name},
        )  # fmt: skip
        clusters.nodes(pool, count, prefix=name.lower())
        pool.delete()
    Device.unscoped.filter(mode=GpuMode.MIG).update(cores_capacity=15, profile="1g.10gb")
    clusters.node(clusters.flavor(cluster, "cpu", card_model="", mode=GpuMode.NONE), "plain", cards=0)
    tenancy.platform_admin()
    tenancy.root()
    return cluster


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("flavor", *words, stdout=out)
    return out.getvalue()


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    call_command("flavor", *words, "--json", "-")
    return json.loads(capsys.readouterr().out)


def refusal(*words: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        run(*words)
    return caught.value.returncode, str(caught.value)


def root_has() -> Amounts:
    found: Amounts = {}
    for row in Quota.unscoped.filter(node__tenant__parent=None).select_related("flavor"):
        found.setdefault(row.flavor.name, {})[row.resource] = row.own_nominal
    return found


EXACT: Amounts = {
    "h200": {"gpu.cards": 24, "gpu.cores": 2400, "gpu.memory": 24 * 143_771, "cpu": None, "memory": None},
    "l40s": {"gpu.cards": None, "gpu.cores": 1600, "gpu.memory": 16 * 46_068, "cpu": None, "memory": None},
    "a100-mig": {"gpu.cards": 8, "gpu.cores": 120, "gpu.memory": 8 * 10_240, "cpu": None, "memory": None},
    "cpu": {"cpu": None, "memory": None},
}


def test_the_root_gets_exactly_what_the_pools_have(east: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "discover", "east", "--apply", "--quota")
    assert root_has() == EXACT
    assert answer["quota"]["tenant"] == "root"
    changed = {(one["flavor"], one["resource"]): one["after"] for one in answer["quota"]["changes"]}
    assert changed == {(name, what): n for name, of in EXACT.items() for what, n in of.items()}
    revision = QuotaRevision.unscoped.get()
    assert (revision.reason, revision.actor_name) == ("pools of cluster east", "root")


def test_a_second_run_changes_nothing_and_says_so(east: Cluster) -> None:
    first = run("discover", "east", "--apply", "--quota")
    assert "quota of root" in first
    assert "allotment quota apply" in first
    before = (root_has(), QuotaRevision.unscoped.count(), AuditRecord.unscoped.count())
    again = run("discover", "east", "--apply", "--quota")
    assert "root already has the quota of all pools of the cluster" in again
    assert (root_has(), QuotaRevision.unscoped.count(), AuditRecord.unscoped.count()) == before


def test_what_comes_is_added_and_what_leaves_takes_nothing_away(east: Cluster) -> None:
    run("discover", "east", "--apply", "--quota")
    clusters.node(Flavor.unscoped.get(name="h200"), "h200-4", cards=4)
    Node.unscoped.filter(name="l40s-1").update(present=False)
    Device.unscoped.filter(node__name="a100-mig-1").update(healthy=False)
    run("discover", "east", "--apply", "--quota")
    expected = EXACT | {
        "h200": EXACT["h200"] | {"gpu.cards": 28, "gpu.cores": 2800, "gpu.memory": 28 * 143_771}
    }
    assert root_has() == expected


def test_what_was_set_by_hand_is_never_lowered(east: Cluster) -> None:
    run("discover", "east", "--apply")
    node = quotas.quota_node(Cell.unscoped.get(), Tenant.unscoped.get(parent=None))
    flavor = Flavor.unscoped.get(name="h200")
    quotas.quota(node, flavor, Resource.GPU_CARDS, 100)
    quotas.quota(node, flavor, Resource.GPU_CORES, None)
    quotas.quota(node, flavor, Resource.CPU, 5)
    run("discover", "east", "--apply", "--quota")
    found = root_has()["h200"]
    assert (found["gpu.cards"], found["gpu.cores"]) == (100, None)
    assert found["cpu"] == 3 * 128_000, "an amount stays an amount"


def test_cpu_and_memory_are_those_of_the_nodes_where_that_is_chosen(east: Cluster) -> None:
    run("discover", "east", "--apply", "--quota", "--node-resources", "nodes")
    assert (root_has()["h200"]["cpu"], root_has()["h200"]["memory"]) == (384_000, 3 * 1_048_576)
    assert root_has()["cpu"]["cpu"] == 128_000
    run("discover", "east", "--apply", "--quota", "--node-resources", "unlimited")
    assert root_has()["h200"]["cpu"] is None


@pytest.mark.parametrize(
    "words", [("--quota",), ("--node-resources", "nodes"), ("--quota", "--node-resources", "nodes")]
)
def test_quota_is_for_what_is_applied(east: Cluster, words: tuple[str, ...]) -> None:
    code, message = refusal("discover", "east", *words)
    assert (code, "--apply" in message) == (2, True)
    assert Flavor.unscoped.count() == 1


def test_without_a_root_nothing_is_added(east: Cluster) -> None:
    Tenant.unscoped.all().delete()
    code, message = refusal("discover", "east", "--apply", "--quota")
    assert (code, "allotment init" in message) == (1, True)
    assert Flavor.unscoped.count() == 1


def test_an_operator_without_the_right_to_quota_is_refused_as_a_whole(east: Cluster) -> None:
    role = tenancy.custom_role(None, "machines", "cluster.view", "cluster.edit")
    person = tenancy.user("mach")
    person.memberships.create(custom_role=role, role="")
    assert "PERMISSION_DENIED" in refusal("discover", "east", "--apply", "--quota", "--user", "mach")[1]
    assert Flavor.unscoped.count() == 1


def test_a_flavor_that_no_node_would_belong_to_is_refused_unless_forced(east: Cluster) -> None:
    code, message = refusal("add", "east", "x", "--selector", "a=b")
    assert code == 1
    assert message.startswith("No node of cluster east has the labels a=b.")
    assert "--force" in message
    assert not Flavor.unscoped.filter(name="x").exists()
    assert "0 nodes" in run("add", "east", "x", "--selector", "a=b", "--force")


def test_a_flavor_whose_nodes_are_anothers_says_whose(east: Cluster) -> None:
    run("add", "east", "first", "--selector", f"{PRODUCT}=H200")
    code, message = refusal("add", "east", "second", "--selector", f"{PRODUCT}=H200")
    assert (code, "belong to: first." in message) == (1, True)
    run("add", "east", "aaa", "--selector", f"{PRODUCT}=H200")  # the first by name has them
    assert Flavor.unscoped.get(name="aaa").nodes.count() == 3


def test_a_removed_flavor_leaves_its_nodes_to_the_next(east: Cluster) -> None:
    run("add", "east", "aaa", "--selector", f"{PRODUCT}=H200")
    run("add", "east", "bbb", "--selector", f"{PRODUCT}=H200", "--force")
    run("discover", "east", "--apply", "--quota")
    version = Cell.unscoped.get().quota_version
    assert "removed" in run("remove", "east", "aaa", "--yes")
    assert Flavor.unscoped.get(name="bbb").nodes.count() == 3
    assert "aaa" not in root_has()
    assert Cell.unscoped.get().quota_version > version
    record = AuditRecord.unscoped.filter(action="flavor.remove").get()
    assert record.before["name"] == "aaa"


@pytest.mark.parametrize(("answer", "code"), [("h200", 0), ("H200", 1), ("", 1), (None, 2)])
def test_a_removal_is_confirmed_by_the_name(
    east: Cluster, monkeypatch: pytest.MonkeyPatch, answer: str | None, code: int
) -> None:
    def typed(_: str) -> str:
        if answer is None:
            raise EOFError
        return answer

    run("discover", "east", "--apply")
    monkeypatch.setattr("builtins.input", typed)
    if code:
        assert refusal("remove", "east", "h200")[0] == code
    else:
        run("remove", "east", "h200")
    assert Flavor.unscoped.filter(name="h200").exists() is bool(code)


def test_a_flavor_in_use_is_kept_with_all_it_has(east: Cluster) -> None:
    run("discover", "east", "--apply", "--quota")
    flavor = Flavor.unscoped.get(name="h200")
    queue = quotas.queue(east.cell, tenancy.workspace(), [flavor], cards=8)
    code, message = refusal("remove", "east", "h200", "--yes")
    assert (code, "FLAVOR_IN_USE" in message) == (1, True)
    jobs.allocate(jobs.job(queue, tenancy.user("ed"), roles=[jobs.RoleOf(cards=1)]), flavor.nodes.all()[0])
    queue.queue_flavors.all().delete()
    assert refusal("remove", "east", "h200", "--yes")[0] == 1, "the history of a job refers to it"
    assert root_has()["h200"]["gpu.cards"] == 24
    assert flavor.nodes.count() == 3


def test_removing_needs_the_right_and_the_name_of_one_that_is_there(east: Cluster) -> None:
    run("discover", "east", "--apply")
    tenancy.user("reader", None, Role.PLATFORM_VIEWER)
    assert "PERMISSION_DENIED" in refusal("remove", "east", "h200", "--yes", "--user", "reader")[1]
    assert "Pool none not found" in refusal("remove", "east", "none", "--yes")[1]
    assert Flavor.unscoped.filter(name="h200").exists()
