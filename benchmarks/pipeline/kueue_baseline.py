"""`--shape kueue-baseline`: Kueue's own performance test against a whole platform, in real time.

The limits of waiting times are those that Kueue itself reached with its own runner; its figures and those of
an earlier run of this benchmark, measured on the same machine within one hour, are printed beside the new
ones.

A platform on PostgreSQL with its web process, workers, relay and broker; the cluster is simulated. A client
for each cohort submits the jobs that are due every half second. A job counts as created at its planned time,
not when its request was sent or answered, and as admitted at its first admission.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg

from benchmarks.pipeline.kueue_shape import CLASSES, PlannedWorkload, plan_workloads
from benchmarks.support.postgres import PostgresServer
from benchmarks.support.processor import seconds_of_family
from benchmarks.support.report import FigureRow, Report, read_limits
from benchmarks.support.running import DATABASE, RunningPlatform, platform_on_postgres

_TICK_S: Final = 0.5
_MOST: Final = 500
# A poll reads all jobs with the measured processors, so polls are rare; the last end is read from the rows.
_POLL_S: Final = 2.0
_OUTCOMES: Final = "SELECT state, count(*) FROM scheduling_job GROUP BY state"
_ADMISSIONS: Final = """
SELECT w.slug, j.name, extract(epoch FROM a.admitted_at)::float8, extract(epoch FROM j.finished_at)::float8,
    extract(epoch FROM b.ended_at - b.admitted_at)::float8
FROM scheduling_job j JOIN tenants_tenant w ON w.id = j.workspace_id
JOIN scheduling_attempt a ON a.job_id = j.id AND a.number = 1
JOIN scheduling_attempt b ON b.job_id = j.id AND b.end_reason = 'SUCCEEDED'
"""


def run(share: float = 1.0) -> Report:
    """Measure once, with a `share` of the jobs."""
    bounds = read_limits("kueue-baseline")
    cohorts, queues = bounds["cohorts"], bounds["queues"]
    jobs = {f"cohort-{number}": list(plan_workloads(queues, share)) for number in range(cohorts)}
    world = ("benchmarks.pipeline.kueue_world", cohorts, queues, bounds["nominal"], bounds["borrowing"])
    with platform_on_postgres(world=world) as (running, server):
        before = _spent(running, server)
        begun = time.time()
        with ThreadPoolExecutor(cohorts) as pool:
            list(pool.map(lambda slug: _submit(running, slug, jobs[slug], begun), jobs))
        submitted_s = time.time() - begun
        outcomes = _wait(server, sum(map(len, jobs.values())), bounds["deadline_s"])
        spent = {name: used - before[name] for name, used in _spent(running, server).items()}
        waits, wall_s, beyond_s = _admissions(server, jobs, begun)
    aside = [
        FigureRow("last job submitted, s", submitted_s),
        FigureRow("a card held beyond its job's run, s", beyond_s),
    ]
    aside += [FigureRow(f"processor of {name}, s", used) for name, used in spent.items()]
    return _report(bounds, waits, wall_s, outcomes, aside)


def _submit(running: RunningPlatform, slug: str, jobs: Sequence[PlannedWorkload], begun: float) -> None:
    """Submit each job of a cohort once it is due."""
    connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
    sent = 0
    while sent < len(jobs):
        elapsed = time.time() - begun
        due = [job for job in jobs[sent : sent + _MOST] if job.at_s <= elapsed]
        if due:
            body = json.dumps({"jobs": [job.job_file() for job in due]})
            connection.request("POST", f"/api/v1/workspaces/{slug}/job-submissions", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 202 or json.loads(text)["failed"]:
                raise RuntimeError(f"jobs of {slug} were answered {answer.status}: {text[:500]!r}")
            sent += len(due)
        time.sleep(max(0.0, _TICK_S - (time.time() - begun - elapsed)))
    connection.close()


def _wait(server: PostgresServer, jobs: int, deadline_s: float) -> Mapping[str, int]:
    """Wait until every job has ended; return the number of jobs by final state."""
    deadline = time.monotonic() + deadline_s
    with server.connect_database(DATABASE) as connection:
        while True:
            states = dict(connection.execute(_OUTCOMES).fetchall())
            if states.get("succeeded", 0) + states.get("failed", 0) >= jobs:
                return states
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all jobs have ended within {deadline_s} s: {states}")
            time.sleep(_POLL_S)


def _admissions(
    server: PostgresServer, jobs: Mapping[str, Sequence[PlannedWorkload]], begun: float
) -> tuple[dict[str, list[float]], float, float]:
    """Return the seconds to admission per class, the seconds from the start to the last end, and the mean
    seconds for which a GPU was held beyond its job's run time; perfect scheduling would not need these.
    """
    created = {(slug, job.name): job for slug, each in jobs.items() for job in each}
    waits: defaultdict[str, list[float]] = defaultdict(list)
    last, beyond_s, cards = begun, 0.0, 0
    with psycopg.connect(server.database_url(DATABASE)) as connection:
        for slug, name, admitted, finished, held_s in connection.execute(_ADMISSIONS):
            job = created[slug, name]
            waits[job.kind.name].append(admitted - begun - job.at_s)
            last = max(last, finished)
            beyond_s += (held_s - job.kind.run_ms / 1000) * job.kind.cards
            cards += job.kind.cards
    return dict(waits), last - begun, beyond_s / cards


def _spent(running: RunningPlatform, server: PostgresServer) -> dict[str, float]:
    """Return the processor seconds so far of the platform's parts and of PostgreSQL."""
    return {**running.processor_seconds(), "PostgreSQL": seconds_of_family(server.process.pid)}


def _report(
    bounds: Mapping[str, Any],
    waits: Mapping[str, Sequence[float]],
    wall_s: float,
    outcomes: Mapping[str, int],
    aside: Sequence[FigureRow],
) -> Report:
    total = sum(map(len, waits.values()))
    rows = [_against_kueue("first creation to last end, s", wall_s, bounds["wall_s"], bounds, "wall_s")]
    for kind in CLASSES:
        known = {"kueue_s": bounds["kueue_s"][kind.name], "our_s": bounds["our_s"][kind.name]}
        what = f"{kind.name} jobs: mean from creation to admission, s"
        rows.append(_against_kueue(what, fmean(waits[kind.name]), known["kueue_s"], known, "s"))
    rows.append(FigureRow("jobs that did not succeed", float(total - outcomes.get("succeeded", 0)), 0.0))
    rows += aside
    return Report(
        name="pipeline kueue-baseline", size={"jobs": total}, rows=rows, seconds=wall_s, rate=total / wall_s
    )


def _against_kueue(
    what: str, measured: float, limit: float, known: Mapping[str, Any], figure: str
) -> FigureRow:
    """Return a figure beside those of Kueue and of an earlier run."""
    return FigureRow(
        what, measured, limit, {"Kueue": known[f"kueue_{figure}"], "earlier run": known[f"our_{figure}"]}
    )
