"""The platform's packing policy on a handful of tasks, each showing one term of the score."""

from __future__ import annotations

from scheduling.engine import EngineConfig, PlacementStream, TaskWorkload, WorkloadShape
from scheduling.engine.model import Device, Flavor, GpuMode, GpuRequest, Node, Request
from tests.unit.scheduling.engine import builders

CARD = 1000
POOL = Flavor(id="pool", card_cores=CARD, mode=GpuMode.SLICE, policy="default")


def node(name: str, cards: int = 1, cpu: int = 64_000, model: str = "a") -> Node:
    devices = tuple(
        Device(uuid=f"{name}/{at}", index=at, model=model, mode=GpuMode.SLICE, cores=CARD)
        for at in range(cards)
    )
    return Node(id=name, cpu=cpu, memory=1 << 20, devices=devices)


def sliced(cores: int, cpu: int = 1_000) -> Request:
    return Request(cpu=cpu, gpu=GpuRequest(cards=1, mode=GpuMode.SLICE, cores=cores, memory=0))


def whole(cards: int, cpu: int = 1_000) -> Request:
    return Request(cpu=cpu, gpu=GpuRequest(cards=cards))


def stream(*nodes: Node, usual: dict[WorkloadShape, int] | None = None) -> PlacementStream:
    return PlacementStream(nodes, POOL, EngineConfig(), TaskWorkload(tuple((usual or {}).items())))


def place(on: PlacementStream, request: Request) -> str | None:
    seat = on.place_task(request)
    return None if seat is None else seat.node


def test_a_gap_that_usual_work_fills_is_kept_for_it() -> None:
    """The 400 beside a 600 is for a 400; a 300 goes beside the 700."""
    usual = {WorkloadShape(1_000, 600, 1): 5, WorkloadShape(1_000, 400, 1): 5}
    on = stream(node("n0"), node("n1"), usual=usual)
    assert place(on, sliced(600)) == "n0"
    assert place(on, sliced(700)) == "n1"
    assert place(on, sliced(300)) == "n1"
    assert place(on, sliced(400)) == "n0"


def test_waste_is_measured_by_the_usual_requests() -> None:
    """500 is left on one card and 600 on the other. A task of 200 goes where it leaves a usual size."""
    for usual, chosen in ((300, "n0"), (400, "n1")):
        on = stream(node("n0"), node("n1"), usual={WorkloadShape(1_000, usual, 1): 9})
        hold_both(on)
        assert place(on, sliced(200)) == chosen


def hold_both(on: PlacementStream) -> None:
    """Leave 500 on the first node and 600 on the second, whatever the policy would like."""
    for row, cores in ((0, 500), (1, 400)):
        on.fleet.change_usage(row, 1_000, 0, ((0, cores, 0, False),))


def test_scarce_models_are_kept_for_those_bound_to_them() -> None:
    usual = {WorkloadShape(1_000, CARD, 1): 8, WorkloadShape(1_000, CARD, 1, "b"): 4}
    on = stream(node("n0", model="b"), node("n1", model="a"), usual=usual)
    assert place(on, whole(1)) == "n1"
    assert place(stream(node("n0", model="b"), node("n1", model="a")), whole(1)) == "n0"


def test_the_last_groups_are_not_broken_for_a_slice() -> None:
    """Tasks of four cards are usual. One node has four cards left, the other two: a whole card goes there."""
    usual = {WorkloadShape(1_000, CARD, 4): 5, WorkloadShape(1_000, CARD, 1): 5}
    on = stream(node("n0", 4), node("n1", 4), usual=usual)
    assert [place(on, whole(2)), place(on, whole(1))] == ["n0", "n0"]
    assert place(on, whole(4)) == "n1"


def test_the_only_large_node_is_kept_for_jobs_that_need_it() -> None:
    """All eight-card tasks need 120 cores, which one node has; both nodes hold the usual small ones."""
    usual = {WorkloadShape(120_000, CARD, 8): 6, WorkloadShape(1_000, CARD, 1): 6}
    on = stream(node("n0", 8, 128_000), node("n1", 8, 96_000), usual=usual)
    assert place(on, whole(1)) == "n1"
    assert place(on, whole(8, 120_000)) == "n0"


def test_tasks_without_cards_do_not_starve_cards() -> None:
    """The node with a free card keeps its CPU for it."""
    usual = {WorkloadShape(8_000, CARD, 1): 5, WorkloadShape(8_000, 0, 0): 5}
    on = stream(node("n0", 2, 16_000), node("n1", 2, 16_000), usual=usual)
    assert place(on, whole(1, 8_000)) == "n0"
    assert place(on, whole(1, 4_000)) == "n0"
    assert place(on, Request(cpu=4_000)) == "n0"


def test_without_any_work_seen_it_still_packs() -> None:
    on = stream(node("n0", 2), node("n1", 2))
    assert [place(on, whole(1)) for _ in range(5)] == ["n0", "n0", "n1", "n1", None]


def test_a_cycle_uses_it_and_repeats_itself() -> None:
    """The jobs of the snapshot are the usual work: the bound ones keep their model to themselves."""

    def placed() -> dict[str, str]:
        cards = [builders.role(1, 1), builders.role(1, 1, models=("L40",))]
        jobs = [builders.job(f"j{at}", "a", cards[at % 2], at=at) for at in range(6)]
        nodes = [builders.node("n0", 3, model="L40"), builders.node("n1", 3)]
        snapshot = builders.world(nodes, jobs, flavors=[builders.flavor(policy="default")])
        decisions = builders.cycle(snapshot).decisions
        return {decision.job: decision.allocations[0].node for decision in decisions}

    assert placed() == {f"j{at}": "n0" if at % 2 else "n1" for at in range(6)}
    assert placed() == placed()
