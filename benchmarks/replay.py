"""`allotment bench replay`: the published trace through the engine, one policy after the other.

Under `quota` the trace is also compressed in time, and the figures have limits: violated guarantees, waiting
time, lost work, evictions of one job. Needs the traces: `ALLOTMENT_SHARED`, or a folder `shared` beside the
checkout.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.replay_events import EventLine, EventPool, check_events
from benchmarks.support.report import FigureRow, Report, read_limits
from scheduling.simulation.philly import TraceJob, TraceTenant, read_jobs, read_tenants
from scheduling.simulation.replay import ReplayReport, run_replay

POLICIES = ("static-fifo", "static-sjf")
FACTORS = (1.0, 1.15, 1.2, 1.3, 1.45)


def run() -> Report:
    """Replay once per policy, and under `quota` once per factor. Raises: InputError without the traces."""
    bounds = read_limits("replay")
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("ALLOTMENT_SHARED") or beside) / "traces" / "philly"
    tenants = read_tenants(folder / "vcs.csv")
    jobs = read_jobs(folder / "jobs.csv", tenants)
    seconds = [run_replay(jobs, tenants, policy=policy).wall_s for policy in POLICIES]
    rows = [
        FigureRow(f"{policy}, s", taken, bounds["seconds_per_policy"])
        for policy, taken in zip(POLICIES, seconds, strict=True)
    ]
    for factor in FACTORS:
        report = run_replay(jobs, tenants, policy="quota", compress=factor)
        seconds.append(report.wall_s)
        rows += _judged(report, jobs, factor, bounds)
        rows += _checked(report, tenants, factor, bounds)
    return Report(
        name="replay",
        size={"jobs": len(jobs), "runs": len(seconds)},
        rows=rows,
        seconds=sum(seconds),
        rate=len(jobs) * len(seconds) / sum(seconds),
    )


def _judged(
    report: ReplayReport, jobs: Sequence[TraceJob], factor: float, bounds: Mapping[str, Any]
) -> list[FigureRow]:
    """Return the figures of one run under `quota`; waiting time has a limit at the trace's own pace only."""
    name = f"quota x {factor:g}"
    run_hours = sum(job.gpus * job.duration_s for job in jobs) / 3600
    lost = 100 * report.lost_gpu_hours / run_hours
    waited = bounds["quota_queue_s"] if factor == 1 else None
    return [
        FigureRow(f"{name}, s", report.wall_s, bounds["seconds_per_policy"]),
        FigureRow(f"{name}, broken guarantees", report.guarantee_violations, bounds["broken_guarantees"]),
        FigureRow(f"{name}, mean queue, s", report.queue.mean, waited),
        FigureRow(f"{name}, GPU-hours lost, %", round(lost, 3), bounds["lost_percent"]),
        FigureRow(
            f"{name}, evictions of one job", report.max_evictions_of_one_job, bounds["evictions_of_one_job"]
        ),
    ]


def _checked(
    report: ReplayReport, tenants: Sequence[TraceTenant], factor: float, bounds: Mapping[str, Any]
) -> list[FigureRow]:
    """Return checks of a run from its events alone, without the replay's own counts."""
    lines = (
        EventLine(each.t_s, each.event, each.job, each.tenant, each.gpus, each.nodes)
        for each in report.events
    )
    pool = EventPool({tenant.name: tenant.nodes for tenant in tenants}, tenants[0].cards_per_node)
    found, name = check_events(lines, pool), f"quota x {factor:g}, by its events"
    return [
        FigureRow(f"{name}, broken guarantees", len(found.owed), bounds["broken_guarantees"]),
        FigureRow(f"{name}, needless evictions", len(found.needless), bounds["needless_evictions"]),
        FigureRow(f"{name}, misplaced starts", found.misplaced, 0),
    ]
