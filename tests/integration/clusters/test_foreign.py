"""Pods of others on the platform's nodes: their sums on nodes and cards, and what is left to take."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from django.db.models import F

from clusters.backends.base import (
    BoundPod,
    BoundPods,
    DeviceFact,
    DeviceGrant,
    NodeFact,
    NodeObservation,
    PodOnNode,
)
from clusters.models import Cluster, Device, Flavor, ForeignOrigin, GpuMode, Node
from clusters.models import ForeignPod as Row
from clusters.services.foreign import foreign_apply
from clusters.services.grants import (
    DeviceAmount,
    NodeAmount,
    NoLongerFree,
    devices_give_back,
    devices_take,
    nodes_take,
)
from clusters.services.inventory import nodes_observe
from foundation.core import clock
from foundation.models.installation import installation_id
from scheduling.engine import model as em
from scheduling.snapshots import empty_snapshot
from tests.builders import clusters

pytestmark = pytest.mark.django_db
ALL = DeviceAmount(100, 40_960, 1)


@pytest.fixture
def flavor() -> Flavor:
    return clusters.flavor(clusters.cluster(clusters.cell()))


@pytest.fixture
def node(flavor: Flavor) -> Node:
    return clusters.node(flavor, cards=4, cpu=64_000, memory=262_144)


def pod(name: str = "a", **fields: Any) -> PodOnNode:
    known = f"uid-{name}", "theirs", name, fields.pop("node", "node-1")
    uid, namespace, name, node = known
    bound = BoundPod(uid=uid, namespace=namespace, name=name, node=node, **fields)
    return PodOnNode(*known, lambda: bound)


def apply_batch(cluster: Cluster, *pods: PodOnNode, gone: Iterable[str] = (), complete: bool = False) -> int:
    """Apply a batch as the next one."""
    cluster.refresh_from_db()
    return foreign_apply(cluster=cluster, bound=BoundPods(pods, frozenset(gone), complete))


def held(node: Node) -> list[tuple[int, int]]:
    """Return for each card what the platform holds and what others hold of it, in percent points."""
    rows = node.devices.order_by("index").values_list("cores_granted", "cores_foreign")
    return list(rows)


def take(node: Node, *indices: int) -> Mapping[uuid.UUID, DeviceAmount]:
    amounts = {card.pk: ALL for card in node.devices.filter(index__in=indices)}
    devices_take(amounts)
    return amounts


def seen_by_engine(node: Node) -> em.Node:
    (seen,) = empty_snapshot(node.cluster.cell_id).fleet.nodes
    return seen


def test_counted_cards_are_those_that_we_do_not_hold(node: Node) -> None:
    take(node, 3)
    apply_batch(node.cluster, pod(cards={"": 2}))
    assert held(node) == [(0, 0), (0, 100), (0, 100), (100, 0)]
    apply_batch(node.cluster, gone={"uid-a"})
    assert held(node) == [(0, 0), (0, 0), (0, 0), (100, 0)]


def test_cards_of_others_cannot_be_taken(node: Node) -> None:
    apply_batch(node.cluster, pod(cards={"": 3}))
    with pytest.raises(NoLongerFree):
        take(node, 3)
    take(node, 0)


def test_a_part_of_a_card_leaves_the_rest() -> None:
    flavor = clusters.flavor(clusters.cluster(clusters.cell()), mode=GpuMode.SLICE)
    node = clusters.node(flavor, cards=2)
    card = node.devices.get(index=0)
    apply_batch(
        node.cluster, pod(shares=(DeviceGrant(card.uuid, 30, 8192), DeviceGrant("GPU-unknown", 5, 5)))
    )
    with pytest.raises(NoLongerFree):
        devices_take({card.pk: DeviceAmount(71, 1024, 1)})
    with pytest.raises(NoLongerFree):
        devices_take({card.pk: DeviceAmount(10, 40_960, 1)})
    devices_take({card.pk: DeviceAmount(70, 32_768, 1)})


def test_more_than_is_left_waits_for_a_card_to_come_free(node: Node) -> None:
    ours = take(node, 0, 1, 2)
    apply_batch(node.cluster, pod(cards={"": 3}))
    node.refresh_from_db()
    assert (held(node)[3], node.cards_unplaced) == ((0, 100), 2)
    devices_give_back(ours)
    node.refresh_from_db()
    assert ([foreign for _, foreign in held(node)], node.cards_unplaced) == ([0, 100, 100, 100], 0)


def test_a_card_of_theirs_without_a_place_is_news_of_the_node(node: Node) -> None:
    take(node, 0, 1, 2, 3)
    before = Node.unscoped.get(pk=node.pk).facts_version

    apply_batch(node.cluster, pod(cpu_millicores=0, memory_mib=0, cards={"": 1}))

    node.refresh_from_db()
    assert (node.cards_unplaced, node.facts_version) == (1, before + 1)


def test_cpu_and_memory_of_others_are_not_ours(node: Node) -> None:
    apply_batch(node.cluster, pod(cpu_millicores=60_000, memory_mib=200_000))
    with pytest.raises(NoLongerFree):
        nodes_take({node.pk: NodeAmount(4001, 1)})
    with pytest.raises(NoLongerFree):
        nodes_take({node.pk: NodeAmount(1, 62_145)})
    nodes_take({node.pk: NodeAmount(4000, 62_144)})


def test_the_engine_sees_what_is_held_and_what_will_never_be_free(node: Node) -> None:
    apply_batch(
        node.cluster,
        pod("daemon", cpu_millicores=2000, memory_mib=1024, is_permanent=True),
        pod("other", cpu_millicores=8000, memory_mib=4096, cards={"": 1}),
    )
    seen = seen_by_engine(node)
    assert (seen.cpu, seen.used_cpu, seen.memory, seen.used_memory) == (62_000, 8000, 261_120, 4096)
    assert [(card.holders, card.used_cores) for card in seen.devices] == [(0, 0)] * 3 + [(1, 100)]
    assert seen.devices[3].exclusive


def test_a_list_without_a_pod_says_that_it_is_gone(node: Node) -> None:
    apply_batch(node.cluster, pod("a", cards={"": 1}), pod("b", cards={"": 1}))
    apply_batch(node.cluster, pod("b", cards={"": 1}), complete=True)
    assert list(Row.unscoped.values_list("name", flat=True)) == ["b"]
    assert sum(foreign for _, foreign in held(node)) == 100


def test_a_batch_read_before_another_was_written_is_dropped(node: Node) -> None:
    early = Cluster.unscoped.get(pk=node.cluster_id)
    apply_batch(node.cluster, pod("a", cards={"": 1}))
    Cluster.unscoped.update(cursor="9.9")
    assert foreign_apply(cluster=early, bound=BoundPods(complete=True)) == 0
    assert Row.unscoped.count() == 1


def test_a_batch_read_under_a_lease_that_was_lost_is_dropped(node: Node) -> None:
    """The cursor moves only when all is applied, so it doesn't reveal that another process is applying."""
    late = Cluster.unscoped.get(pk=node.cluster_id)
    Cluster.unscoped.update(epoch=F("epoch") + 1)
    apply_batch(node.cluster, pod("a", cards={"": 1}))
    apply_batch(node.cluster, gone=["uid-a"])
    assert foreign_apply(cluster=late, bound=BoundPods((pod("a", cards={"": 1}),))) == 0
    assert not Row.unscoped.exists()


@pytest.mark.parametrize("complete", [False, True])
def test_rows_are_compared_under_the_lock_under_which_they_are_written(node: Node, complete: bool) -> None:
    """Another process applies newer facts after the first comparison."""
    told = [False]

    def find_own(cluster: Cluster, bound: BoundPods) -> set[str]:
        if not told[0]:
            told[0] = True
            apply_batch(Cluster.unscoped.get(pk=cluster.pk), pod("a", cards={"": 1}), pod("b", cards={"": 1}))
        return set()

    batch = BoundPods((pod("a", cards={"": 2}),), complete=complete)
    foreign_apply(cluster=Cluster.unscoped.get(pk=node.cluster_id), bound=batch, find_own=find_own)
    assert Row.unscoped.get(name="a").cards == {"": 2}
    assert sum(foreign for _, foreign in held(node)) == (200 if complete else 300)


@pytest.mark.parametrize(
    ("labels", "installation", "origin"),
    [
        ({}, "", ForeignOrigin.OTHER),
        ({"app.kubernetes.io/managed-by": "allotment"}, "", ForeignOrigin.UNKNOWN),
        ({"allotment.io/job": "j"}, "here", ForeignOrigin.UNKNOWN),
        ({"app.kubernetes.io/managed-by": "allotment"}, "elsewhere", ForeignOrigin.INSTALLATION),
        ({}, "elsewhere", ForeignOrigin.INSTALLATION),
    ],
)
def test_a_pod_is_counted_whatever_its_labels_and_its_origin_is_recorded(
    node: Node, labels: dict[str, str], installation: str, origin: str
) -> None:
    maker = str(installation_id()) if installation == "here" else installation
    apply_batch(node.cluster, pod(cards={"": 2}, labels=labels, installation=maker))
    assert Row.unscoped.get().origin == origin
    assert sum(foreign for _, foreign in held(node)) == 200


def own_a(cluster: Cluster, bound: BoundPods) -> set[str]:
    return {"uid-a"}


def test_what_turns_out_to_be_ours_is_counted_no_longer(node: Node) -> None:
    apply_batch(node.cluster, pod(cards={"": 2}))
    node.cluster.refresh_from_db()
    foreign_apply(cluster=node.cluster, bound=BoundPods((pod(cards={"": 2}),)), find_own=own_a)
    assert not Row.unscoped.exists()
    assert sum(foreign for _, foreign in held(node)) == 0


def test_what_own_pods_keep_is_not_even_read(node: Node) -> None:
    def read() -> BoundPod:
        raise AssertionError("the amounts of an own pod were read")

    own = PodOnNode("uid-a", "ours", "a", "node-1", read)
    node.cluster.refresh_from_db()
    bound = BoundPods((own, pod("b", cards={"": 1})))
    assert foreign_apply(cluster=node.cluster, bound=bound, find_own=own_a) == 1
    assert Row.unscoped.get().name == "b"


def test_a_pod_may_be_reported_before_its_node(flavor: Flavor) -> None:
    apply_batch(flavor.cluster, pod(cpu_millicores=1000, cards={"": 1}))
    fact = NodeFact("node-1", 8000, 8192, devices=(DeviceFact("GPU-0", 0, "A100", 40_960),))
    nodes_observe(cluster=flavor.cluster, observations=[NodeObservation("node-1", fact, clock.now())])
    assert Node.unscoped.get().cpu_foreign == 1000
    assert Device.unscoped.get().foreign_holders == 1


def test_what_changes_nothing_asks_for_no_cycle(node: Node) -> None:
    apply_batch(node.cluster, pod(cards={"": 1}))
    before = node.cluster.cell
    before.refresh_from_db()
    apply_batch(node.cluster, pod(cards={"": 1}))
    version = before.inventory_version
    before.refresh_from_db()
    assert before.inventory_version == version
