"""The victim searches and the quota arithmetic against Kueue's case tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kueue.tables import arithmetic, preemption
from scheduling.engine import PreemptionOptions, VictimOrder

TABLES = {**preemption.TABLES, **arithmetic.TABLES}


def cases_of(shared_dir: Path, table: str) -> list[dict[str, Any]]:
    path = shared_dir / "conformance" / "kueue" / f"{table}.json"
    if not path.is_file():
        pytest.skip(
            f"no case table in {path}; to get it: point ALLOTMENT_SHARED at the folder with conformance/"
        )
    cases: list[dict[str, Any]] = json.loads(path.read_text())["cases"]
    return cases


@pytest.mark.shared
@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_case_of_the_table_passes(shared_dir: Path, table: str) -> None:
    cases = cases_of(shared_dir, table)
    answers = {case["name"]: TABLES[table](case) for case in cases}
    assert answers
    assert {name: answer for name, answer in answers.items() if answer is not None} == {}


@pytest.mark.shared
@pytest.mark.parametrize("table", ["TestPreemption", "TestHierarchicalPreemptions", "TestFairPreemptions"])
def test_the_table_notices_another_answer(shared_dir: Path, table: str) -> None:
    for case in cases_of(shared_dir, table):
        expected = {**case["expected"], "preemptedCount": case["expected"].get("preemptedCount", 0) + 1}
        assert preemption.check_preemption({**case, "expected": expected}) is not None


@pytest.mark.shared
def test_the_check_of_the_final_state_changes_no_fair_case(shared_dir: Path) -> None:
    checked = PreemptionOptions(
        victim_order=VictimOrder.NORMATIVE,
        final_check=True,
        eviction_cap=2**31,
        max_loss_s=None,
        search_budget=2**31,
    )
    for case in cases_of(shared_dir, "TestFairPreemptions"):
        assert preemption.list_targets(case, checked) == preemption.list_targets(case), case["name"]


def test_a_gate_without_a_switch_is_said_and_not_passed_over() -> None:
    case = {"gates": {"NoSuchGate": True}, "input": {"now": "2026-01-01T00:00:00Z"}, "expected": {}}
    with pytest.raises(Skipped, match="NoSuchGate"):
        preemption.candidates_order(case)
