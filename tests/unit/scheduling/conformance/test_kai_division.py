"""KAI-Scheduler's division of a resource among queues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduling.conformance.kai.division import Claimant, divide_shares
from scheduling.conformance.kai.shares import check_division


def queue(name: str, deserved: float, weight: float, request: float, **facts: int) -> Claimant:
    return Claimant(id=name, deserved=deserved, limit=-1, weight=weight, request=request, **facts)


@pytest.mark.parametrize(
    ("total", "queues", "expected", "left"),
    [
        (11, [queue("a", 2, 1, 10), queue("b", 2, 4, 10)], {"a": 3, "b": 8}, 0),
        (100, [queue("a", 10, 3, 100), queue("b", 10, 1, 100)], {"a": 70, "b": 30}, 0),
        (10, [queue("a", 2, 0, 10), queue("b", 2, 0, 10)], {"a": 2, "b": 2}, 6),
        (10, [queue("a", 8, 1, 9), queue("b", 8, 1, 9)], {"a": 8, "b": 8}, 0),
        (10, [queue("a", 0, 1, 10), queue("b", 0, 1, 10, priority=1)], {"a": 0, "b": 10}, 0),
        (5, [queue("a", 2, 1, 5), queue("b", 2, 1, 5)], {"a": 3, "b": 2}, 0),
        (5, [queue("a", 2, 1, 5, created=2), queue("b", 2, 1, 5, created=1)], {"a": 2, "b": 3}, 0),
        (4, [queue("a", -1, 1, 3), queue("b", 1, 1, 5)], {"a": 3, "b": 1}, 0),
    ],
)
def test_deserved_first_then_by_weight(
    total: float, queues: list[Claimant], expected: dict[str, float], left: float
) -> None:
    assert divide_shares(total, queues, k=1.0) == (expected, left)


def test_late_usage_counts_against_a_queue() -> None:
    greedy = Claimant(id="a", limit=-1, weight=1, request=10, usage=0.5)
    modest = Claimant(id="b", limit=-1, weight=1, request=10, usage=0.0)
    assert divide_shares(6, [greedy, modest], k=1.0) == ({"a": 2, "b": 4}, 0)
    assert divide_shares(6, [greedy, modest], k=0.0) == ({"a": 3, "b": 3}, 0)


@pytest.mark.shared
def test_every_case_of_the_table_passes(shared_dir: Path) -> None:
    path = shared_dir / "conformance" / "kai" / "TestProportion_resource_division.json"
    if not path.is_file():
        pytest.skip(f"no case table in {path}")
    cases = json.loads(path.read_text())["cases"]
    assert cases
    assert [answer for case in cases if (answer := check_division(case)) is not None] == []


@pytest.mark.shared
def test_another_share_is_noticed(shared_dir: Path) -> None:
    path = shared_dir / "conformance" / "kai" / "TestProportion_resource_division.json"
    if not path.is_file():
        pytest.skip(f"no case table in {path}")
    for case in json.loads(path.read_text())["cases"]:
        for result in case["expected"]["results"]:
            for shares in result["fairShare"].values():
                shares.update({resource: amount + 1 for resource, amount in shares.items()})
        assert check_division(case) is not None
