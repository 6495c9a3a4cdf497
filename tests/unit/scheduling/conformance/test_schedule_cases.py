"""Whole cycles of Kueue's scheduler, case by case, and the options that correspond to its feature gates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kueue.cycles import schedule
from scheduling.conformance.kueue.tables import entries

Case = Mapping[str, Any]
TABLES = {**schedule.TABLES, **entries.TABLES}
FEWEST = {
    "TestSchedule": 53,
    "TestScheduleForFairSharing": 17,
    "TestScheduleForAFS": 6,
    "TestScheduleRecomputePreemptionTargets": 5,
    "TestEntryOrdering": 7,
    "TestEntryComparerLess": 5,
}


def cases(shared_dir: Path, table: str) -> list[Case]:
    path = shared_dir / "conformance" / "kueue" / f"{table}.json"
    if not path.is_file():
        pytest.skip(
            f"no case table in {path}; to get it: point ALLOTMENT_SHARED at the folder with conformance/"
        )
    found: list[Case] = json.loads(path.read_text())["cases"]
    return found


@pytest.mark.shared
@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_case_of_the_table_passes(table: str, shared_dir: Path) -> None:
    given = cases(shared_dir, table)
    failed = {case["name"]: found for case in given if (found := TABLES[table](case)) is not None}
    assert len(given) >= FEWEST[table]
    assert failed == {}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("table", "gate"),
    [
        ("TestSchedule", "PartialAdmission"),
        ("TestSchedule", "ElasticJobsViaWorkloadSlices"),
        ("TestSchedule", "MultiKueueOrchestratedPreemption"),
        ("TestSchedule", "UnadmittedWorkloadsObservability"),
        ("TestScheduleForFairSharing", "FairSharingPrioritizeNonBorrowing"),
        ("TestScheduleForFairSharing", "RecomputeAssignmentUponPreemptionTargetsOverlap"),
        ("TestScheduleForAFS", "AdmissionFairSharing"),
        ("TestEntryOrdering", "PrioritySortingWithinCohort"),
        ("TestEntryComparerLess", "PrioritizePreemptorWorkloads"),
    ],
)
def test_a_gate_turned_the_other_way_is_noticed(table: str, gate: str, shared_dir: Path) -> None:
    default = gate not in ("MultiKueueOrchestratedPreemption", "PrioritizePreemptorWorkloads")

    def turned(case: Case) -> Case:
        return {**case, "gates": {**case["gates"], gate: not case["gates"].get(gate, default)}}

    assert any(TABLES[table](turned(case)) is not None for case in cases(shared_dir, table))


def test_a_gate_without_a_switch_is_not_passed_over() -> None:
    case = {"name": "x", "gates": {"ConcurrentAdmission": True}, "input": {}, "expected": {}}
    with pytest.raises(Skipped, match="ConcurrentAdmission"):
        schedule.check_schedule(case)


def test_differences_are_reported() -> None:
    case = {
        "name": "x",
        "gates": {},
        "input": {"now": "2026-01-01T00:00:00Z", "workloads": [], "clusterQueues": []},
        "expected": {"workloads": {}, "preempted": {"a/b": "InClusterQueue"}},
    }
    found = schedule.check_schedule(case)
    assert found == "expected preempted {'a/b': 'InClusterQueue'}, got {}"
