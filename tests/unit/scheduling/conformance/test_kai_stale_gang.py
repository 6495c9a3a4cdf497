"""Gangs below their minimum: which are evicted, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.conformance.kai.stale_gang import StaleGangEviction
from scheduling.engine import BUILTIN, Snapshot
from scheduling.engine.model import CycleResult, Instant, Job
from tests.unit.scheduling.engine.actions.worlds import act, decided, live, running_world, settle
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


def checked(snapshot: Snapshot, ago: float | None, grace_s: int) -> CycleResult:
    """The result of the action; `ago` is for how many seconds the gang is known to be broken."""
    broken = {} if ago is None else {"j": (Instant(NOW - ago), grace_s)}
    actions = BUILTIN.actions.with_plugins(StaleGangEviction(broken))
    return act(snapshot, "stale_gang", plugins=replace(BUILTIN, actions=actions))


@pytest.mark.parametrize(
    ("entry", "ago", "grace_s", "standing", "evicted"),
    [
        (PLAIN, 61, 60, 2, True),
        (PLAIN, 60, 60, 2, True),
        (PLAIN, 59, 60, 2, False),
        (PLAIN, None, 60, 2, False),
        (PLAIN, 61, 60, 3, False),
        (job("j", "a", role(3, 1, least=2)), 61, 60, 2, False),
        (PLAIN, 0, 0, 2, True),
        (PLAIN, 9_999, -1, 2, False),
        (job("j", "a", replace(role(3, 1), ended=1)), 61, 60, 1, False),
        (PARTS, 61, 60, 3, True),
        (PARTS, 61, 60, 4, False),
    ],
)
def test_a_gang_is_evicted_when_it_was_broken_for_its_grace(
    entry: Job, ago: float | None, grace_s: int, standing: int, evicted: bool
) -> None:
    snapshot = running_world([node("n1", 8)], {"j": ["n1"] * standing}, [live(entry)])
    result = checked(snapshot, ago, grace_s)
    assert decided(result) == ([("evict", "j", "STALE_GANG")] if evicted else [])
    if evicted:
        assert len(result.decisions[0].released) == standing
        settle(snapshot, result)
        assert decided(checked(snapshot, ago, grace_s)) == []
