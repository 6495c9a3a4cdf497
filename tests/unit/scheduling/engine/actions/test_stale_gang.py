"""Gangs below their minimum: who is evicted, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine.model import Instant, Job
from scheduling.engine.model.options import HousekeepingOptions
from tests.unit.scheduling.engine.actions.worlds import act, live, running_world, settle, told
from tests.unit.scheduling.engine.builders import NOW, job, node, role
from tests.unit.scheduling.engine.gang.test_parts import member
from tests.unit.scheduling.engine.gang.worlds import part

PLAIN = job("j", "a", role(3, 1))
PARTS = job(
    "j",
    "a",
    member("x", "left", 3),
    member("y", "right", 1),
    sub_gangs=(part("left", min_available=2), part("right", min_available=1)),
)


def broken(entry: Job, ago: float | None, **facts: Any) -> Job:
    since = None if ago is None else Instant(NOW - ago)
    return live(entry, broken_since=since, **facts)


@pytest.mark.parametrize(
    ("entry", "standing", "evicted"),
    [
        (broken(PLAIN, 61), 2, True),
        (broken(PLAIN, 60), 2, True),
        (broken(PLAIN, 59), 2, False),
        (broken(PLAIN, None), 2, False),
        (broken(PLAIN, 61), 3, False),
        (broken(job("j", "a", role(3, 1, least=2)), 61), 2, False),
        (broken(PLAIN, 61, stale_grace_s=120), 2, False),
        (broken(PLAIN, 15, stale_grace_s=10), 2, True),
        (broken(PLAIN, 0, stale_grace_s=0), 2, True),
        (broken(PLAIN, 9_999, stale_grace_s=-1), 2, False),
        (broken(job("j", "a", replace(role(3, 1), ended=1)), 61), 1, False),
        (broken(PARTS, 61), 3, True),
        (broken(PARTS, 61), 4, False),
    ],
)
def test_a_gang_is_evicted_when_it_was_broken_for_its_grace(entry: Job, standing: int, evicted: bool) -> None:
    snapshot = running_world([node("n1", 8)], {"j": ["n1"] * standing}, [entry])
    result = act(snapshot, "stale_gang")
    assert told(result) == ([("evict", "j", "STALE_GANG")] if evicted else [])
    if evicted:
        assert len(result.decisions[0].released) == standing
        settle(snapshot, result)
        assert told(act(snapshot, "stale_gang")) == []


def test_the_configuration_can_switch_it_off() -> None:
    snapshot = running_world([node("n1", 8)], {"j": ["n1"]}, [broken(PLAIN, 999)])
    never = HousekeepingOptions(stale_grace_s=-1)
    assert told(act(snapshot, "stale_gang", housekeeping=never)) == []
