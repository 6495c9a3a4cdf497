"""The access matrix notices when a permission check is taken away.

The checks are taken away in a process of its own, whose platform is imported with a question in front of
each. Normally a sample is tried; `ALLOTMENT_FAULTS=all` tries every check there is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.fixtures.migrated import HANDED_ON
from tests.fixtures.programs import run_to_end


def test_a_check_that_is_taken_away_is_noticed(migrated_file: Path) -> None:
    everything = os.environ.get("ALLOTMENT_FAULTS") == "all"
    command = [
        sys.executable, "-m", "pytest", "-p", "tests.access.planting", "-p", "no:cacheprovider", "-q", "-s",
        "--log-level=CRITICAL", "-o", "timeout=0", "tests/access/fault_run.py",
    ]  # fmt: skip
    found = run_to_end(
        command, cwd=ROOT, env={**os.environ, HANDED_ON: str(migrated_file)}, capture_output=True, text=True,
        within_s=7200 if everything else 150, check=False,
    )  # fmt: skip
    told = [line for line in found.stdout.splitlines() if "[warning" not in line]
    assert found.returncode == 0, "\n".join(told[-60:])
