"""The columns of the allocation table, by charged job and by task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from foundation.core.quantities import Resource
from scheduling.engine import AllocationPut, AllocationRemoved, Delta, JobPut, JobRemoved, Snapshot
from scheduling.engine.model import (
    Allocation,
    Charge,
    DeviceSlice,
    FlavorResource,
    Instant,
    Job,
    JobState,
)
from scheduling.engine.preemption.candidates.allocation_table import (
    NO_ROW,
    AllocationTable,
    charges_and_cards,
    get_allocation_table,
    grow_table,
)
from tests.unit.scheduling.engine.builders import node, queue, quotas, world
from tests.unit.scheduling.engine.preemption.worlds import CARDS, held, running

CORES = FlavorResource("h100", Resource.GPU_CORES)
JOB_COLUMNS = ("queue", "priority", "leaving", "preemptible", "evictions", "tasks")
TIME_COLUMNS = ("since", "checkpoint", "min_run", "cards")
TASK_COLUMNS = ("row", "cards", "cores", "cpu", "memory", "card", "surplus")


def part(device: str, cores: int) -> DeviceSlice:
    return DeviceSlice(device=device, cores=cores, memory=0, exclusive=False)


def built(jobs: Iterable[Job], tasks: Iterable[Allocation]) -> Snapshot:
    """Return nodes `n0` with two cards and `n1` with three, and two queues."""
    empty = world(
        [node("n0", 2), node("n1", 3)],
        jobs,
        teams={"a": quotas(9), "b": quotas(9)},
        queues=[queue("a"), queue("b")],
    )
    empty.apply_delta(Delta(tuple(AllocationPut(task) for task in tasks)))
    return empty


def of_job(register: AllocationTable, job: str) -> list[tuple[object, ...]]:
    """Return the columns of a job, queue by queue; -1 for unknown times."""
    names = {number: name for name, number in register.queue_numbers.items()}
    found: list[tuple[object, ...]] = []
    for holding in register.find_charged(job):
        ints = [int(register.job_columns[name][holding.number]) for name in JOB_COLUMNS[1:]]
        times = [float(register.time_columns[name][holding.number]) for name in TIME_COLUMNS]
        known = [-1.0 if np.isnan(time) else time for time in times]
        found.append((names[int(register.job_columns["queue"][holding.number])], *ints, *known))
    return found


def tasks_of(register: AllocationTable, job: str) -> list[tuple[int, ...]]:
    places = [place for holding in register.find_charged(job) for place in holding.task_slots]
    return [tuple(int(register.task_columns[name][place]) for name in TASK_COLUMNS) for place in places]


@pytest.mark.parametrize(
    ("facts", "row"),
    [
        ({}, ("a", 0, 0, 1, 0, 2, 9_000.0, 0.0, -1.0, 2.0)),
        ({"priority": 7, "evictions": 2}, ("a", 7, 0, 1, 2, 2, 9_000.0, 0.0, -1.0, 2.0)),
        ({"preemptible": False}, ("a", 0, 0, 0, 0, 2, 9_000.0, 0.0, -1.0, 2.0)),
        ({"state": JobState.LEAVING}, ("a", 0, 1, 1, 0, 2, 9_000.0, 0.0, -1.0, 2.0)),
        ({"admitted_at": None}, ("a", 0, 0, 1, 0, 2, -1.0, 0.0, -1.0, 2.0)),
        ({"running_since": Instant(9_500)}, ("a", 0, 0, 1, 0, 2, 9_500.0, 0.0, -1.0, 2.0)),
        ({"checkpoint_interval_s": 60, "min_run_s": 5}, ("a", 0, 0, 1, 0, 2, 9_000.0, 60.0, 5.0, 2.0)),
        ({"min_run_s": 0}, ("a", 0, 0, 1, 0, 2, 9_000.0, 0.0, 0.0, 2.0)),
    ],
)
def test_what_is_known_of_a_job(facts: Mapping[str, object], row: tuple[object, ...]) -> None:
    job = running("j", "a", 2, **facts)
    register = get_allocation_table(built([job], held(job)))
    assert of_job(register, "j") == [row]
    assert list(register.find_charged("nobody")) == []


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.SUSPENDED])
def test_only_running_and_terminating_jobs_are_listed(state: JobState) -> None:
    job = running("j", "a", 2, state=state)
    register = get_allocation_table(built([job, running("idle", "a", 1)], held(job)))
    assert register.charged_jobs == [] and list(register.keys) == []


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ({"node": "n0"}, (0, 0, 0, 0, 0, NO_ROW, 0)),
        ({"node": "n1", "cpu": 3, "memory": 4}, (1, 0, 0, 3, 4, NO_ROW, 0)),
        ({"node": "elsewhere", "slices": (part("n0-gpu1", 30),)}, (NO_ROW, 1, 30, 0, 0, NO_ROW, 0)),
        ({"node": "n0", "slices": (part("n0-gpu1", 30),)}, (0, 1, 30, 0, 0, 1, 0)),
        ({"node": "n1", "slices": (part("n1-gpu2", 50),)}, (1, 1, 50, 0, 0, 2, 0)),
        ({"node": "n1", "slices": (part("lost", 50),)}, (1, 1, 50, 0, 0, NO_ROW, 0)),
        ({"node": "n1", "slices": (part("n1-gpu0", 100), part("n1-gpu1", 70))}, (1, 2, 170, 0, 0, NO_ROW, 0)),
    ],
)
def test_the_row_of_a_task_and_what_it_has(task: Mapping[str, object], row: tuple[int, ...]) -> None:
    job = running("j", "a", 1)
    placed = replace(held(job)[0], **task)  # type: ignore[arg-type]
    assert tasks_of(get_allocation_table(built([job], [placed])), "j") == [row]


def test_surplus_is_marked_and_never_of_terminating_tasks() -> None:
    job = running("j", "a", 4, least=2)
    marked = [row[-1] for row in tasks_of(get_allocation_table(built([job], held(job))), "j")]
    assert marked == [0, 0, 1, 1]
    gone = [replace(task, leaving=task.index >= 2) for task in held(job)]
    assert [row[-1] for row in tasks_of(get_allocation_table(built([job], gone)), "j")] == [0, 0, 0, 0]


@pytest.mark.parametrize(("leaving", "told"), [({0, 1}, 1), ({0}, 0), (set(), 0)])
def test_a_job_with_only_terminating_tasks_is_terminating(leaving: set[int], told: int) -> None:
    job = running("j", "a", 2)
    tasks = [replace(task, leaving=task.index in leaving) for task in held(job)]
    register = get_allocation_table(built([job], tasks))
    assert int(register.job_columns["leaving"][0]) == told


def test_a_job_in_two_queues_holds_twice() -> None:
    job = running("j", "a", 5, each=2)
    tasks = [replace(task, queue="ab"[task.index % 2]) for task in held(job)]
    register = get_allocation_table(built([job], tasks))
    assert [row[0] for row in of_job(register, "j")] == ["a", "b"]
    assert [[task.index for task in holding.tasks] for holding in register.find_charged("j")] == [
        [0, 2, 4],
        [1, 3],
    ]
    assert [holding.charges[CARDS] for holding in register.find_charged("j")] == [6, 4]
    assert all(holding.job is job for holding in register.find_charged("j"))


def test_charges_are_ordered_by_charged_job_and_quota() -> None:
    jobs = [running(name, "a", tasks, each=2) for name, tasks in (("x", 1), ("y", 1), ("z", 3))]
    tasks = [task for job in jobs for task in held(job)]
    tasks[1] = replace(tasks[1], charges=(Charge(*CORES, 40), Charge(*CORES, 30)))
    tasks[3] = replace(tasks[3], charges=(Charge(*CARDS, 5), Charge(*CORES, 20)))
    register = get_allocation_table(built(jobs, tasks))
    numbers = [next(iter(register.find_charged(job.id))).number for job in jobs]
    assert register.charges_of(CARDS)[numbers].tolist() == [2, 0, 2 + 5 + 2]
    assert register.charges_of(CORES)[numbers].tolist() == [0, 70, 20]
    assert register.time_columns["cards"][numbers].tolist() == [2.0, 0.7, 0.2]
    assert set(register.keys) == {CARDS, CORES}
    unknown = register.charges_of(FlavorResource("other", Resource.CPU))
    assert (unknown.tolist(), unknown.dtype) == ([0, 0, 0], np.int64)


def test_who_holds_the_same_is_charged_the_same_however_many_there_are() -> None:
    jobs = [running(f"j{number}", "a", tasks) for number, tasks in enumerate((2, 2, 3, 1, 1))]
    shared = (Charge(*CARDS, 4),)
    tasks = [replace(task, charges=shared) for job in jobs for task in held(job)]
    register = get_allocation_table(built(jobs, tasks))
    numbers = [next(iter(register.find_charged(job.id))).number for job in jobs]
    assert register.charges_of(CARDS)[numbers].tolist() == [8, 8, 12, 4, 4]
    assert register.time_columns["cards"][numbers].tolist() == [8.0, 8.0, 12.0, 4.0, 4.0]


def test_a_removed_job_leaves_no_row_and_its_number_is_reused() -> None:
    jobs = [running(name, "a", 2) for name in ("x", "y")]
    snapshot = built(jobs, [task for job in jobs for task in held(job)])
    register = get_allocation_table(snapshot)
    (number,) = [holding.number for holding in register.find_charged("x")]
    snapshot.apply_delta(Delta((*(AllocationRemoved(task.id) for task in held(jobs[0])), JobRemoved("x"))))
    assert get_allocation_table(snapshot) is register
    assert register.charged_jobs[number] is None and not register.job_columns["tasks"][number]
    assert register.charges_of(CARDS)[number] == 0
    assert sorted(register.task_columns["owner"].tolist()) == [NO_ROW, NO_ROW, 1 - number, 1 - number]
    coming = running("z", "b", 3)
    snapshot.apply_delta(Delta((JobPut(coming), *(AllocationPut(task) for task in held(coming)))))
    assert [holding.number for holding in get_allocation_table(snapshot).find_charged("z")] == [number]
    assert register.charges_of(CARDS)[number] == 3
    assert register.task_columns["owner"].tolist().count(number) == 3
    assert len(register.task_columns["owner"]) == 5


def test_what_did_not_change_is_not_looked_at_again() -> None:
    jobs = [running(name, "a", 1) for name in ("x", "y")]
    snapshot = built(jobs, [task for job in jobs for task in held(job)])
    before = {name: list(get_allocation_table(snapshot).find_charged(name)) for name in ("x", "y")}
    snapshot.apply_delta(Delta((JobPut(replace(jobs[0], priority=3)),)))
    after = {name: list(get_allocation_table(snapshot).find_charged(name)) for name in ("x", "y")}
    assert after["y"][0] is before["y"][0]
    assert after["x"][0] is not before["x"][0]


@pytest.mark.parametrize(
    ("charges", "total", "cards"),
    [
        ([(2,), (2,)], {CARDS: 4}, 4.0),
        ([(2,), (3,)], {CARDS: 5}, 5.0),
        ([(2, 1)], {CARDS: 3}, 3.0),
        ([(2,), (3,), (2,)], {CARDS: 7}, 7.0),
    ],
)
def test_what_tasks_are_worth_together(
    charges: list[tuple[int, ...]], total: Mapping[FlavorResource, int], cards: float
) -> None:
    job = running("j", "a", len(charges))
    tasks = tuple(
        replace(task, charges=tuple(Charge(*CARDS, amount) for amount in amounts))
        for task, amounts in zip(held(job), charges, strict=True)
    )
    assert charges_and_cards(tasks) == (total, cards)


@pytest.mark.parametrize(
    ("columns", "rows", "shape"),
    [(3, 2, (2, 3)), (1, 1, (2, 3)), (4, 2, (2, 8)), (3, 3, (6, 3)), (5, 4, (8, 10))],
)
def test_a_table_doubles_where_it_is_too_small(columns: int, rows: int, shape: tuple[int, int]) -> None:
    table = np.arange(1, 7).reshape(2, 3)
    larger = grow_table(table, columns, rows)
    assert larger.shape == shape
    assert larger[:2, :3].tolist() == table.tolist()
    assert larger.sum() == table.sum()
    assert (larger is table) == (shape == (2, 3))
