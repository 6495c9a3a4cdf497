"""The engine against Kueue's case table of topology-aware placement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduling.conformance.kueue.tables.topology import find_difference, options_from

TABLE = "conformance/kueue/TestFindTopologyAssignments.json"


@pytest.fixture(scope="module")
def table(shared_dir: Path) -> Path:
    path = shared_dir / TABLE
    if not path.is_file():
        pytest.skip(
            f"no case table in {path}; to get it: point ALLOTMENT_SHARED at the folder with conformance/"
        )
    return path


@pytest.mark.shared
def test_every_case_of_the_table_passes(table: Path) -> None:
    cases = json.loads(table.read_text())["cases"]
    failed = {case["name"]: difference for case in cases if (difference := find_difference(case)) is not None}
    assert len(cases) >= 100
    assert failed == {}


@pytest.mark.shared
def test_the_table_notices_another_algorithm(table: Path) -> None:
    cases = json.loads(table.read_text())["cases"]
    balanced = [case for case in cases if case["gates"].get("TASBalancedPlacement")]
    assert any(find_difference({**case, "gates": {}}) is not None for case in balanced)


def test_gates_switch_the_profiles() -> None:
    options = options_from({"TASProfileMixed": False, "TASBalancedPlacement": True})
    assert (options.mixed_profile, options.balanced) == (False, True)
    assert options_from(None).mixed_profile
