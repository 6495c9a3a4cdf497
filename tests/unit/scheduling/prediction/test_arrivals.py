"""Arrivals of a simulated future are blocks of the past at the same hour."""

from __future__ import annotations

from random import Random

import pytest

from scheduling.engine.model import Instant, Job, Request, Role
from scheduling.prediction.arrivals import BLOCK_S, DAY_S, WEEK_S, Arrival, ArrivalHistory
from scheduling.prediction.run_times import JobTraits

TRAITS = JobTraits("team", "ed", "", "batch", 1)


def arrival(at: float, queue: str = "q") -> Arrival:
    role = Role(name="main", replicas=1, request=Request(cpu=1))
    return Arrival(
        at, Job(id=f"{at}", queue=queue, roles=(role,), submitted_at=Instant(at)), TRAITS, 1.0, True
    )


def test_an_hour_of_the_week_brings_what_it_brought_before() -> None:
    """Six weeks with a burst of three on each seventh day: the future has it on that day, and on no other."""
    bursts = [arrival(week * WEEK_S + 3_600.0 + second) for week in range(6) for second in (0.0, 5.0, 9.0)]
    history = ArrivalHistory(bursts, since=0.0, until=6 * WEEK_S)

    found = sorted(at - 6 * WEEK_S for at, _ in history.draw_arrivals(Random(1), WEEK_S))

    assert found == [3_600.0, 3_605.0, 3_609.0]


def test_few_days_of_history_serve_every_day() -> None:
    history = ArrivalHistory([arrival(day * DAY_S + 60.0) for day in range(5)], since=0.0, until=5 * DAY_S)

    found = sorted(at - 5 * DAY_S for at, _ in history.draw_arrivals(Random(2), 3 * DAY_S))

    assert found == [60.0, DAY_S + 60.0, 2 * DAY_S + 60.0]


@pytest.mark.parametrize("hours", [0.5, 5.0])
def test_a_history_of_hours_serves_any_hour_or_none(hours: float) -> None:
    until = hours * 3_600.0
    every = [arrival(float(at)) for at in range(0, int(until), 60)]
    found = list(ArrivalHistory(every, since=0.0, until=until).draw_arrivals(Random(3), DAY_S))

    whole = until >= BLOCK_S
    assert (len(found) == pytest.approx(DAY_S / 60, abs=10)) if whole else not found
    assert all(until <= at < until + DAY_S + BLOCK_S for at, _ in found)


def test_queues_draw_by_themselves_and_a_seed_repeats() -> None:
    both = [arrival(day * DAY_S + 60.0 + day, queue) for day in range(20) for queue in "ab"]
    history = ArrivalHistory(both, since=0.0, until=20 * DAY_S)

    found = [(at, one.job.queue, one.at) for at, one in history.draw_arrivals(Random(4), DAY_S)]

    assert found == [(at, one.job.queue, one.at) for at, one in history.draw_arrivals(Random(4), DAY_S)]
    assert {queue for _, queue, _ in found} == {"a", "b"}
    assert len({past for _, _, past in found}) == 2
