"""The facts that are read from a node's object."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.backends.kubernetes.nodes.nodes import node_fact as read_node
from clusters.gpu.named import counted_profile, is_named_by_node

READY = [{"type": "Ready", "status": "True"}]
REGISTER = (
    '[{"id":"GPU-b","index":1,"count":10,"devmem":46068,"devcore":100,"type":"L40S","health":true},'
    '{"id":"GPU-a","count":10,"devmem":46068,"devcore":100,"type":"L40S","health":true},'
    '{"id":"GPU-c","index":2,"count":10,"devmem":46068,"devcore":100,"type":"L40S","mode":"mig"}]'
)


def node_fact(node: dict[str, Any], cluster: str = "east") -> Any:
    return read_node(node, cluster)


def node(annotations: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
    return {
        "metadata": {"name": "n1", "labels": labels, "annotations": annotations},
        "spec": {},
        "status": {"conditions": READY, **status},
    }


@pytest.mark.parametrize(
    ("cpu", "memory", "millicores", "mib"),
    [
        ("96", "1Ti", 96_000, 1_048_576),
        ("95500m", "1056Gi", 95_500, 1_081_344),
        ("7910m", "32104336Ki", 7910, 31_351),
        ("1e3", "1G", 1_000_000, 953),
        ("0", "0", 0, 0),
    ],
)
def test_quantities_are_rounded_down(cpu: str, memory: str, millicores: int, mib: int) -> None:
    fact = node_fact(node(allocatable={"cpu": cpu, "memory": memory}))
    assert (fact.cpu_millicores, fact.memory_mib) == (millicores, mib)


@pytest.mark.parametrize(
    ("allocatable", "pods"), [({"pods": "110"}, 110), ({"pods": "1k"}, 1000), ({}, None)]
)
def test_how_many_pods_a_node_takes_is_read(allocatable: dict[str, str], pods: int | None) -> None:
    assert node_fact(node(allocatable=allocatable)).pods == pods


def test_counted_cards_have_names_of_their_own_and_the_withheld_are_unhealthy() -> None:
    resources = {"capacity": {"nvidia.com/gpu": "3"}, "allocatable": {"nvidia.com/gpu": "2"}}
    cards = node_fact(node(**resources)).devices
    assert len({card.uuid for card in cards}) == 3
    assert cards == node_fact(node(**resources)).devices
    other = node_fact(node(**resources), cluster="west").devices
    assert not {card.uuid for card in cards} & {card.uuid for card in other}
    assert [card.healthy for card in cards] == [True, True, False]
    assert {(card.model, card.memory_mib, card.mode) for card in cards} == {("NVIDIA-H200", 143_771, "whole")}
    assert all(is_named_by_node(card.uuid) for card in cards)


def test_registered_cards_come_in_the_order_of_their_index() -> None:
    annotations = {"hami.io/node-nvidia-register": REGISTER}
    cards = node_fact(node(annotations, allocatable={"nvidia.com/gpu": "20"})).devices
    assert [(card.uuid, card.mode, card.healthy) for card in cards] == [
        ("GPU-a", "slice", True),
        ("GPU-b", "slice", True),
        ("GPU-c", "mig", False),
    ]


def test_a_dead_plugin_and_a_cordoned_card_offer_nothing() -> None:
    annotations = {"hami.io/node-nvidia-register": REGISTER, "hami.io/device-cordon": "GPU-b,GPU-x"}
    offered = node_fact(node(annotations, allocatable={"nvidia.com/gpu": "20"})).devices
    assert [card.healthy for card in offered] == [True, False, False]
    withheld = node_fact(node(annotations, allocatable={"nvidia.com/gpu": "0"})).devices
    assert not any(card.healthy for card in withheld)


def test_a_register_that_cannot_be_read_hides_its_own_cards_only() -> None:
    fact = node_fact(node({"hami.io/node-nvidia-register": "[{"}, allocatable={"cpu": "4"}))
    assert (fact.cpu_millicores, fact.devices) == (4000, ())


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [(READY, True), ([{"type": "Ready", "status": "Unknown"}], False), ([], False), (None, False)],
)
def test_only_a_node_that_says_so_is_ready(conditions: Any, ready: bool) -> None:
    assert node_fact(node() | {"status": {"conditions": conditions}}).ready is ready


def test_a_cordon_is_reported_once_and_taints_whole() -> None:
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "gpu", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        {"key": "bare", "effect": "NoSchedule"},
    ]
    fact = node_fact(node() | {"spec": {"unschedulable": True, "taints": taints}})
    assert fact.cordoned
    assert fact.taints == (
        {"key": "gpu", "value": "yes", "effect": "NoExecute"},
        {"key": "bare", "value": "", "effect": "NoSchedule"},
    )


def test_an_empty_node_can_be_read() -> None:
    fact = node_fact({"metadata": {"name": "n1"}})
    assert (fact.name, fact.cpu_millicores, fact.ready, fact.devices) == ("n1", 0, False, ())


MIXED = {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"}


def test_instances_are_counted_by_profile() -> None:
    there = node(capacity=MIXED, allocatable={**MIXED, "nvidia.com/mig-1g.5gb": "1"})
    there["metadata"]["labels"] |= {"nvidia.com/mig-1g.5gb.memory": "4864"}
    cards = node_fact(there).devices
    assert [(c.index, c.mode, c.profile, c.cores, c.memory_mib, c.healthy) for c in cards] == [
        (0, "whole", "", 100, 143_771, True),
        (1, "mig", "1g.5gb", 15, 4864, True),
        (2, "mig", "1g.5gb", 15, 4864, False),
        (3, "mig", "3g.20gb", 43, 20_480, True),
    ]
    assert [counted_profile(card.uuid) for card in cards] == ["", "1g.5gb", "1g.5gb", "3g.20gb"]
    assert len({card.uuid for card in cards}) == 4


def test_instances_that_are_all_alike_count_as_cards() -> None:
    there = node(capacity={"nvidia.com/gpu": "7"}, allocatable={"nvidia.com/gpu": "7"})
    there["metadata"]["labels"] = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "nvidia.com/gpu.memory": "4864",
    }
    cards = node_fact(there).devices
    assert {(c.model, c.mode, c.profile, c.cores, c.memory_mib) for c in cards} == {
        ("NVIDIA-A100-SXM4-40GB", "mig", "1g.5gb", 15, 4864)
    }
    assert {counted_profile(card.uuid) for card in cards} == {""}


def test_an_instance_of_no_known_form_takes_no_work() -> None:
    resources = {"nvidia.com/mig-strange": "1"}
    (card,) = node_fact(node(capacity=resources, allocatable=resources)).devices
    assert not card.healthy
