"""Nodes and cards as rows, when the machines change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusters.backends.base import DeviceFact, NodeFact, NodeObservation
from clusters.models import Device, Node
from clusters.services.inventory import nodes_observe
from foundation.core import clock
from tests.builders import clusters

pytestmark = pytest.mark.django_db
_CARDS = tuple(DeviceFact(uuid=f"GPU-{n}", index=n, model="A100", memory_mib=40_960) for n in range(2))


def _fact(name: str, *cards: DeviceFact) -> NodeFact:
    return NodeFact(name=name, cpu_millicores=64_000, memory_mib=262_144, devices=cards)


def test_a_card_put_into_another_node_goes_with_it() -> None:
    cluster = clusters.cluster(clusters.cell())
    now = clock.now()
    nodes_observe(cluster=cluster, observations=[NodeObservation("old", _fact("old", *_CARDS), now)])

    moved = [
        NodeObservation("new", _fact("new", replace(_CARDS[1], index=0)), now),
        NodeObservation("old", _fact("old", _CARDS[0]), now),
    ]
    nodes_observe(cluster=cluster, observations=moved)

    places = Device.unscoped.order_by("uuid").values_list("uuid", "node__name", "index", "healthy")
    assert list(places) == [("GPU-0", "old", 0, True), ("GPU-1", "new", 0, True)]


def test_a_node_that_comes_back_by_another_name_brings_its_cards() -> None:
    cluster = clusters.cluster(clusters.cell())
    now = clock.now()
    nodes_observe(cluster=cluster, observations=[NodeObservation("old", _fact("old", *_CARDS), now)])

    renamed = [NodeObservation("old", None, now), NodeObservation("new", _fact("new", *_CARDS), now)]
    nodes_observe(cluster=cluster, observations=renamed)

    assert set(Device.unscoped.values_list("node__name", "healthy")) == {("new", True)}
    assert set(Node.unscoped.values_list("name", "present")) == {("old", False), ("new", True)}
