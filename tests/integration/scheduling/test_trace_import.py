"""A real trace through the running platform: everything ends, and nothing stays held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.running import RunningPlatform, large_team, run_platform
from tests.fixtures.books import books
from tests.fixtures.programs import run_to_end
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.shared]

JOBS = 150
SPEED = 50_000


@pytest.fixture
def running(migrated_file: Path) -> Iterator[RunningPlatform]:
    # The trace runs on the 96 cards of the demo cluster; the platform's own little cluster is not used.
    with run_platform(world=large_team(nodes=1, cards=1, demo_speed=600), migrated=migrated_file) as it:
        yield it


@pytest.mark.timeout(420)
def test_the_first_window_jobs_all_end_and_the_ledger_ends_at_zero(
    running: RunningPlatform, shared_dir: Path
) -> None:
    philly = shared_dir / "traces" / "philly"
    command = [
        *(sys.executable, "-m", "allotment.cli", "trace-import", str(philly / "jobs.csv")),
        *("--format", "philly", "--tenants", str(philly / "vcs.csv")),
        *("--limit", str(JOBS), "--speedup", str(SPEED), "--json", "-"),
    ]
    environment = {**os.environ, **running.environment}
    answer = run_to_end(command, env=environment, check=True, stdout=subprocess.PIPE, within_s=120)

    assert json.loads(answer.stdout) == {"jobs": JOBS, "submitted": JOBS, "rejected": []}

    def ended() -> dict[str, Any] | None:
        now = books(running)
        return now if now["states"] == {"succeeded": JOBS} else None

    wait_until(ended, f"all {JOBS} jobs have ended", within_s=270, every_s=0.5)
    wait_until(lambda: books(running)["held"] == 0, "every hold has been released", within_s=30)
    final = books(running)
    assert (final["used"], final["granted"]) == (0, 0)
    # Borrowers may have been evicted, some of them without own quota to restart in.
    assert max(final["attempts"]) < 20
