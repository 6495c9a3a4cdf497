"""The allocation table that is kept between cycles equals a new one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Delta,
    JobPut,
    JobRemoved,
    NodeRemoved,
    Snapshot,
)
from scheduling.engine.model import Allocation, Instant, Job, JobState
from scheduling.engine.preemption.candidates.allocation_table import (
    NO_ROW,
    AllocationTable,
    get_allocation_table,
)
from scheduling.engine.state.job_changes import MAX_REMEMBERED, JobChanges
from tests.unit.scheduling.engine.builders import node
from tests.unit.scheduling.engine.preemption.worlds import CARDS, cohort, held, running


def facts(register: AllocationTable) -> list[tuple[object, ...]]:
    """All that a register knows, holding by holding, without the numbers that it gave."""
    names = {number: name for name, number in register.queue_numbers.items()}
    found: list[tuple[object, ...]] = []
    for holding in filter(None, register.charged_jobs):
        at = holding.number
        ints = [int(register.job_columns[name][at]) for name in ("priority", "leaving", "evictions", "tasks")]
        times = [str(register.time_columns[name][at]) for name in ("since", "checkpoint", "min_run", "cards")]
        assert set(register.task_columns["owner"][holding.task_slots]) == {at}
        assert holding.charges[CARDS] == register.charges_of(CARDS)[at]
        rows = register.task_columns["row"][holding.task_slots].tolist()
        spared = register.task_columns["surplus"][holding.task_slots].tolist()
        assert spared == [task in holding.surplus for task in holding.tasks]
        ids = [task.id for task in holding.tasks]
        found.append(
            (holding.job.id, names[int(register.job_columns["queue"][at])], ids, rows, *ints, *times)
        )
    used = sum(len(holding.task_slots) for holding in filter(None, register.charged_jobs))
    assert used == int((register.task_columns["owner"] != NO_ROW).sum())
    return sorted(found)


def changed(snapshot: Snapshot, draw: random.Random, serial: int) -> None:
    """One thing happens."""
    ids, jobs = sorted(snapshot.allocations), sorted(snapshot.jobs)
    match draw.randrange(5):
        case 0:
            tasks, least = draw.randrange(1, 4), draw.choice((None, 1))
            job = running(f"n{serial}", draw.choice("ab"), tasks, least=least, priority=draw.randrange(3))
            snapshot.apply_delta(Delta((JobPut(job), *(AllocationPut(task) for task in placed(job, draw)))))
        case 1 if ids:
            snapshot.apply_delta(Delta((AllocationRemoved(draw.choice(ids)),)))
        case 2 if jobs:
            job = snapshot.jobs[draw.choice(jobs)]
            state = draw.choice((JobState.LIVE, JobState.LEAVING, JobState.QUEUED))
            snapshot.apply_delta(Delta((JobPut(replace(job, state=state, running_since=Instant(serial))),)))
        case 3 if jobs:
            name = draw.choice(jobs)
            gone = [AllocationRemoved(task.id) for task in snapshot.allocations_of(name)]
            snapshot.apply_delta(Delta((*gone, JobRemoved(name))))
        case 4 if ids:
            with snapshot.statement() as statement:
                statement.release(draw.choice(ids))
                get_allocation_table(snapshot)


def placed(job: Job, draw: random.Random) -> list[Allocation]:
    return [replace(task, node=f"n{draw.randrange(4)}") for task in held(job)]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_what_a_fresh_look_finds(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = cohort({"a": 9, "b": 9}, [running("j", "a", 2)])
    snapshot = Snapshot(
        nodes=[node(f"n{number}", 0) for number in range(3)],
        flavors=snapshot.flavors.values(),
        quota_nodes=snapshot.export_quota_nodes(),
        queues=snapshot.queues.values(),
        jobs=snapshot.jobs.values(),
        allocations=snapshot.allocations.values(),
    )
    for serial in range(40):
        changed(snapshot, draw, serial)
        if serial == 30:
            snapshot.apply_delta(Delta((NodeRemoved("n0"),)))
        if draw.random() < 0.5:
            fresh = AllocationTable()
            fresh.update_from(snapshot)
            assert facts(get_allocation_table(snapshot)) == facts(fresh)


def test_changes_are_reported_by_when_they_happened_last() -> None:
    changes = JobChanges()
    for name in ("a", "b", "a", "c"):
        changes.record_job(name)
    assert changes.jobs_since(0) == ["c", "a", "b"]
    assert changes.jobs_since(2) == ["c", "a"]
    assert changes.jobs_since(changes.number) == []


def test_who_looks_too_rarely_has_to_look_at_everything() -> None:
    changes = JobChanges()
    for number in range(MAX_REMEMBERED + 2):
        changes.record_job(str(number))
    assert changes.jobs_since(0) is None
    assert changes.jobs_since(changes.number - 1) == [str(MAX_REMEMBERED + 1)]
