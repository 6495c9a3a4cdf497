"""Cards that do nothing."""

from __future__ import annotations

import pytest

from scheduling.engine.model import Instant, Job
from tests.unit.scheduling.engine.actions.worlds import act, decided, live, running_world, settle
from tests.unit.scheduling.engine.builders import NOW, job, node, role

HOUR = Instant(NOW - 600)


@pytest.mark.parametrize(
    ("entry", "evicted"),
    [
        (live(job("j"), idle_since=HOUR, max_idle_s=600), True),
        (live(job("j"), idle_since=HOUR, max_idle_s=601), False),
        (live(job("j"), idle_since=HOUR, max_idle_s=-1), False),
        (live(job("j"), idle_since=HOUR), False),
        (live(job("j"), max_idle_s=0), False),
        (live(job("j", "a", role(1, 0, cpu=100)), idle_since=HOUR, max_idle_s=0), False),
    ],
)
def test_idle_cards_are_taken_back(entry: Job, evicted: bool) -> None:
    snapshot = running_world([node("n1")], {}, [entry])
    result = act(snapshot, "idle")
    assert decided(result) == ([("evict", "j", "IDLE")] if evicted else [])
    settle(snapshot, result)
    assert decided(act(snapshot, "idle")) == []
