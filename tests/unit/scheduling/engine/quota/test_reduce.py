"""Partial admission: the sizes that are tried, and the one that is found."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from scheduling.engine.model import Instant, Job, Request, Role
from scheduling.engine.quota.partial_admission import (
    count_surplus,
    find_largest_size,
    full_counts,
    reduce_counts,
)


def job(*sizes: tuple[int, int | None], min_available: int | None = None, ended: int = 0) -> Job:
    roles = tuple(
        Role(name=f"r{index}", replicas=full, min_replicas=least, request=Request(cpu=1), ended=ended)
        for index, (full, least) in enumerate(sizes)
    )
    return Job(id="j", queue="q", roles=roles, submitted_at=Instant(0.0), min_available=min_available)


@pytest.mark.parametrize(
    ("sizes", "room", "expected"),
    [
        # One elastic role shrinks by exactly what is missing.
        ([(10, 1)], 7, [7]),
        ([(10, 1)], 1, [1]),
        ([(10, 4)], 3, None),
        # A rigid role keeps its size.
        ([(5, None), (10, 2)], 9, [5, 4]),
        ([(5, None), (10, 2)], 6, None),
        # Roles shrink in proportion to what each can do without, rounded down.
        ([(10, 5), (20, 10)], 24, [8, 16]),
        ([(10, 5), (20, 10)], 15, [5, 10]),
        ([(3, 1), (3, 1)], 5, [2, 2]),
        ([(2, None), (2, None)], 3, None),
    ],
)
def test_the_largest_size_that_fits_is_found(
    sizes: list[tuple[int, int | None]], room: int, expected: list[int] | None
) -> None:
    def fits(counts: Mapping[str, int]) -> list[int] | None:
        return list(counts.values()) if sum(counts.values()) <= room else None

    assert find_largest_size(job(*sizes), fits) == expected


def test_each_step_is_no_larger_than_the_one_before() -> None:
    item = job((7, 2), (11, 3), (4, None))
    steps = [reduce_counts(item, step) for step in range(sum(count_surplus(item).values()) + 1)]
    assert steps[0] == {"r0": 7, "r1": 11, "r2": 4}
    assert steps[-1] == {"r0": 2, "r1": 3, "r2": 4}
    for before, after in pairwise(steps):
        assert all(after[name] <= before[name] for name in before)


def test_the_search_asks_a_logarithm_of_sizes() -> None:
    asked: list[int] = []

    def fits(counts: Mapping[str, int]) -> int | None:
        asked.append(counts["r0"])
        return counts["r0"] if counts["r0"] <= 613 else None

    assert find_largest_size(job((1000, 1)), fits) == 613
    assert len(asked) <= 12


def test_the_smallest_gang_of_the_job_is_kept() -> None:
    assert (
        find_largest_size(job((10, 1), min_available=6), lambda c: c["r0"] if c["r0"] <= 5 else None) is None
    )
    assert find_largest_size(job((10, 1), min_available=6), lambda c: c["r0"] if c["r0"] <= 6 else None) == 6


def test_ended_tasks_are_neither_asked_for_nor_spared() -> None:
    item = job((10, 4), ended=3)
    assert full_counts(item) == {"r0": 7}
    assert count_surplus(item) == {"r0": 6}
    assert reduce_counts(item, 6) == {"r0": 1}
    assert count_surplus(job((10, 4), ended=8)) == {"r0": 2}
