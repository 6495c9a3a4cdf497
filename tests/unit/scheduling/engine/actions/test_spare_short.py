"""The amount that an evicted job waits for, if quota lacks and some of it must stay unused besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import EngineConfig, QuotaPut
from scheduling.engine.model import HelpCode, JobOutcome, Quota, QuotaNode, Reason
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import CARD_MIB, job, node, quotas, role, world


def stage_with(used: int) -> Stage:
    """Return 64 cards of another team, `used` of them in use, and a team that owns none and must keep a
    card unused for each eviction."""
    snapshot = world([node(f"n{index}", 8) for index in range(8)], teams={"a": quotas(0), "b": quotas(64)})
    stage = Stage(snapshot, EngineConfig(actions=("admit",)))
    stage.submit(job("holds", "b", role(used)))
    stage.cycle()
    stage.submit(job("again", "a", role(8), at=5, evictions=1))
    stage.cycle()
    return stage


def test_its_reason_has_all_that_must_be_released() -> None:
    found = stage_with(63).outcome("again")
    assert (found.reason, found.numbers["rule"]) == (Reason.WAITING_FOR_BORROWED, "spare")
    assert found.numbers["keep_free"] == 1
    waits = [way.numbers["short"] for way in found.help if way.code is HelpCode.WAIT_FOR_RELEASE]
    assert waits == [8]


@pytest.mark.parametrize(("released", "starts"), [(7, False), (8, True)])
def test_it_starts_when_so_much_has_come_back(released: int, starts: bool) -> None:
    assert ("again" in stage_with(63 - released).running()) is starts


UNITS = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100, Resource.GPU_MEMORY: CARD_MIB}


def every_quota(cards: int) -> tuple[Quota, ...]:
    """Return a quota of so many cards, with the cores and the memory that belong to them."""
    plain = (
        Quota(flavor="a100", resource=name, own_nominal=None) for name in (Resource.CPU, Resource.MEMORY)
    )
    return (
        *plain,
        *(Quota(flavor="a100", resource=name, own_nominal=cards * unit) for name, unit in UNITS.items()),
    )


def in_every_quota(used: int, *, own: int = 0, asked: int = 8) -> Stage:
    """Return the same with more nodes than quota, where cores and memory of cards are limited as well."""
    teams = {"a": every_quota(own), "b": every_quota(64 - own)}
    snapshot = world([node(f"n{index}", 8) for index in range(9)], teams=teams)
    stage = Stage(snapshot, EngineConfig(actions=("admit",)))
    stage.submit(job("holds", "b", role(used)))
    stage.cycle()
    stage.submit(job("again", "a", role(asked), at=5, evictions=1))
    stage.cycle()
    return stage


def amounts(stage: Stage, code: HelpCode) -> dict[str, int]:
    ways = [way.numbers for way in stage.outcome("again").help if way.code is code]
    names = {str(numbers["resource"]) for numbers in ways}
    assert all({*str(numbers["with"]).split(","), str(numbers["resource"])} == names for numbers in ways)
    return {str(numbers["resource"]): int(numbers["short"]) for numbers in ways}


def test_all_resources_are_named_of_which_something_has_to_come_back() -> None:
    """One card is missing, and one has to stay unused; memory is not left unused."""
    stage = in_every_quota(57)
    assert stage.outcome("again").reason is Reason.WAITING_FOR_BORROWED
    assert amounts(stage, HelpCode.WAIT_FOR_RELEASE) == {
        Resource.GPU_CARDS: 2, Resource.GPU_CORES: 200, Resource.GPU_MEMORY: CARD_MIB,
    }  # fmt: skip


@pytest.mark.parametrize("used", [57, 56])
def test_more_quota_of_all_that_is_recommended_lets_it_start(used: int) -> None:
    stage = in_every_quota(used)
    raised = amounts(stage, HelpCode.RAISE_QUOTA)
    assert raised == {resource: 8 * unit for resource, unit in UNITS.items()}
    limits = tuple(
        quota
        if quota.own_nominal is None
        else replace(quota, own_nominal=quota.own_nominal + raised.get(quota.resource, 0))
        for quota in every_quota(0)
    )
    stage.put(QuotaPut(QuotaNode(id="a", parent="root", quotas=limits)))
    stage.cycle()
    assert "again" in stage.running()


def test_more_quota_is_enough_to_leave_something_unused_where_the_own_queue_is_what_holds_it() -> None:
    """The queue's own jobs hold everything: quota for the missing amount alone would leave nothing unused."""
    snapshot = world([node(f"n{index}", 8) for index in range(9)], teams={"a": quotas(40), "b": quotas(24)})
    stage = Stage(snapshot, EngineConfig(actions=("admit",)))
    stage.submit(job("holds", "a", role(64)))
    stage.cycle()
    stage.submit(job("again", "a", role(8), at=5, evictions=1))
    stage.cycle()
    found = stage.outcome("again")
    assert found.reason is Reason.WAITING_FOR_QUOTA
    (raise_quota,) = (way.numbers for way in found.help if way.code is HelpCode.RAISE_QUOTA)
    assert "also" not in raise_quota
    stage.put(QuotaPut(QuotaNode(id="a", parent="root", quotas=quotas(40 + int(raise_quota["short"])))))
    stage.cycle()
    assert "again" in stage.running()


def test_less_is_offered_only_where_enough_is_left_unused_beside_it() -> None:
    """Eight are requested, and seven are free, of which one has to stay unused."""
    found = stage_with(57).outcome("again")
    assert [way.numbers["tasks"] for way in found.help if way.code is HelpCode.ASK_FEWER_TASKS] in ([], [6])
    found = with_large_tasks(57)
    (fewer,) = (way.numbers["cards"] for way in found.help if way.code is HelpCode.ASK_FEWER_CARDS)
    assert fewer == 6


def with_large_tasks(used: int) -> JobOutcome:
    """Return the outcome of a job with one task of more cards than its cell could ever give."""
    snapshot = world([node(f"n{index}", 8) for index in range(8)], teams={"a": quotas(0), "b": quotas(64)})
    stage = Stage(snapshot, EngineConfig(actions=("admit",)))
    stage.submit(job("holds", "b", role(used)))
    stage.cycle()
    stage.submit(job("again", "a", role(1, 9), at=5, evictions=1))
    stage.cycle()
    return stage.outcome("again")
