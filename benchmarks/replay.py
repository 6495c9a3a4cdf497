"""`allotment bench replay`: the published trace through the engine, one policy after the other.

Needs the traces: `ALLOTMENT_SHARED`, or a folder `shared` beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.report import Report, Row, limits
from scheduling.offline.philly import read_jobs, read_tenants
from scheduling.offline.replay import run_replay

POLICIES = ("static-fifo", "static-sjf")


def run() -> Report:
    """Replay once per policy. Raises: InputError when the traces are missing."""
    bound = limits("replay")["seconds_per_policy"]
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("ALLOTMENT_SHARED") or beside) / "traces" / "philly"
    tenants = read_tenants(folder / "vcs.csv")
    jobs = read_jobs(folder / "jobs.csv", tenants)
    seconds = {policy: run_replay(jobs, tenants, policy=policy).wall_s for policy in POLICIES}
    total = sum(seconds.values())
    return Report(
        name="replay",
        size={"jobs": len(jobs), "policies": len(POLICIES)},
        rows=[Row(f"{policy}, s", taken, bound) for policy, taken in seconds.items()],
        seconds=total,
        rate=len(jobs) * len(POLICIES) / total,
    )
