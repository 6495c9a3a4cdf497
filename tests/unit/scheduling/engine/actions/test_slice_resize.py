"""Memory of slices by measured use: lenders, its return, and the evictions for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import AllocationPut, AllocationRemoved, Delta, Snapshot
from scheduling.engine.model import Instant, Job, Quota
from tests.unit.scheduling.engine.actions.worlds import act, decided, live, running_world
from tests.unit.scheduling.engine.builders import job, node, role

LENT_AT = Instant(1000)
GIB = 1024
CARD = 40 * GIB


def memory_quota(gib: int | None) -> tuple[Quota, ...]:
    """Quota of GPU memory; everything else unlimited."""
    rest = (Resource.CPU, Resource.MEMORY, Resource.GPU_CARDS, Resource.GPU_CORES)
    limits = [(resource, None) for resource in rest]
    amounts = [*limits, (Resource.GPU_MEMORY, None if gib is None else gib * GIB)]
    return tuple(Quota(flavor="a100", resource=name, own_nominal=amount) for name, amount in amounts)


def sliced(name: str, gib: int, queue: str = "a", at: float = 0, **facts: Any) -> Job:
    made = job(name, queue, role(1, 1, cores=20, card_memory=gib * GIB))
    return live(made, admitted_at=Instant(at), running_since=Instant(at), **facts)


def world_of(*jobs: Job, cards: int = 1, wants: int | None = None, **teams: int) -> Snapshot:
    """Jobs on one node; the first of them has lent memory and wants `wants` GiB of its card."""
    found = running_world(
        [node("n1", cards, device={"memory": CARD})],
        {entry.id: ["n1"] for entry in jobs},
        jobs,
        teams={name: memory_quota(gib) for name, gib in (teams or {"a": 400}).items()},
    )
    if wants is not None:
        want(found, jobs[0].id, wants)
    return found


def want(snapshot: Snapshot, job_id: str, gib: int) -> None:
    (task,) = snapshot.allocations_of(job_id)
    wanted = replace(task, wanted_memory=gib * GIB, lent_at=LENT_AT)
    snapshot.apply_delta(Delta((AllocationRemoved(task.id), AllocationPut(wanted))))


def resizes(snapshot: Snapshot) -> list[tuple[str, int]]:
    decisions = act(snapshot, "resize").decisions
    return [
        (made.job, made.allocations[0].slices[0].memory // GIB)
        for made in decisions
        if made.kind.value == "resize"
    ]


def evicted(snapshot: Snapshot) -> list[str]:
    result = act(snapshot, "resize")
    assert all(made.beneficiary == "owner" for made in result.decisions if made.rule)
    assert {rule for _, _, rule in decided(result)} <= {"", "SLICE_RETURNED"}
    return [made.job for made in result.decisions if made.kind.value == "evict"]


def test_who_wants_less_lends_and_who_has_room_gets_it_back() -> None:
    assert resizes(world_of(sliced("owner", 32), wants=8)) == [("owner", 8)]
    assert resizes(world_of(sliced("owner", 8), wants=32)) == [("owner", 32)]
    assert resizes(world_of(sliced("owner", 8))) == []
    charge = act(world_of(sliced("owner", 8), wants=32), "resize").decisions[0].allocations[0].charges
    assert {item.resource: item.amount for item in charge}[Resource.GPU_MEMORY] == 32 * GIB


@pytest.mark.parametrize(
    ("others", "wants", "expected"),
    [
        ([sliced("new", 20, at=2000)], 32, ["new"]),
        ([sliced("before", 20, at=500)], 32, []),
        ([sliced("fixed", 20, at=2000, preemptible=False)], 32, []),
        # One is enough: the lower priority, then the younger.
        ([sliced("low", 15, at=2000), sliced("high", 15, at=3000, priority=5)], 25, ["low"]),
        ([sliced("old", 15, at=2000), sliced("young", 15, at=3000)], 25, ["young"]),
        # Both together are not enough beside the one that stays.
        ([sliced("fixed", 20, at=2000, preemptible=False), sliced("new", 10, at=2000)], 32, []),
    ],
)
def test_who_came_after_makes_way_if_that_suffices(
    others: list[Job], wants: int, expected: list[str]
) -> None:
    assert evicted(world_of(sliced("owner", 8), *others, wants=wants)) == expected


def test_a_borrower_makes_way_whatever_its_priority() -> None:
    jobs = [sliced("owner", 8), sliced("guest", 20, "b", at=2000, priority=9)]
    assert evicted(world_of(*jobs, wants=32, a=40, b=0)) == ["guest"]


@pytest.mark.parametrize(("cards", "expected"), [(1, []), (2, ["neighbour"])])
def test_a_job_inside_its_own_quota_is_evicted_only_for_another_place(
    cards: int, expected: list[str]
) -> None:
    jobs = [sliced("owner", 8), sliced("neighbour", 20, "b", at=2000)]
    snapshot = world_of(*jobs, cards=1, wants=32, a=40, b=40)
    if cards == 2:
        snapshot = running_world(
            [node("n1", 1, device={"memory": CARD}), node("n2", 1, device={"memory": CARD})],
            {entry.id: ["n1"] for entry in jobs},
            jobs,
            teams={"a": memory_quota(40), "b": memory_quota(40)},
        )
        want(snapshot, "owner", 32)
    assert evicted(snapshot) == expected


def test_a_lack_of_quota_is_made_up_by_who_uses_it() -> None:
    jobs = [sliced("owner", 8), sliced("elsewhere", 30, at=2000)]
    found = running_world(
        [node("n1", 1, device={"memory": CARD}), node("n2", 1, device={"memory": CARD})],
        {"owner": ["n1"], "elsewhere": ["n2"]},
        jobs,
        teams={"a": memory_quota(40)},
    )
    want(found, "owner", 32)
    assert evicted(found) == ["elsewhere"]


def test_it_waits_for_terminating_jobs_and_their_memory_is_claimed_once() -> None:
    snapshot = world_of(sliced("owner", 8), sliced("new", 20, at=2000), sliced("more", 10, at=3000), wants=30)
    (task,) = snapshot.allocations_of("new")
    snapshot.apply_delta(Delta((AllocationRemoved(task.id), AllocationPut(replace(task, leaving=True)))))
    assert evicted(snapshot) == []
    assert resizes(snapshot) == []
    before = snapshot.to_json()
    act(snapshot, "resize", "admit")
    assert snapshot.to_json() == before
