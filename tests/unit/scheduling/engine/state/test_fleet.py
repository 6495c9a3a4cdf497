"""A fleet that was updated in place equals one that is built anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.engine import AllocationPut, Delta, NodePut, NodeRemoved, Snapshot
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import (
    Allocation,
    Extended,
    Node,
    PlacementRules,
    Pressure,
    Taint,
)
from scheduling.engine.placement.capacity import count_when_empty, empty_fleet
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.fleet import CardUsages, Fleet, count_marked, sum_rows
from scheduling.engine.state.node_facts import empty_node, select_lasting_facts
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import flavor, node, role, world

RULE = resolve_config(EngineConfig()).rule


def rich(name: str = "n1", **facts: Any) -> Node:
    return node(
        name,
        2,
        **{
            "labels": {"pool": "x"},
            "pods": 10,
            "extended": (Extended("nic", 4),),
            **facts,
        },
    )


def arrays(fleet: Fleet) -> dict[str, Any]:
    found = {name: value.tolist() for name, value in vars(fleet).items() if isinstance(value, np.ndarray)}
    found |= {f"free {name}": value.tolist() for name, value in fleet.extended_free.items()}
    return found


IN_PLACE: list[dict[str, Any]] = [
    {"labels": {"pool": "y"}},
    {"taints": (Taint("gone"),)},
    {"ready": False},
    {"schedulable": False},
    {"pressure": (Pressure.DISK,)},
    {"used_cpu": 7, "used_memory": 8, "used_pods": 9},
    {"used_extended": (Extended("nic", 3),)},
    {"devices": tuple(replace(d, healthy=False, used_cores=10, holders=1) for d in rich().devices)},
    {"devices": tuple(reversed(rich().devices))},
    {"name": "other"},
]
REBUILT: list[dict[str, Any]] = [
    {"cpu": 1},
    {"memory": 1},
    {"rank": 1},
    {"pods": 11},
    {"extended": ()},
    {"used_extended": (Extended("fpga", 1),)},
    {"devices": rich().devices[:1]},
]


@pytest.mark.parametrize(("facts", "in_place"), [(f, True) for f in IN_PLACE] + [(f, False) for f in REBUILT])
def test_what_changes_in_place(facts: dict[str, Any], in_place: bool) -> None:
    fleet, fresh = Fleet([rich("n0"), rich()]), replace(rich(), **facts)
    before = arrays(fleet)
    assert fleet.update_node(fresh) is in_place
    assert arrays(fleet) == (arrays(Fleet([rich("n0"), fresh])) if in_place else before)
    if in_place:
        assert fleet.export_node(1) == Fleet([fresh]).export_node(0)


def test_a_node_that_is_not_there_is_not_put() -> None:
    assert Fleet([rich()]).update_node(rich("n2")) is False


@pytest.mark.parametrize("facts", IN_PLACE)
def test_boards_follow(facts: dict[str, Any]) -> None:
    snapshot = world([rich("n0"), rich()], flavors=[flavor(node_labels={"pool": "x"})])
    pool = snapshot.flavors["a100"]
    tasks = [
        resolve_shape(asked.request, PlacementRules(), pool)
        for asked in (role(), role(1, 2, cpu=4_000), role(1, 1, cores=95), role(1, 0, cpu=31_997))
    ]
    warm = placer_for(snapshot.fleet, RULE)
    for task in tasks:
        warm.get_board(task, pool)
        count_when_empty(snapshot.fleet, RULE, task, pool)
    snapshot.apply_delta(Delta((NodePut(replace(rich(), **facts)),)))
    cold = Snapshot.from_json(snapshot.to_json())
    assert placer_for(snapshot.fleet, RULE) is warm
    for task in tasks:
        known, fresh = warm.get_board(task, pool), Placer(cold.fleet, RULE).get_board(task, pool)
        assert known.count_refusals() == fresh.count_refusals()
        assert known.free_cards() == fresh.free_cards()
        assert known.feasible_rows().tolist() == fresh.feasible_rows().tolist()
        assert known.find_best_row() == fresh.find_best_row()
        most = count_when_empty(snapshot.fleet, RULE, task, pool)
        assert most == count_when_empty(cold.fleet, RULE, task, pool)


def test_the_empty_fleet_follows_what_lasts() -> None:
    fleet = Fleet([rich()])
    empty = empty_fleet(fleet)
    assert fleet.update_node(rich(used_cpu=5))
    assert empty.revised_rows == []
    assert fleet.update_node(rich(labels={"pool": "y"}, ready=False))
    assert empty_fleet(fleet) is empty
    assert empty.nodes[0].labels == {"pool": "y"}
    assert empty.ready.all()


def test_the_empty_fleet_is_as_built_from_empty_nodes() -> None:
    busy = rich(ready=False, schedulable=False, used_cpu=9_000, used_pods=3)
    busy = replace(busy, used_extended=(Extended("nic", 2),), pressure=(Pressure.DISK,))
    used = replace(busy.devices[0], used_cores=40, used_memory=1_000, holders=2, healthy=False)
    busy = replace(busy, devices=(used, replace(busy.devices[1], holders=1, exclusive=True)))
    empty, built = Fleet([busy]).copy_empty(), Fleet([empty_node(busy)])
    assert arrays(empty) == arrays(built)
    assert select_lasting_facts(empty.nodes[0]) == select_lasting_facts(
        replace(built.nodes[0], devices=busy.devices)
    )
    assert empty.hypothetical and not empty.memo


def test_a_batch_builds_one_fleet_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = world([rich(f"n{number}") for number in range(4)])
    built = []
    monkeypatch.setattr(
        "scheduling.engine.state.snapshot.Fleet", lambda nodes: built.append(1) or Fleet(nodes)
    )
    snapshot.apply_delta(Delta(tuple(NodePut(rich(f"n{number}", used_cpu=1)) for number in range(4))))
    assert built == []
    held = Allocation(job="j", queue="a", role="w", index=0, flavor="a100", node="n9", cpu=5)
    snapshot.apply_delta(
        Delta(
            (
                NodePut(rich("n8")),
                NodePut(rich("n9")),
                NodeRemoved("n0"),
                NodePut(rich("n8", rank=3)),
                AllocationPut(held),
            )
        )
    )
    assert built == [1]
    assert sorted(snapshot.fleet.row) == ["n1", "n2", "n3", "n8", "n9"]
    assert snapshot.export_nodes()[-1].used_cpu == 5


def test_an_allocation_holds_and_frees_everything() -> None:
    snapshot = world([rich()])
    before = snapshot.to_json()
    held = Allocation(
        job="j", queue="a", role="w", index=0, flavor="a100", node="n1", cpu=1_000, memory=2,
        extended=(Extended("nic", 3), Extended("unknown", 1)),
    )  # fmt: skip
    with snapshot.statement() as statement:
        statement.allocate(held)
        now = snapshot.export_nodes()[0]
        assert (now.used_cpu, now.used_memory, now.used_pods) == (1_000, 2, 1)
        assert now.used_extended == (Extended("nic", 3),)
        cold = Snapshot.from_json(snapshot.to_json())
        assert cold.to_json() == snapshot.to_json()
    assert snapshot.to_json() == before


def test_a_copy_changes_independently() -> None:
    fleet = Fleet([node("n1")])
    cards: CardUsages = ((0, 100, 40_960, True), (1, 50, 20_480, False))
    fleet.change_usage(0, 4_000, 1_024, cards)
    before = fleet.export_node(0)
    twin = fleet.copy()
    twin.change_usage(0, 4_000, 1_024, cards, sign=-1)
    assert fleet.export_node(0) == before
    assert twin.export_node(0) == Fleet([node("n1")]).export_node(0)
    fleet.change_usage(0, 4_000, 1_024, cards, sign=-1)
    twin.change_usage(0, 4_000, 1_024, cards)
    assert twin.export_node(0) == before


@pytest.mark.parametrize("twin", [Fleet.copy, Fleet.copy_empty])
def test_what_a_twin_holds_is_its_own(twin: Callable[[Fleet], Fleet]) -> None:
    fleet = Fleet([node("n1", 2)])
    other = twin(fleet)
    other.change_usage(0, 1_000, 10, ((1, 30, 5, False),))
    for part in (fleet, other):
        held = int(part is other)
        assert part.cpu_free[0] == part.cpu[0] - 1_000 * held
        assert part.memory_free[0] == part.memory[0] - 10 * held
        assert part.cores_free[0, 1] == part.card_cores[0, 1] - 30 * held
        assert part.holders[0].tolist() == [0, held]
        assert part.used_pods[0] == held


@pytest.mark.parametrize("width", [0, 1, 8, 300])
def test_rows_are_summed_exactly(width: int) -> None:
    amounts = np.random.default_rng(width).integers(0, 1 << 50, (20, width))
    assert sum_rows(amounts).tolist() == amounts.sum(axis=1).tolist()
    assert count_marked(amounts % 3 > 0).tolist() == (amounts % 3 > 0).sum(axis=1).tolist()
    assert count_marked(np.ones((2, width), np.bool_)).tolist() == [width, width]
