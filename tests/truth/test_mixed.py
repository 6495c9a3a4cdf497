"""The mixed worlds have all their features, and single cases check the oracle by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduling.engine.model import (
    Device,
    Flavor,
    GpuMode,
    GpuRequest,
    Instant,
    Job,
    JobOutcome,
    Node,
    OutcomeStatus,
    Queue,
    Quota,
    QuotaNode,
    Reason,
    Request,
    Role,
)
from tests.truth.mixed import ZONE
from tests.truth.oracle.cell import Cell
from tests.truth.oracle.verdict import find_faults
from tests.truth.worlds import World, world_of

RESOURCES = ("gpu.cards", "gpu.cores", "gpu.memory", "cpu", "memory")


def features(world: World) -> set[str]:
    """Return the features of a mixed world that other worlds lack."""
    jobs = [job for wave in world.waves for job in wave]
    cards = [card for node in world.nodes for card in node.devices]
    modes = {role.request.gpu.mode for job in jobs for role in job.roles if role.request.gpu is not None}
    found = {
        "cordoned meanwhile": bool(world.cordoned),
        "not ready": any(not node.ready for node in world.nodes),
        "few pods": any(node.pods is not None for node in world.nodes),
        "foreign cards": any(card.exclusive for card in cards),
        "foreign part": any(card.holders and not card.exclusive for card in cards),
        "instances": any(card.mode is GpuMode.MIG for card in cards),
        "asked instances": GpuMode.MIG in modes,
        "clusters": len({flavor.cluster for flavor in world.flavors}) > 1,
        "zones": any(job.topology is not None for job in jobs),
    }
    return {name for name, has in found.items() if has}


def test_every_feature_is_drawn() -> None:
    drawn = [features(world_of(seed, "mixed")) for seed in range(60)]
    every = set().union(*drawn)
    assert {name: sum(name in each for each in drawn) >= 3 for name in every} == dict.fromkeys(every, True)
    assert len(every) == 9


def cell_of(nodes: tuple[Node, ...], flavor: Flavor, *jobs: Job, nominal: int | None = None) -> Cell:
    limits = tuple(
        Quota(flavor=flavor.id, resource=name, own_nominal=nominal if name == "gpu.cores" else None)
        for name in RESOURCES
    )
    return Cell(
        nodes=nodes,
        flavors={flavor.id: flavor},
        quota_nodes={
            "top": QuotaNode(id="top"),
            "a": QuotaNode(id="a", parent="top", quotas=limits),
        },
        queues={"a": Queue(id="a", quota_node="a", flavors=(flavor.id,))},
        jobs={job.id: job for job in jobs},
        held=(),
        now=100.0,
    )


def outcome_with(reason: Reason, **numbers: int | str) -> JobOutcome:
    return JobOutcome(job="j", status=OutcomeStatus.WAITING, reason=reason, numbers=numbers)


def parts(cell: Cell, outcome: JobOutcome) -> Mapping[str, object]:
    return {fault.part: fault.actual for fault in find_faults(cell, outcome)}


def cards(node: str, number: int, **facts: object) -> tuple[Device, ...]:
    names = [f"{node}-{index}" for index in range(number)]
    made = (Device(uuid=uuid, index=at, model="Xa", memory=40_000) for at, uuid in enumerate(names))
    return tuple(replace(card, **facts) for card in made)  # type: ignore[arg-type]


def asking(request: Request, tasks: int = 1) -> Job:
    role = Role(name="worker", replicas=tasks, request=request)
    return Job(id="j", queue="a", roles=(role,), submitted_at=Instant(1.0))


WHOLE = Flavor(id="f", card_model="Xa", card_memory=40_000)


@pytest.mark.parametrize(("tasks", "true"), [(2, "RESERVED_FOR_LARGER"), (3, "NEVER_FITS")])
def test_a_gang_is_placed_in_one_zone_or_nowhere(tasks: int, true: str) -> None:
    nodes = tuple(
        Node(id=f"n{at}", labels={"zone": zone}, devices=cards(f"n{at}", 1)) for at, zone in enumerate("aabb")
    )
    gang = replace(asking(Request(gpu=GpuRequest()), tasks), topology=ZONE)
    assert parts(cell_of(nodes, WHOLE, gang), outcome_with(Reason.NO_ROOM)) == {"reason": true}


def test_a_gang_waits_for_room_in_one_zone() -> None:
    held = {"holders": 1, "used_cores": 100, "used_memory": 40_000, "exclusive": True}
    nodes = (
        Node(id="n0", labels={"zone": "a"}, devices=(*cards("n0", 1), *cards("n0", 1, **held))),
        Node(id="n1", labels={"zone": "b"}, devices=cards("n1", 1)),
    )
    gang = replace(asking(Request(gpu=GpuRequest()), 2), topology=ZONE)
    numbers: dict[str, int | str] = {"flavor": "f", "role": "worker", "asked": 2, "limit": 2}
    cell = cell_of(nodes, WHOLE, gang)
    assert not parts(cell, outcome_with(Reason.NO_ROOM, **numbers, available=1))
    assert parts(cell, outcome_with(Reason.NO_ROOM, **numbers, available=2)) == {"available": 1}


@pytest.mark.parametrize(("free", "true"), [(1, None), (2, 1)])
def test_cards_of_foreign_pods_are_not_free(free: int, true: int | None) -> None:
    held = {"holders": 1, "used_cores": 100, "used_memory": 40_000, "exclusive": True}
    node = Node(id="n0", devices=(*cards("n0", 1), *cards("x0", 1, **held)))
    cell = cell_of((node,), WHOLE, asking(Request(gpu=GpuRequest(cards=2))))
    outcome = outcome_with(
        Reason.NO_ROOM, flavor="f", role="worker", free_cards=free, **{"refused.card-cores": 1}
    )
    found = parts(cell, outcome)
    assert found == ({} if true is None else {"free_cards": true})


@pytest.mark.parametrize(("profile", "true"), [("3g.40gb", "EXCEEDS_MAX_QUOTA"), ("7g.80gb", "NEVER_FITS")])
def test_instances_are_of_a_profile_and_have_its_price(profile: str, true: str) -> None:
    """Three sevenths of a hundred core units are 43."""
    instances = cards("n0", 2, mode=GpuMode.MIG, profile="3g.40gb", cores=43)
    cut = replace(WHOLE, mode=GpuMode.MIG, card_memory=80_000)
    job = asking(Request(gpu=GpuRequest(mode=GpuMode.MIG, profile=profile)))
    cell = cell_of((Node(id="n0", devices=instances),), cut, job, nominal=42)
    assert parts(cell, outcome_with(Reason.NO_ROOM)) == {"reason": true}
    enough = cell_of((Node(id="n0", devices=instances),), cut, job, nominal=43)
    rest = "RESERVED_FOR_LARGER" if true == "EXCEEDS_MAX_QUOTA" else true
    assert parts(enough, outcome_with(Reason.NO_ROOM)) == {"reason": rest}
