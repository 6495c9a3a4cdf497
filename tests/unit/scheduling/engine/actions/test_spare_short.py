"""How much an evicted job is told to wait for, where quota lacks and something must stay unused besides."""

from __future__ import annotations

import pytest

from scheduling.engine import EngineConfig
from scheduling.engine.model import HelpCode, Reason
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import job, node, quotas, role, world


def stage_with(used: int) -> Stage:
    """64 cards of another team, of which so many are used, and a team that owns none; a card has to stay
    unused for each eviction."""
    snapshot = world([node(f"n{index}", 8) for index in range(8)], teams={"a": quotas(0), "b": quotas(64)})
    stage = Stage(snapshot, EngineConfig(actions=("admit",)))
    stage.submit(job("holds", "b", role(used)))
    stage.cycle()
    stage.submit(job("again", "a", role(8), at=5, evictions=1))
    stage.cycle()
    return stage


def test_it_is_told_all_that_has_to_come_back() -> None:
    found = stage_with(63).outcome("again")
    assert (found.reason, found.numbers["rule"]) == (Reason.WAITING_FOR_BORROWED, "spare")
    assert found.numbers["keep_free"] == 1
    waits = [way.numbers["short"] for way in found.help if way.code is HelpCode.WAIT_FOR_RELEASE]
    assert waits == [8]


@pytest.mark.parametrize(("released", "starts"), [(7, False), (8, True)])
def test_it_starts_when_so_much_has_come_back(released: int, starts: bool) -> None:
    assert ("again" in stage_with(63 - released).running()) is starts
