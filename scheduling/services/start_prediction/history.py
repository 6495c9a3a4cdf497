"""Reads the history of a cell for predictions: its latest jobs and their runs, in a limited number of
rows."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from foundation.sql import row_scope
from scheduling.engine import model as em
from scheduling.engine_input.jobs import engine_job
from scheduling.models import HOLDING_STATES, Attempt, Job, JobRole, JobState
from scheduling.prediction.arrivals import Arrival, ArrivalHistory
from scheduling.prediction.forecast import History
from scheduling.prediction.run_times import JobTraits, PastRun, RunTimes

WINDOW: Final = timedelta(days=56)
"""The period before now that a forecast uses, with the latest `MOST_JOBS` jobs at most."""
MOST_JOBS: Final = 10_000
LEAST_RUNS: Final = 20
"""The number of ended runs from which on starts are predicted."""

_OWN_END: Final = (em.EvictRule.TIME_LIMIT, em.EvictRule.IDLE)
CUT_SHORT: Final = frozenset(rule.value for rule in em.EvictRule if rule not in _OWN_END)
"""The eviction rules that cut a run short: without the eviction it would have run longer."""
_UNUSED: Final = ("environment", "volumes", "reason_numbers", "reason_help")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt that has begun; `ended` is true if it was not cut short, `live` if it still runs."""

    job_id: uuid.UUID
    seconds: float
    ended: bool
    live: bool


@row_scope.whole()
def read_history(cell_id: uuid.UUID, present: Mapping[str, Job], *, now: datetime) -> History | None:
    """Return the history of a cell, or None while too few runs have ended; `present` are the snapshot's jobs.

    It takes three queries.
    """
    past = Job.unscoped.filter(queue__cell_id=cell_id, submitted_at__gt=now - WINDOW, submitted_at__lte=now)
    newest = list(past.defer(*_UNUSED).order_by("-submitted_at", "-pk")[:MOST_JOBS])
    known = {job.pk: job for job in (*newest, *present.values())}
    roles = _roles_of(newest, present.values(), cell_id, now)
    attempts = _attempts_of(newest, cell_id, now)
    traits = {pk: traits_of(job, roles[pk]) for pk, job in known.items() if pk in roles}
    runs = [
        PastRun(traits[one.job_id], one.seconds, one.ended)
        for many in attempts.values()
        for one in many
        if one.job_id in traits
    ]
    if sum(run.ended for run in runs) < LEAST_RUNS:
        return None
    since = newest[-1].submitted_at.timestamp()
    return History(
        run_times=RunTimes(runs),
        arrivals=ArrivalHistory(
            [_arrival(job, roles[job.pk], attempts.get(job.pk, ())) for job in newest if job.pk in roles],
            since=since,
            until=now.timestamp(),
        ),
        traits={key: traits[job.pk] for key, job in present.items() if job.pk in traits},
        ran_s={
            key: max(cut)
            for key, job in present.items()
            if (cut := [one.seconds for one in attempts.get(job.pk, ()) if not one.ended and not one.live])
        },
    )


def traits_of(job: Job, roles: Sequence[JobRole]) -> JobTraits:
    """Return the traits by which jobs are compared; the size is in hundredths of a GPU."""
    return JobTraits(
        workspace=str(job.workspace_id),
        user=str(job.submitted_by_id),
        image=roles[0].image,
        kind=job.kind,
        size=sum(role.replicas * role.gpu_cards * role.gpu_cores for role in roles),
    )


def _roles_of(
    newest: Collection[Job], present: Collection[Job], cell_id: uuid.UUID, now: datetime
) -> Mapping[uuid.UUID, list[JobRole]]:
    found: defaultdict[uuid.UUID, list[JobRole]] = defaultdict(list)
    wanted = {job.pk for job in newest} | {job.pk for job in present}
    for role in (
        JobRole.unscoped.filter(_recent(newest, cell_id, now, prefix="job__"))
        .defer("command")
        .order_by("job_id", "position")
    ):
        if role.job_id in wanted:
            found[role.job_id].append(role)
    return found


def _attempts_of(
    newest: Collection[Job], cell_id: uuid.UUID, now: datetime
) -> Mapping[uuid.UUID, list[_Attempt]]:
    found: defaultdict[uuid.UUID, list[_Attempt]] = defaultdict(list)
    rows = Attempt.unscoped.filter(_recent(newest, cell_id, now, prefix="job__"), admitted_at__lte=now)
    for job_id, admitted, started, ended, rule in (
        rows.order_by("job_id", "number")
        .values_list("job_id", "admitted_at", "started_at", "ended_at", "end_reason")
        .iterator()
    ):
        if started is None and ended is not None:
            continue  # it never ran
        seconds = ((ended or now) - (started or admitted)).total_seconds()
        own_end = ended is not None and rule not in CUT_SHORT
        found[job_id].append(_Attempt(job_id, max(seconds, 1.0), own_end, ended is None))
    return found


def _recent(newest: Collection[Job], cell_id: uuid.UUID, now: datetime, *, prefix: str) -> Q:
    """Return the filter for rows of the newest jobs and of all unfinished jobs."""
    oldest = min((job.submitted_at for job in newest), default=now)
    live = Q(**{f"{prefix}state__in": (JobState.QUEUED, *HOLDING_STATES)})
    return Q(**{f"{prefix}queue__cell_id": cell_id}) & (live | Q(**{f"{prefix}submitted_at__gte": oldest}))


def _arrival(job: Job, roles: Sequence[JobRole], attempts: Sequence[_Attempt]) -> Arrival:
    ended = next((one for one in attempts if one.ended), None)
    ran = ended.seconds if ended else max((one.seconds for one in attempts), default=0.0)
    # An arrival has the job as it was submitted, not its current state.
    state, job.state = job.state, JobState.QUEUED
    as_new = engine_job(job, roles)
    job.state = state
    return Arrival(job.submitted_at.timestamp(), as_new, traits_of(job, roles), ran, ended is not None)
