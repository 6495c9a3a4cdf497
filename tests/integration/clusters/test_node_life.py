"""Nodes that are added, removed, flap and fill up: their events, and what they still accept."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from clusters.backends.base import DeviceFact, NodeFact, NodeObservation
from clusters.models import Cluster, Node, NodeEvent
from clusters.services.grants import DeviceAmount, NodeAmount, NoLongerFree, devices_take, nodes_take
from clusters.services.inventory import nodes_observe
from foundation.core import clock
from scheduling.snapshots import empty_snapshot
from tests.builders import clusters

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return clusters.cluster(clusters.cell())


def see(cluster: Cluster, **fields: object) -> Node:
    fact = NodeFact(**{"name": "n1", "cpu_millicores": 8000, "memory_mib": 8192, **fields})  # type: ignore[arg-type]
    nodes_observe(cluster=cluster, observations=[NodeObservation("n1", fact, clock.now())])
    return Node.unscoped.get()


def event_codes(node: Node) -> list[str]:
    return list(NodeEvent.unscoped.filter(node=node).order_by("id").values_list("code", flat=True))


TAINT = {"key": "maintenance", "value": "", "effect": "NoExecute"}
SOFT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
CARDS = tuple(DeviceFact(f"GPU-{n}", n, "A100", 40_960) for n in range(2))


@pytest.mark.parametrize(
    ("first", "then", "codes"),
    [
        ({}, {"ready": False}, ["not-ready"]),
        ({"ready": False}, {}, ["ready"]),
        ({}, {"cordoned": True}, ["cordoned"]),
        ({"cordoned": True}, {}, ["uncordoned"]),
        ({}, {"pressure": ("memory", "disk")}, ["pressure"]),
        ({"pressure": ("memory",)}, {}, ["pressure-over"]),
        ({}, {"taints": (TAINT, SOFT)}, ["drained"]),
        ({"taints": (TAINT,)}, {}, ["drain-over"]),
        ({}, {"taints": (SOFT,)}, []),
        ({"devices": CARDS}, {"devices": CARDS[:1]}, ["cards-lost"]),
        ({"devices": CARDS[:1]}, {"devices": CARDS}, []),
        ({}, {}, []),
    ],
)
def test_every_change_is_recorded_once(
    cluster: Cluster, first: dict[str, object], then: dict[str, object], codes: list[str]
) -> None:
    before = event_codes(see(cluster, **first))
    see(cluster, **then)
    node = see(cluster, **then)
    assert event_codes(node) == [*before, *codes]


def test_a_node_that_leaves_and_comes_back(cluster: Cluster) -> None:
    node = see(cluster)
    gone = NodeObservation("n1", None, clock.now())
    for _ in range(2):
        nodes_observe(cluster=cluster, observations=[gone])
    see(cluster)
    assert event_codes(node) == ["added", "left", "added", "ready"]


def flap(cluster: Cluster, moving: time_machine.Traveller, times: int, every: timedelta) -> Node:
    node = see(cluster)
    for _ in range(times):
        moving.shift(every)
        see(cluster, ready=False)
        moving.shift(timedelta(seconds=5))
        node = see(cluster)
    return node


@pytest.mark.parametrize(
    ("times", "every_s", "held"), [(2, 60, False), (3, 60, True), (4, 60, True), (5, 700, False)]
)
def test_a_node_that_comes_and_goes_gets_nothing_until_it_stays(
    cluster: Cluster, times: int, every_s: int, held: bool
) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as moving:
        node = flap(cluster, moving, times, timedelta(seconds=every_s))
        (seen,) = empty_snapshot(cluster.cell_id).fleet.nodes
        assert seen.schedulable is not held
        if held:
            with pytest.raises(NoLongerFree):
                nodes_take({node.pk: NodeAmount(1, 1)})
        moving.shift(timedelta(minutes=5, seconds=1))
        (seen,) = empty_snapshot(cluster.cell_id).fleet.nodes
        assert seen.schedulable
        nodes_take({node.pk: NodeAmount(1, 1)})


def counted(healthy: int) -> tuple[DeviceFact, ...]:
    return tuple(
        DeviceFact(f"card/{n}", n, "A100", 40_960, healthy=n < healthy, counted=True) for n in range(4)
    )


def test_of_cards_that_are_only_counted_unheld_ones_fail(cluster: Cluster) -> None:
    node = see(cluster, devices=counted(4))
    held = node.devices.filter(index__in=(2, 3))
    devices_take({card.pk: DeviceAmount(100, 40_960, 1) for card in held})
    see(cluster, devices=counted(3))
    node = see(cluster, devices=counted(3))
    assert list(node.devices.order_by("index").values_list("healthy", flat=True)) == [True, False, True, True]
    node = see(cluster, devices=counted(1))
    assert list(node.devices.order_by("index").values_list("healthy", flat=True)) == [
        False, False, True, False,
    ]  # fmt: skip
    see(cluster, devices=counted(4))
    assert event_codes(node) == ["added", "cards-lost", "cards-lost", "cards-back"]


def test_the_engine_gets_the_pressure_of_a_node(cluster: Cluster) -> None:
    see(cluster, pressure=("memory", "pid"))
    (seen,) = empty_snapshot(cluster.cell_id).fleet.nodes
    assert [str(kind) for kind in seen.pressure] == ["memory", "pid"]
