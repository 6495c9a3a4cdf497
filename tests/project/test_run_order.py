"""Long tests begin first in every test process, as xdist divides the tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from tests.fixtures.run_order import BROWSER, LONG, order_tests

SHORT = [f"api/test_{number // 5}.py::{number}" for number in range(200)]
ON_LONG = [
    f"{folder}test_{module}.py::{number}" for folder in LONG[1:4] for module in "abc" for number in "12"
]
IN_BROWSER = [f"{BROWSER}test_{module}.py::{number}" for module in "ab" for number in "12"]
TESTS = sorted([*SHORT, *ON_LONG, *IN_BROWSER])


def path_of(test: str) -> str:
    return test.partition("::")[0]


def divide_tests(tests: list[str], processes: int) -> Iterator[list[str]]:
    """Yield the rows that `worksteal` gives to the processes."""
    for left in range(processes, 0, -1):
        length = len(tests) // left
        yield tests[:length]
        tests = tests[length:]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
def test_every_process_begins_with_its_share_of_the_long_tests(processes: int) -> None:
    ordered = order_tests(TESTS, path_of, processes)
    assert sorted(ordered) == TESTS
    counts = []
    for number, row in enumerate(divide_tests(ordered, processes)):
        is_long = [not test.startswith("api/") for test in row]
        assert is_long == sorted(is_long, reverse=True)
        counts.append(sum(is_long))
        assert number == 0 or not any(test.startswith(BROWSER) for test in row)
    assert sum(counts) == len(ON_LONG) + len(IN_BROWSER)
    assert max(counts[1:], default=0) - min(counts[1:], default=0) <= 2


def test_no_long_module_is_divided() -> None:
    paths = [
        path for path, _ in groupby(order_tests(TESTS, path_of, 4), path_of) if not path.startswith("api/")
    ]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_no_test_is_lost_where_there_are_fewer_than_would_fill_the_rows(count: int) -> None:
    some = [*IN_BROWSER, *ON_LONG[:count]]
    assert sorted(order_tests(some, path_of, 4)) == sorted(some)
