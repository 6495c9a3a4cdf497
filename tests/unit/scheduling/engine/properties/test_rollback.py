"""A trial that is rolled back leaves nothing behind, whatever was done and undone inside it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import Snapshot
from tests.unit.scheduling.engine.properties.laws import law
from tests.unit.scheduling.engine.state.worlds import crowded

Steps = list[tuple[str, int]]
QUEUES = ("a", "b")


def facts(snapshot: Snapshot) -> tuple[object, ...]:
    """The snapshot, and what it keeps at hand so as not to work it out again."""
    jobs = {
        name: (snapshot.count_tasks(name), snapshot.allocations_of(name), snapshot.charges_of(name))
        for name in sorted(snapshot.jobs)
    }
    holders = [snapshot.jobs_charged_to(queue) for queue in QUEUES]
    return snapshot.to_json(), jobs, holders, snapshot.leaving_allocations()


steps = st.lists(st.tuples(st.sampled_from("adcr"), st.integers(0, 20)), max_size=25)


@given(steps, steps)
@law
def test_rollback_restores_the_snapshot_exactly(before: Steps, what_if: Steps) -> None:
    snapshot, made = crowded()
    for kind, pick in before:
        task = made[pick % len(made)]
        if kind == "a" and task.id not in snapshot.allocations:
            snapshot.add_allocation(task)
    text = facts(snapshot)
    with snapshot.statement() as statement:
        marks = [(statement.checkpoint(), facts(snapshot))]
        for kind, pick in what_if:
            task = made[pick % len(made)]
            if kind == "a" and task.id not in snapshot.allocations:
                statement.allocate(task)
            elif kind == "d" and task.id in snapshot.allocations:
                assert statement.release(task.id) == task
            elif kind == "c":
                marks.append((statement.checkpoint(), facts(snapshot)))
            elif kind == "r":
                chosen = pick % len(marks)
                mark, then = marks[chosen]
                statement.rollback(mark)
                assert facts(snapshot) == then
                del marks[chosen + 1 :]
    assert facts(snapshot) == text
