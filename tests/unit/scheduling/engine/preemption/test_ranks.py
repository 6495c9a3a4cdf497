"""The order of two candidates, one criterion at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine.model import Instant
from scheduling.engine.preemption.candidates.candidates import VictimCandidate, cross_queue_key, priority_rank
from tests.unit.scheduling.engine.preemption.worlds import held, running

JOB = running("m", "b", 3, submitted_at=Instant(10))
WHOLE = VictimCandidate(job=JOB, queue="b", tasks=held(JOB))
SPARED = replace(WHOLE, whole=False, tasks=held(JOB)[1:2])
FIRST, SECOND = (replace(WHOLE, rank=(number,)) for number in (1, 2))


def of(**facts: object) -> VictimCandidate:
    return replace(WHOLE, job=replace(JOB, **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (replace(of(priority=9), leaving=True), WHOLE),
        (of(priority=-1), SPARED),
        (SPARED, WHOLE),
        (of(submitted_at=Instant(11)), WHOLE),
        (of(id="a"), WHOLE),
        (replace(SPARED, tasks=held(JOB)[2:]), SPARED),
    ],
    ids=["leaving", "lower priority", "spared", "submitted last", "id", "last task"],
)
def test_the_order_by_priority(first: VictimCandidate, second: VictimCandidate) -> None:
    assert priority_rank(first) < priority_rank(second)
    assert not priority_rank(second) < priority_rank(first)


@pytest.mark.parametrize(
    ("first", "second", "own"),
    [
        (replace(SECOND, leaving=True), FIRST, ""),
        (SECOND, replace(FIRST, queue="own"), "own"),
        (FIRST, SECOND, "b"),
    ],
    ids=["leaving", "others before the own queue", "rank"],
)
def test_the_order_between_queues(first: VictimCandidate, second: VictimCandidate, own: str) -> None:
    assert cross_queue_key(first, own) < cross_queue_key(second, own)
