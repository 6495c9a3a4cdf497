"""The earliest starts of several pending jobs, found together, equal those found end by end."""

from __future__ import annotations

import random

import pytest

from scheduling.engine import Snapshot
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.admission.nominator import EvaluationRequest, Nominator
from scheduling.engine.actions.admission.start_forecast import StartForecast
from scheduling.engine.cycle import start_session
from scheduling.engine.gang import RefusalCache
from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.quota.assignment import Assignment
from scheduling.engine.session.config import EngineConfig
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role

NOW = 1_000


def many_jobs(seed: int, *, flavors: int) -> Snapshot:
    """Four full nodes of one flavor or two, jobs that end at different times, and gangs that wait."""
    draw = random.Random(seed)
    names = [f"f{number}" for number in range(flavors)]
    nodes = [node(f"n{index}", 4, labels={"pool": names[index % flavors]}) for index in range(4)]
    running, where = [], {}
    for index in range(8):
        limit = draw.choice([None, *(draw.randrange(NOW, 3 * NOW) for _ in range(5))])
        running.append(live(job(f"r{index}", "a", role(1, 2), max_run_s=limit)))
        where[f"r{index}"] = [f"n{index % 4}"]
    waiting = [
        job(f"w{name}", name, role(draw.randrange(1, 4), draw.randrange(1, 5)), at=index)
        for index, name in enumerate("abc")
    ]
    teams = {name: quotas(8, flavors=names) for name in "abc"}
    return running_world(
        nodes,
        where,
        [*running, *waiting],
        teams=teams,
        flavors=[flavor(name, node_labels={"pool": name}) for name in names],
        queues=[queue(name, flavors=tuple(names)) for name in "abc"],
    )


def one_by_one(snapshot: Snapshot, nominator: Nominator, waiting: Job) -> float | None:
    """The first end after which a job finds its places."""
    running = [entry for entry in snapshot.jobs.values() if entry.state is JobState.LIVE]
    ends = sorted((entry.max_run_s, entry.id) for entry in running if entry.max_run_s is not None)
    with snapshot.statement() as gone:
        for at, name in ends:
            for task in snapshot.allocations_of(name):
                gone.release(task.id)
            with snapshot.statement() as trial:
                ask = EvaluationRequest(RefusalCache(), may_preempt=False)
                if nominator.evaluate_job(trial, snapshot.queues[waiting.queue], waiting, ask).fits:
                    return at
    return None


@pytest.mark.parametrize("flavors", [1, 2])
@pytest.mark.parametrize("seed", range(25))
def test_together_as_one_by_one(seed: int, flavors: int) -> None:
    snapshot = many_jobs(seed, flavors=flavors)
    session = start_session(snapshot, EngineConfig(), Instant(NOW))
    with snapshot.statement():
        nominator, outlook = Nominator(session, may_preempt=False), FutureView(snapshot)
        jobs = [entry for entry in snapshot.jobs.values() if entry.state is JobState.QUEUED]
        queues, none = snapshot.queues, Assignment(roles=())
        waiting = [NominatedJob(job=one, queue=queues[one.queue], assignment=none) for one in jobs]
        found = StartForecast(session, nominator, outlook).forecast_starts(waiting)
        expected = {one.queue: one_by_one(snapshot, nominator, one) for one in jobs}
    assert {name: kept and kept.shadow_time for name, kept in found.items()} == expected
