"""Submits the jobs of a trace at their original times, accelerated by a factor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.backends.simulated.faults import set_speed
from clusters.models import Cluster
from foundation.core.errors import AllotmentError
from scheduling.job_file import JobSpec, parse_job
from scheduling.services.jobs.job import job_submit
from scheduling.services.trace_import.philly import ImportedJob, Rejected, Trace
from scheduling.services.trace_import.places import QUEUE, ImportPool
from tenants.models import Tenant, User

CARDS_PER_NODE: Final = 8
Report = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """The real time, replaceable in tests: `now` in seconds from any origin, `wait` for seconds."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class Fed:
    """The result of an import."""

    submitted: int = 0
    rejected: list[Rejected] = field(default_factory=list)


def speed_set(pool: ImportPool, speedup: float) -> None:
    """Run the pool's simulated clusters `speedup` times as fast. Raises: Invalid, NotFound."""
    clusters: Iterable[Cluster] = {flavor.cluster_id: flavor.cluster for flavor in pool.flavors}.values()
    for cluster in clusters:
        set_speed(cluster.pk, speedup)


def feed_jobs(
    *,
    acting_user: User,
    trace: Trace,
    file: str,
    places: Mapping[str, Tenant],
    speedup: float,
    report: Report,
    pace: Pace = Pace(),
) -> Fed:
    """Submit each job when it is due; the result lists refused jobs with their lines."""
    fed = Fed()
    began = pace.now()
    first = trace.jobs[0].submit_s if trace.jobs else 0
    for number, job in enumerate(trace.jobs, start=1):
        late = (job.submit_s - first) / speedup - (pace.now() - began)
        if late > 0:
            pace.wait(late)
        try:
            job_submit(acting_user=acting_user, workspace=places[job.tenant], spec=spec_of(job))
            fed.submitted += 1
        except AllotmentError as error:
            fed.rejected.append(Rejected(file, job.line, "", f"{error.code}: {error.detail}"))
        report(number)
    return fed


def spec_of(job: ImportedJob) -> JobSpec:
    """Return the specification for a job of the trace; more cards than a node has become several tasks."""
    replicas = math.ceil(job.gpus / CARDS_PER_NODE)
    cards = min(job.gpus, CARDS_PER_NODE)
    body: dict[str, Any] = {
        "name": job.name,
        "queue": QUEUE,
        "kind": "batch" if replicas == 1 else "pytorch",
        "roles": [
            {
                "name": "worker",
                "replicas": replicas,
                "resources": {"cpu": cards, "memory": f"{4 * cards}Gi", "gpu": {"cards": cards}},
            }
        ],
        "simulate": {"run_s": job.duration_s, "exit_code": 0},
    }
    return parse_job(body)
