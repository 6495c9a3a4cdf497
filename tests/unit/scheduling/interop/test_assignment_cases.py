"""Kueue's tables of flavor assignment, case by case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduling.interop.kueue.assignment import TABLES


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_case_of_the_table_passes(table: str, shared_dir: Path) -> None:
    path = shared_dir / "conformance" / "kueue" / f"{table}.json"
    if not path.is_file():
        pytest.skip(f"no case tables in {path.parent}")
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    failed = {case["name"]: TABLES[table](case) for case in cases}
    assert {name: why for name, why in failed.items() if why is not None} == {}
    assert cases
