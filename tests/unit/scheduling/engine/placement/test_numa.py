"""Which nodes admit a task by their NUMA policy, and which zones it gets there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine.model import (
    GpuRequest,
    Node,
    NumaPolicy,
    NumaZone,
    PlacementRules,
    QosClass,
    Request,
    ZoneShare,
)
from scheduling.engine.placement.placer import Placer, TaskPlacement
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import flavor, node
from tests.unit.scheduling.engine.placement.test_special_requests import refused
from tests.unit.scheduling.engine.placement.test_vetoes import RULE

NONE, BEST, RESTRICTED, SINGLE = NumaPolicy


def numa_node(policy: NumaPolicy, *zones: tuple[int, int], cards: int = 0, memory: bool = False) -> Node:
    """Zones as (cores, cores in use); cards are dealt out in blocks, and memory is 10 MiB per core."""
    bare = node("n1", cards)
    return replace(
        bare,
        numa_policy=policy,
        numa=tuple(
            NumaZone(
                id=number,
                cpu=size * 1_000,
                used_cpu=used * 1_000,
                memory=size * 10 if memory else None,
                used_memory=used * 10 if memory else 0,
            )
            for number, (size, used) in enumerate(zones)
        ),
        devices=tuple(replace(card, numa=card.index * len(zones) // cards) for card in bare.devices),
    )


def seat(candidate: Node, request: Request) -> TaskPlacement | None:
    pool = flavor()
    return Placer(Fleet([candidate]), RULE).find_placement(
        resolve_shape(request, PlacementRules(), pool), pool
    )


def asks(cores: int, cards: int = 0, memory: int = 0, qos: QosClass = QosClass.GUARANTEED) -> Request:
    gpu = GpuRequest(cards=cards) if cards else None
    return Request(cpu=cores * 1_000, memory=memory, gpu=gpu, qos=qos)


@pytest.mark.parametrize(
    ("policy", "zones", "cores", "expected"),
    [
        (SINGLE, [(4, 0), (4, 0)], 3, [0]),
        (SINGLE, [(4, 2), (4, 0)], 3, [1]),
        (SINGLE, [(4, 0), (4, 0)], 6, None),
        (SINGLE, [(4, 2), (4, 2)], 3, None),
        (RESTRICTED, [(4, 0), (4, 0)], 6, [0, 1]),
        (RESTRICTED, [(4, 0), (4, 0)], 3, [0]),
        # The idle node would need one zone only, and none has that much left.
        (RESTRICTED, [(4, 2), (4, 2)], 3, None),
        (RESTRICTED, [(4, 0), (4, 0), (4, 0)], 7, [0, 1]),
        (RESTRICTED, [(4, 2), (4, 0), (4, 0)], 7, [1, 2]),
        (RESTRICTED, [(4, 2), (4, 2), (4, 0)], 7, None),
        (RESTRICTED, [(4, 0), (4, 0)], 9, None),
        (BEST, [(4, 2), (4, 2)], 3, [0, 1]),
        (BEST, [(4, 2), (4, 0)], 3, [1]),
        (BEST, [(4, 3), (4, 3)], 3, []),
        (NONE, [(4, 4), (4, 4)], 3, []),
    ],
)
def test_policies(
    policy: NumaPolicy, zones: list[tuple[int, int]], cores: int, expected: list[int] | None
) -> None:
    candidate = numa_node(policy, *zones)
    found = seat(candidate, asks(cores))
    assert (None if found is None else [share.zone for share in found.zones]) == expected
    assert refused(candidate, asks(cores)) == ("numa" if expected is None else None)


def test_only_guaranteed_tasks_are_aligned() -> None:
    candidate = numa_node(SINGLE, (4, 0), (4, 0))
    for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
        found = seat(candidate, asks(6, qos=qos))
        assert found is not None
        assert found.zones == ()


def test_a_task_takes_zone_by_zone_what_there_is() -> None:
    found = seat(numa_node(RESTRICTED, (4, 1), (4, 0), memory=True), asks(6, memory=50))
    assert found is not None
    assert found.zones == (ZoneShare(0, 3_000, 30), ZoneShare(1, 3_000, 20))


def test_memory_counts_where_the_node_aligns_it() -> None:
    assert refused(numa_node(SINGLE, (4, 0), (4, 0), memory=True), asks(1, memory=41)) == "numa"
    assert refused(numa_node(SINGLE, (4, 0), (4, 0)), asks(1, memory=41)) is None


@pytest.mark.parametrize(
    ("policy", "cards", "zones", "devices"),
    [
        (SINGLE, 2, [0], ["n1-gpu0", "n1-gpu1"]),
        (SINGLE, 3, None, None),
        (RESTRICTED, 3, [0, 1], ["n1-gpu0", "n1-gpu1", "n1-gpu2"]),
    ],
)
def test_cards_stand_in_the_same_zones(
    policy: NumaPolicy, cards: int, zones: list[int] | None, devices: list[str] | None
) -> None:
    found = seat(numa_node(policy, (4, 0), (4, 0), cards=4), asks(2, cards))
    if found is None:
        assert zones is None
    else:
        assert [share.zone for share in found.zones] == zones
        assert [part.device for part in found.slices] == devices


def test_cards_go_where_the_cores_are_free() -> None:
    found = seat(numa_node(SINGLE, (4, 4), (4, 0), cards=4), asks(2, 1))
    assert found is not None
    assert [part.device for part in found.slices] == ["n1-gpu2"]


def test_cards_of_no_zone_serve_with_any() -> None:
    bare = numa_node(SINGLE, (4, 0), (4, 0), cards=2)
    loose = replace(bare, devices=tuple(replace(card, numa=None) for card in bare.devices))
    assert refused(loose, asks(2, 2)) is None


def test_many_zones_are_looked_at_in_runs() -> None:
    zones = [(4, 0)] * 12
    found = seat(numa_node(RESTRICTED, *zones), asks(11))
    assert found is not None
    assert [share.zone for share in found.zones] == [0, 1, 2]
