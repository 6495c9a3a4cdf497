"""Kueue's tables of flavor assignment, case by case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kueue.tables.assignment import TABLES


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_case_of_the_table_passes(table: str, shared_dir: Path) -> None:
    path = shared_dir / "conformance" / "kueue" / f"{table}.json"
    if not path.is_file():
        pytest.skip(f"no case tables in {path.parent}")
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    failed = {case["name"]: TABLES[table](case) for case in cases}
    assert {name: why for name, why in failed.items() if why is not None} == {}
    assert cases


def case(expected: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Two flavors of 4 CPUs, of which the first has 1 left; 3 CPUs are asked for."""
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "4"}]} for name in ("one", "two")]
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    podset = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "input": {
            "clusterQueues": [
                {
                    "metadata": {"name": "cq"},
                    "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]},
                }
            ],
            "resourceFlavors": [{"metadata": {"name": "one"}}, {"metadata": {"name": "two"}}],
            "targetClusterQueue": "cq",
            "usage": {"cq": {"one/cpu": 3000}},
            "preemptionOracle": {"default": {"possibility": "Preempt", "borrowingAfterSimulation": 0}},
            "workload": {"metadata": {"name": "w"}, "spec": {"podSets": [podset]}},
            **given,
        },
        "expected": expected,
        "gates": {},
    }


def expected(**changes: Any) -> dict[str, Any]:
    podset = {
        "name": "main",
        "count": 1,
        "mode": "Fit",
        "flavors": {"cpu": {"flavor": "two", "mode": "Fit", "triedFlavorIdx": -1}},
        "requests": {"cpu": "3"},
        "attempts": [
            {
                "Flavor": "one",
                "Mode": "Preempt",
                "PreemptionPossibility": "Preempt",
                "Reasons": ["insufficient unused quota for cpu in flavor one, 2 more needed"],
            },
            {"Flavor": "two", "Mode": "Fit"},
        ],
    }
    assignment = {"usage": {"two/cpu": 3000}, "podSets": [{**podset, **changes}]}
    return {"representativeMode": "Fit", "assignment": assignment}


FLAVOR_TABLE = TABLES["TestAssignFlavors"]


def test_what_is_as_expected_passes() -> None:
    assert FLAVOR_TABLE(case(expected())) is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"representativeMode": "Preempt"}, "expected Preempt, got Fit"),
        ({"representativeMode": "Fit", "flavorByResource": {"cpu": "one"}}, "flavors"),
        ({**expected(), "assignment": {**expected()["assignment"], "usage": {}}}, "usage"),
        ({**expected(), "assignment": {**expected()["assignment"], "borrowing": 1}}, "borrowing"),
        (expected(count=2), "count"),
        (expected(requests={"cpu": "2"}), "requests"),
        (expected(flavors={"cpu": {"flavor": "two", "mode": "Fit", "triedFlavorIdx": 1}}), "flavors"),
        (expected(reasons=["flavor one not found"]), "reasons"),
        (expected(error="more than one TAS flavor assigned: one, two"), "error"),
        (expected(attempts=[{"Flavor": "two", "Mode": "Fit"}]), "attempts"),
        (expected(attempts=[*expected()["assignment"]["podSets"][0]["attempts"][:1]]), "attempts"),
    ],
)
def test_every_difference_is_reported(wrong: dict[str, Any], told: str) -> None:
    assert told in (FLAVOR_TABLE(case(wrong)) or "")


def test_a_gate_that_the_engine_does_not_have_skips_the_case() -> None:
    with pytest.raises(Skipped, match="SomeNewRule"):
        FLAVOR_TABLE({**case(expected()), "gates": {"SomeNewRule": True}})
