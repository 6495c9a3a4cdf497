"""The jobs that are evicted when a quota was lowered below its use with immediate effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import find_over_quota_jobs
from scheduling.engine.model import Instant, Job, JobState
from tests.unit.scheduling.engine.preemption.worlds import CARDS, cohort, running

# Jobs as (name, cards, other facts); what may stay; the evicted jobs, in order.
CASES = {
    "nobody within the limit": ([("a", 4, {})], 4, []),
    "lower priority first": ([("a", 4, {"priority": 1}), ("b", 4, {})], 4, ["b"]),
    "of equals the last to start": (
        [("a", 4, {"admitted_at": Instant(1)}), ("b", 4, {"admitted_at": Instant(2)})], 4, ["b"],
    ),
    "who may not be preempted comes last": (
        [("a", 4, {"preemptible": False}), ("b", 4, {"priority": 9})], 4, ["b"],
    ),
    "but leaves when nothing else is left": ([("a", 4, {"preemptible": False})], 3, ["a"]),
    "who need not leave after all stays": ([("a", 8, {"priority": 1}), ("b", 1, {})], 1, ["a"]),
    "all of them for nothing": ([("a", 4, {}), ("b", 2, {"priority": 1})], 0, ["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "limit", "leaving"), CASES.values(), ids=CASES)
def test_evicted_jobs(rows: list[tuple[str, int, dict[str, object]]], limit: int, leaving: list[str]) -> None:
    jobs = [running(name, "q", cards, **facts) for name, cards, facts in rows]
    snapshot = cohort({"q": 4}, jobs)
    assert find_over_quota_jobs(snapshot, {"q"}, CARDS, limit) == leaving


def test_other_queues_are_left_alone() -> None:
    snapshot = cohort({"q": 4, "r": 4}, [running("mine", "q", 4), running("theirs", "r", 8)])
    assert find_over_quota_jobs(snapshot, {"q"}, CARDS, 4) == []
    assert find_over_quota_jobs(snapshot, {"q", "r"}, CARDS, 4) == ["theirs"]


def test_a_terminating_job_counts_as_gone() -> None:
    going: Job = replace(running("going", "q", 4), state=JobState.LEAVING)
    snapshot = cohort({"q": 4}, [going, running("staying", "q", 4)])
    assert find_over_quota_jobs(snapshot, {"q"}, CARDS, 4) == []
