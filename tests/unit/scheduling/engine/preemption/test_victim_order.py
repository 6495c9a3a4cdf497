"""KAI-Scheduler's order of victims, and fixed jobs beside preemptible ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import TargetSet, VictimOrder
from scheduling.engine.model import Instant, Job
from tests.unit.scheduling.engine.preemption.worlds import (
    NORMATIVE,
    PLATFORM,
    cohort,
    running,
    search,
    wants,
)

BY_PRIORITY = replace(NORMATIVE, victim_order=VictimOrder.PRIORITY)


def tasks_to_evict(found: TargetSet) -> dict[str, tuple[str, ...]]:
    return {target.job: target.tasks for target in found.targets}


def asked(jobs: list[Job], cards: int, nominal: int) -> TargetSet:
    snapshot = cohort({"a": nominal}, jobs)
    return search(snapshot, wants(snapshot, "a", cards, priority=9), BY_PRIORITY)


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        (1, {"low": ()}),
        (2, {"low": (), "elastic": ("elastic/1/2",)}),
        (3, {"low": (), "elastic": ("elastic/1/2", "elastic/1/1")}),
        (4, {"low": (), "elastic": ("elastic/1/2", "elastic/1/1"), "late": ()}),
        (6, {"low": (), "elastic": (), "late": (), "early": ()}),
    ],
)
def test_lower_priority_first_then_what_can_be_spared_then_the_latest(
    cards: int, expected: dict[str, tuple[str, ...]]
) -> None:
    jobs = [
        running("early", "a", 1, priority=5, submitted_at=Instant(1)),
        running("late", "a", 1, priority=5, submitted_at=Instant(3)),
        running("elastic", "a", 3, least=1, priority=5, submitted_at=Instant(2)),
        running("low", "a", 1, priority=1, submitted_at=Instant(0)),
    ]
    assert tasks_to_evict(asked(jobs, cards, nominal=6)) == expected


@pytest.mark.parametrize("options", [BY_PRIORITY, PLATFORM])
@pytest.mark.parametrize(("free_after", "expected"), [(2, ("j/1/1", "j/1/2")), (3, ())])
def test_a_whole_job_takes_in_what_it_spared_before(
    options: object, free_after: int, expected: tuple[str, ...]
) -> None:
    # The placement check succeeds only after the second task, when quota has long sufficed.
    snapshot = cohort({"a": 5}, [running("j", "a", 3, least=1, priority=1)])

    def room() -> bool:
        return len(snapshot.allocations_of("j")) <= 3 - free_after

    preemptor = wants(snapshot, "a", 1, priority=9)
    found = search(snapshot, preemptor, options, placement_check=room)  # type: ignore[arg-type]
    assert {target.job: tuple(sorted(target.tasks)) for target in found.targets} == {"j": expected}


@pytest.mark.parametrize(("beside", "expected"), [(False, {"j0", "j1"}), (True, {"j1"})])
def test_beside_preemptible_jobs_a_fixed_one_preempts_no_more_than_it_needs(
    beside: bool, expected: set[str]
) -> None:
    # The queue uses 3 of its 2, so it borrows 1 of the other's; a fixed job wants 2 more.
    jobs = [running(f"j{index}", "a", 1 + index, priority=1, admitted_at=Instant(index)) for index in (0, 1)]
    snapshot = cohort({"a": 2, "b": 1}, jobs)
    preemptor = wants(snapshot, "a", 2, priority=9, preemptible=False)
    found = search(snapshot, preemptor, replace(NORMATIVE, nominal_counts_non_preemptible_only=beside))
    assert set(tasks_to_evict(found)) == expected
