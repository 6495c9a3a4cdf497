"""Instances by profile, slices by memory alone, named resources, numbers of tasks, pressure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import PlacementStream
from scheduling.engine.model import (
    Charge,
    Device,
    Extended,
    Flavor,
    GpuMode,
    GpuRequest,
    Node,
    PlacementRules,
    Pressure,
    QosClass,
    Request,
    parse_profile,
)
from scheduling.engine.placement.explain import count_refused_nodes
from scheduling.engine.placement.placer import Placer
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.charges import compute_task_charges
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import flavor, node
from tests.unit.scheduling.engine.placement.test_vetoes import RULE

MIG = {"mode": GpuMode.MIG, "card_memory": 40_960}


def refused(
    candidate: Node, request: Request, rules: PlacementRules | None = None, pool: Flavor | None = None
) -> str | None:
    """The first code under which a node refuses; checked against the placer's own answer."""
    pool = pool or flavor()
    placer = Placer(Fleet([candidate]), RULE)
    task = resolve_shape(request, rules or PlacementRules(), pool)
    codes = [code.removeprefix("refused.") for code in count_refused_nodes(placer.get_board(task, pool))]
    assert (placer.find_placement(task, pool) is None) == bool(codes)
    return codes[0] if codes else None


def instances(*profiles: str, **facts: Any) -> Node:
    """A node whose one card is cut into instances."""
    parts = [
        Device(
            uuid=f"mig-{number}",
            index=number,
            model="A100",
            mode=GpuMode.MIG,
            profile=profile,
            cores=-(-100 * parse_profile(profile).parts // 7),
            memory=parse_profile(profile).gigabytes * 1024,
        )
        for number, profile in enumerate(profiles)
    ]
    return replace(node("n1", 0), devices=tuple(parts), **facts)


def asks(profile: str, cards: int = 1) -> Request:
    return Request(gpu=GpuRequest(cards=cards, mode=GpuMode.MIG, profile=profile))


@pytest.mark.parametrize(
    ("there", "asked", "cards", "code"),
    [
        (("1g.5gb", "2g.10gb"), "1g.5gb", 1, None),
        (("1g.5gb", "2g.10gb"), "1g.10gb", 1, "mig-profile"),
        (("1g.5gb", "1g.5gb"), "1g.5gb", 2, None),
        (("1g.5gb", "2g.10gb"), "1g.5gb", 2, "mig-profile"),
        (("1g.5gb+me",), "1g.5gb", 1, "mig-profile"),
        ((), "1g.5gb", 1, "cards"),
    ],
)
def test_an_instance_is_asked_for_by_its_profile(
    there: tuple[str, ...], asked: str, cards: int, code: str | None
) -> None:
    assert refused(instances(*there), asks(asked, cards), pool=flavor(**MIG)) == code


def test_cards_and_instances_are_not_taken_for_each_other() -> None:
    whole, part = Request(gpu=GpuRequest()), Request(gpu=GpuRequest(mode=GpuMode.SLICE, cores=5, memory=1))
    cut = instances("7g.40gb")
    assert {refused(cut, request, pool=flavor(**MIG)) for request in (whole, part)} == {"gpu-mode"}
    assert refused(node("n1"), asks("7g.40gb"), pool=flavor(**MIG)) == "gpu-mode"
    assert refused(cut, asks("7g.40gb")) == "gpu-mode"  # the flavor allocates slices


def test_an_instance_is_taken_whole_and_only_once() -> None:
    stream = PlacementStream([instances("1g.5gb", "2g.10gb")], flavor(**MIG), EngineConfig())
    seat = stream.place_task(asks("2g.10gb"))
    assert seat is not None
    assert [(part.device, part.cores, part.memory, part.exclusive) for part in seat.slices] == [
        ("mig-1", 29, 10_240, True)
    ]
    assert stream.place_task(asks("2g.10gb")) is None


@pytest.mark.parametrize(
    ("profile", "facts", "cores", "memory"),
    [
        ("1g.5gb", {}, 15, 5_120),
        ("2g.10gb", {}, 29, 10_240),
        ("7g.40gb", {}, 100, 40_960),
        ("7g.40gb", {"card_memory": 40_536}, 100, 40_536),
        ("1c.3g.20gb", {}, 15, 20_480),
        ("1g.10gb.me", {}, 15, 10_240),
        ("1g.6gb", {"mig_slices": 4}, 25, 6_144),
        ("1g.5gb", {"card_cores": 1_000}, 143, 5_120),
    ],
)
def test_an_instance_charges_its_part_of_the_card(
    profile: str, facts: dict[str, Any], cores: int, memory: int
) -> None:
    pool = flavor("mig", **{**MIG, **facts})
    charges = compute_task_charges(resolve_shape(asks(profile, cards=2), PlacementRules(), pool))
    assert charges == (
        Charge("mig", "gpu.cards", 2),
        Charge("mig", "gpu.cores", 2 * cores),
        Charge("mig", "gpu.memory", 2 * memory),
    )


@pytest.mark.parametrize(
    "facts",
    [
        {"mode": GpuMode.MIG},
        {"mode": GpuMode.WHOLE, "profile": "1g.5gb"},
        {"mode": GpuMode.MIG, "profile": "half"},
        {"mode": GpuMode.MIG, "profile": "1g.5gb", "cores": 10},
        {"mode": GpuMode.SLICE, "memory": 0},
        {"mode": GpuMode.SLICE, "cores": 0, "memory": 5},
    ],
)
def test_contradictory_requests_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"profile|core|memory"):
        GpuRequest(**facts)


class TestSlicesByMemory:
    """A slice that names its memory alone gets the share of cores that goes with it."""

    def asks(self, memory: int | None = None, percent: int | None = None, cards: int = 1) -> Request:
        gpu = GpuRequest(cards=cards, mode=GpuMode.SLICE, memory=memory, memory_percent=percent)
        return Request(gpu=gpu)

    @pytest.mark.parametrize(
        ("card", "memory", "cores"),
        [(100, 50, 50), (800, 720, 90), (90, 30, 33), (1_000, 1, 1), (100, 100, 100)],
    )
    def test_the_share_is_that_of_the_card_it_lands_on(self, card: int, memory: int, cores: int) -> None:
        stream = PlacementStream(
            [node("n1", 1, device={"memory": card})], flavor(card_memory=card), EngineConfig()
        )
        seat = stream.place_task(self.asks(memory))
        assert seat is not None
        assert [(part.cores, part.memory, part.exclusive) for part in seat.slices] == [(cores, memory, False)]

    def test_another_card_gives_another_share_for_the_same_charge(self) -> None:
        pool = flavor(card_memory=100)
        stream = PlacementStream([node("n1", 1, device={"memory": 400})], pool, EngineConfig())
        seat = stream.place_task(self.asks(100))
        assert seat is not None
        assert seat.slices[0].cores == 25
        task = resolve_shape(self.asks(100), PlacementRules(), pool)
        assert (task.cores, task.card_memory, task.whole) == (100, 100, False)

    def test_memory_alone_decides_how_many_share_a_card(self) -> None:
        stream = PlacementStream(
            [node("n1", 1, device={"memory": 90})], flavor(card_memory=90), EngineConfig()
        )
        assert [stream.place_task(self.asks(30)) is not None for _ in range(4)] == [True, True, True, False]

    def test_more_than_the_card_has_fits_nowhere(self) -> None:
        small = node("n1", 1, device={"memory": 50})
        assert refused(small, self.asks(60), pool=flavor(card_memory=100)) == "card-cores"

    def test_percent_gives_as_much_of_both(self) -> None:
        task = resolve_shape(self.asks(percent=50), PlacementRules(), flavor(card_memory=101))
        assert (task.cores, task.card_memory, task.derived) == (50, 51, False)

    def test_several_parts_are_of_different_cards(self) -> None:
        assert refused(node("n1", 1), self.asks(1_000, cards=2)) == "cards"
        assert refused(node("n1", 2), self.asks(1_000, cards=2)) is None


RDMA = (Extended("rdma/hca", 4),)


@pytest.mark.parametrize(
    ("facts", "asked", "code"),
    [
        ({"extended": RDMA}, (Extended("rdma/hca", 4),), None),
        ({"extended": RDMA}, (Extended("rdma/hca", 5),), "extended"),
        (
            {"extended": RDMA, "used_extended": (Extended("rdma/hca", 1),)},
            (Extended("rdma/hca", 4),),
            "extended",
        ),
        ({"extended": RDMA, "used_extended": (Extended("rdma/hca", 9),)}, (Extended("rdma/hca", 0),), None),
        ({"extended": RDMA}, (Extended("rdma/hca", 2), Extended("rdma/hca", 3)), "extended"),
        ({}, (Extended("fpga", 1),), "extended"),
        ({}, (), None),
    ],
)
def test_named_resources(facts: dict[str, Any], asked: tuple[Extended, ...], code: str | None) -> None:
    assert refused(node("n1", **facts), Request(cpu=1, extended=asked)) == code


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({}, None),
        ({"used_pods": 500}, None),
        ({"pods": 2, "used_pods": 1}, None),
        ({"pods": 2, "used_pods": 2}, "pods"),
        ({"pods": 0}, "pods"),
    ],
)
def test_number_of_tasks(facts: dict[str, Any], code: str | None) -> None:
    assert refused(node("n1", **facts), Request()) == code


@pytest.mark.parametrize(
    ("pressure", "qos", "code"),
    [
        ((), QosClass.BEST_EFFORT, None),
        ((Pressure.DISK,), QosClass.GUARANTEED, "node-pressure"),
        ((Pressure.PID,), QosClass.BURSTABLE, "node-pressure"),
        ((Pressure.MEMORY,), QosClass.BURSTABLE, None),
        ((Pressure.MEMORY,), QosClass.BEST_EFFORT, "node-pressure"),
    ],
)
def test_pressure(pressure: tuple[Pressure, ...], qos: QosClass, code: str | None) -> None:
    assert refused(node("n1", pressure=pressure), Request(qos=qos)) == code


def test_what_a_stream_places_is_held() -> None:
    stream = PlacementStream([node("n1", extended=RDMA, pods=3)], flavor(), EngineConfig())
    three = Request(extended=(Extended("rdma/hca", 3),))
    arrivals = (three, three, Request(), Request(), Request())
    placed = [stream.place_task(asked) is not None for asked in arrivals]
    assert placed == [True, False, True, True, False]
