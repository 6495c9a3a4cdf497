"""Scores, their order, and boards that follow every change of the fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import ConfigError, EngineConfig, PlacementStream
from scheduling.engine.model import Node, PlacementRules, Role
from scheduling.engine.placement.filters.vetoes import VETOES
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import is_relevant
from scheduling.engine.placement.placer import PlacementRule, Placer
from scheduling.engine.placement.scores.devices import BestFitDevices
from scheduling.engine.placement.scores.packing_scores import CompactScore, SpreadScore, normalise_scores
from scheduling.engine.state import fleet as fleet_module
from scheduling.engine.state.fleet import ALL_ROWS, Fleet
from scheduling.engine.state.task_shape import resolve_shape
from scheduling.simulation.published.scores import BestFit, DotProduct, Packing
from tests.unit.scheduling.engine.builders import CARD_MIB, flavor, node, role

POLICIES = (
    ("compact", ((CompactScore(), 1),)),
    ("spread", ((SpreadScore(), 1),)),
    ("bestfit", ((BestFit(), 1),)),
    ("packing", ((Packing(), 1),)),
    ("dotprod", ((DotProduct(), 1),)),
    ("mixed", ((BestFit(), 2), (SpreadScore(), 1))),
)
RULE = PlacementRule(VETOES, POLICIES, BestFitDevices())


def chosen(policy: str, nodes: list[Node], asked: Role) -> str | None:
    pool = flavor(policy=policy)
    seat = Placer(Fleet(nodes), RULE).find_placement(
        resolve_shape(asked.request, PlacementRules(), pool), pool
    )
    return seat.node if seat else None


def used(cores: int) -> dict[str, int]:
    return {"used_cores": cores, "holders": int(cores > 0), "used_memory": 0}


@pytest.mark.parametrize(
    ("policy", "expected"), [("compact", "half"), ("spread", "empty"), ("bestfit", "half")]
)
def test_policies_prefer_full_or_empty_nodes(policy: str, expected: str) -> None:
    nodes = [node("empty"), node("half", device=used(50)), node("full", device=used(100))]
    assert chosen(policy, nodes, role(1, 1, cores=20, card_memory=0)) == expected


def test_a_task_without_cards_keeps_away_from_cards() -> None:
    assert chosen("compact", [node("gpu"), node("cpu", 0)], role(1, 0, cpu=1_000)) == "cpu"


def test_equal_scores_go_by_rank_then_id() -> None:
    assert chosen("compact", [node("b"), node("a")], role()) == "a"
    assert chosen("compact", [node("b", rank=1), node("a", rank=2)], role()) == "b"


def test_best_fit_cuts_to_whole_numbers() -> None:
    # 0.5·(64000−1000)/64000 + 0.5·300/400 leaves 13.28…, which counts as 13 and ties.
    nodes = [node("a", used_cpu=100), node("b", used_cpu=200)]
    assert chosen("bestfit", nodes, role(1, 1, cpu=1_000)) == "a"
    assert chosen("bestfit", [node("a"), node("b", used_cpu=9_000)], role(1, 1, cpu=1_000)) == "b"


PART = {"cores": 20, "card_memory": 0}


@pytest.mark.parametrize(
    ("cards", "asked", "expected"),
    [
        # A card in use: 100 less a tenth of its free percentage. Free cards: max(50 − k, 33).
        ([(0, 50), (0, 30)], {"tasks": 1, "cards": 1, **PART}, [100 - 5, 100 - 7]),
        ([(0, 0, 50), (0, 0, 90)], {"tasks": 1, "cards": 1, **PART}, [95, 50 - 1]),
        ([(0, 0, 1), (0, 0)], {"tasks": 1, "cards": 1}, [49, 33 - 2]),
        ([(0, 0, 1), (0, 0)], {"tasks": 1, "cards": 2}, [48, 31]),
        ([(0, 0, 1), (0, 0)], {"tasks": 1, "cards": 0, "cpu": 1}, [0, 0]),
    ],
)
def test_packing_bands(cards: list[tuple[int, ...]], asked: dict[str, Any], expected: list[int]) -> None:
    nodes = []
    for index, fill in enumerate(cards):
        bare = node(f"n{index}", len(fill))
        devices = [replace(d, **used(cores)) for d, cores in zip(bare.devices, fill, strict=True)]
        nodes.append(replace(bare, devices=tuple(devices)))
    pool = flavor(policy="packing")
    task = resolve_shape(
        role(asked.pop("tasks"), asked.pop("cards"), **asked).request, PlacementRules(), pool
    )
    question = Question(Fleet(nodes), task, pool)
    assert Packing().score(question, slice(None)).tolist() == expected


def test_dot_product_prefers_what_is_free_elsewhere() -> None:
    nodes = [node("cpu-rich", 4, device=used(50)), node("card-rich", 4, used_cpu=32_000)]
    assert chosen("dotprod", nodes, role(1, 0, cpu=32_000)) == "card-rich"
    assert chosen("dotprod", nodes, role(1, 1, cores=50, card_memory=0)) == "cpu-rich"


def test_normalising_spreads_feasible_scores_over_the_scale() -> None:
    scores = np.array([10.0, 30.0, 20.0, 90.0])
    assert normalise_scores(scores, np.array([True, True, True, False])).tolist()[:3] == [0, 100, 50]
    assert normalise_scores(scores, np.array([True, False, False, False])).tolist() == [0, 0, 0, 0]


def test_weighted_scores_add_up() -> None:
    nodes = [node("empty"), node("half", device=used(50))]
    assert chosen("mixed", nodes, role(1, 1, cores=20, card_memory=0)) == "half"


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ConfigError, match="'tetris'"):
        chosen("tetris", [node("n1")], role())


changes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 40)), max_size=12)


@given(changes, st.sampled_from([name for name, _ in POLICIES]), st.integers(2, 20))
@settings(max_examples=60, deadline=None)
def test_a_board_that_followed_changes_equals_a_new_one(
    steps: list[tuple[int, int, int]], policy: str, kept: int
) -> None:
    fleet = Fleet(node(f"n{index}") for index in range(6))
    pool = flavor(policy=policy)
    shapes = [
        resolve_shape(asked.request, PlacementRules(), pool)
        for asked in (role(cpu=9_000), role(1, 2), role(1, 1, cores=30), role(1, 0, cpu=1_000))
    ]
    warm = Placer(fleet, RULE)
    limit, fleet_module.MAX_LOGGED_CHANGES = fleet_module.MAX_LOGGED_CHANGES, kept
    try:
        for step, (row, column, amount) in enumerate(steps):
            fleet.change_usage(row, amount * 1_000, 0, ((column, amount, 0, False),))
            # Each shape is asked now and then, so that several rows change in between.
            for shape in shapes[step % 4 : step % 4 + 1]:
                fresh = Placer(fleet, RULE)
                assert warm.find_placement(shape, pool) == fresh.find_placement(shape, pool)
                same = (
                    warm.get_board(shape, pool).feasible_rows()
                    == fresh.get_board(shape, pool).feasible_rows()
                )
                assert same.all()
    finally:
        fleet_module.MAX_LOGGED_CHANGES = limit


held_on_cards = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 3), st.integers(0, 100), st.integers(0, CARD_MIB), st.booleans()
    )
)


@given(held_on_cards, st.integers(1, 100), st.integers(0, CARD_MIB), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_a_veto_that_covers_another_passes_no_node_that_the_other_refuses(
    held: list[tuple[int, int, int, int, bool]], cores: int, memory: int, cards: int
) -> None:
    fleet, pool = Fleet(node(f"n{index}") for index in range(3)), flavor()
    for row, column, taken, space, alone in held:
        fleet.change_usage(row, 0, 0, ((column, taken, space, alone),))
    asked = role(1, cards, cores=cores, card_memory=memory)
    question = Question(fleet, resolve_shape(asked.request, PlacementRules(), pool), pool)
    by_name = {veto.name: veto for veto in VETOES}
    covering = [veto for veto in VETOES if hasattr(veto, "covers")]
    assert covering
    for veto in covering:
        covered = by_name[veto.covers].allows(question, ALL_ROWS)
        if not is_relevant(veto, question):
            continue
        assert not (veto.allows(question, ALL_ROWS) & ~covered).any()
    board = Placer(fleet, RULE).get_board(question.task, pool)
    everyone = np.ones(len(fleet), np.bool_)
    for veto in board.vetoes:
        everyone &= veto.allows(question, ALL_ROWS)
    assert board.feasible_rows().tolist() == everyone.tolist()


class TestDevices:
    def stream(self, *nodes: Node) -> PlacementStream:
        return PlacementStream(nodes, flavor(), EngineConfig())

    def test_slices_fill_the_fullest_card_that_fits(self) -> None:
        stream = self.stream(node("n1", 2))
        picks = []
        for cores in (60, 50, 40, 50):
            seat = stream.place_task(role(1, 1, cores=cores).request)
            assert seat is not None
            picks.append([part.device for part in seat.slices])
        assert picks == [["n1-gpu0"], ["n1-gpu1"], ["n1-gpu0"], ["n1-gpu1"]]
        assert stream.place_task(role(1, 1, cores=1).request) is None

    def test_equal_cores_left_are_distinguished_by_memory(self) -> None:
        half = node("n1", 2, device={"used_cores": 50, "holders": 1})
        fuller = replace(half.devices[1], used_memory=9_000)
        seat = self.stream(replace(half, devices=(half.devices[0], fuller))).place_task(
            role(1, 1, cores=10, card_memory=1).request
        )
        assert seat is not None
        assert [part.device for part in seat.slices] == ["n1-gpu1"]

    def test_two_slices_of_one_task_never_share_a_card(self) -> None:
        stream = self.stream(node("n1", 2))
        seat = stream.place_task(role(1, 2, cores=40).request)
        assert seat is not None
        assert [part.device for part in seat.slices] == ["n1-gpu0", "n1-gpu1"]
        assert stream.place_task(role(1, 3, cores=10).request) is None

    def test_a_whole_card_must_be_empty_and_is_taken_as_it_is(self) -> None:
        stream = self.stream(node("n1", 2, device={"memory": CARD_MIB + 7}))
        assert stream.place_task(role(1, 1, cores=1).request) is not None
        seat = stream.place_task(role().request)
        assert seat is not None
        assert [(p.device, p.cores, p.memory, p.exclusive) for p in seat.slices] == [
            ("n1-gpu1", 100, CARD_MIB + 7, True)
        ]
        assert stream.place_task(role().request) is None

    def test_all_cores_of_a_card_are_a_whole_card(self) -> None:
        stream = self.stream(node("n1", 1))
        seat = stream.place_task(role(1, 1, cores=100, card_memory=1).request)
        assert seat is not None
        assert seat.slices[0].exclusive
        assert seat.slices[0].memory == CARD_MIB

    def test_percent_of_memory_rounds_up(self) -> None:
        pool = flavor(card_memory=1001)
        assert resolve_shape(role(1, 1, cores=10).request, PlacementRules(), pool).card_memory == 101
