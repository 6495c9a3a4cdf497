"""Pressure on card models, and the risk that groups of cards run out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scheduling.engine.model import Device, GpuMode, Node, TaskWorkload, WorkloadShape
from scheduling.engine.placement.fragmentation.scarcity import (
    GroupRisk,
    group_risks,
    group_steps,
    group_worth,
    model_pressure,
    shortage_probability,
)
from scheduling.engine.state.fleet import Fleet


def work(*counts: tuple[WorkloadShape, int]) -> TaskWorkload:
    return TaskWorkload(counts)


def node(name: str, cards: int, cpu: int, model: str = "a") -> Node:
    devices = tuple(
        Device(uuid=f"{name}/{at}", index=at, model=model, mode=GpuMode.SLICE, cores=100)
        for at in range(cards)
    )
    return Node(id=name, cpu=cpu, memory=1 << 20, devices=devices)


def test_only_bound_demand_presses() -> None:
    workload = work((WorkloadShape(1, 100, 1), 3), (WorkloadShape(1, 100, 1, "b"), 1))
    assert model_pressure(workload, {"a": 600, "b": 200}) == {"a": 0.0, "b": 1.0}


def test_demand_that_may_choose_takes_the_least_pressed() -> None:
    """Of a demand of 1200, 200 need a, 400 need a or b, 600 need no model. Distributed: a has a pressure of
    200/400, then a and b share (200 + 400)/800."""
    workload = work(
        (WorkloadShape(1, 100, 1, "a"), 2),
        (WorkloadShape(1, 100, 1, "a|b"), 4),
        (WorkloadShape(1, 100, 1), 6),
    )
    levels = model_pressure(workload, {"a": 400, "b": 400, "c": 400})
    assert levels == pytest.approx({"a": 0.75, "b": 0.75, "c": 0})


def test_pressure_is_capped_and_ignores_unknown_models() -> None:
    workload = work((WorkloadShape(1, 100, 1, "b"), 9), (WorkloadShape(1, 100, 1, "gone"), 1))
    assert model_pressure(workload, {"a": 900, "b": 100}) == {"a": 0.0, "b": 1.5}
    assert model_pressure(TaskWorkload(), {"a": 1}) == {"a": 0.0}


def test_shortfall_is_a_probability() -> None:
    assert shortage_probability(0, 0) == 0
    assert shortage_probability(10, 0) > 0.99
    assert shortage_probability(10, 30) < 0.001
    assert shortage_probability(10, 10) == pytest.approx(math.erfc(-0.5 / math.sqrt(20.5)) / 2)


def test_groups_are_at_risk_when_expected_work_needs_them() -> None:
    """Half of the cores are requested by tasks of two cards with 8 CPU; one node of ten has that much."""
    workload = work((WorkloadShape(1, 100, 1), 4), (WorkloadShape(8, 100, 2), 2))
    scarce = Fleet([node("big", 2, 8), *(node(f"n{at}", 2, 2) for at in range(9))])
    ample = Fleet([node(f"n{at}", 2, 80) for at in range(10)])
    assert group_risks(workload, scarce) == (GroupRisk(2, 8, frozenset(), 1.0),)
    assert [risk.risk for risk in group_risks(workload, ample)] in ([], [0.25])


def test_demand_of_harder_kinds_counts_for_easier_ones() -> None:
    """Tasks of four cards use groups of two as well, two at a time."""
    easy, hard = WorkloadShape(1, 100, 2), WorkloadShape(1, 100, 4)
    fleet = Fleet([node(f"n{at}", 4, 80) for at in range(4)])
    alone = group_risks(work((easy, 1), (WorkloadShape(1, 100, 1), 30)), fleet)
    beside = group_risks(work((hard, 30), (easy, 1)), fleet)
    assert alone == ()
    assert {risk.cards for risk in beside} == {2, 4}


def test_worth_of_groups_by_model_empty_cards_and_cpu() -> None:
    risks = (GroupRisk(2, 10, frozenset({"b"}), 0.5),)
    cpu = np.array([0, 10, 20])
    assert group_steps(risks, 4).tolist() == [10, 20]
    worth = group_worth(risks, ("a", "b"), 4, cpu)
    assert not worth[0].any()
    assert not worth[2].any(), "a node without cards holds no groups"
    assert worth[1].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 2]]
