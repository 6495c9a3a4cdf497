"""What-ifs leave no trace unless they are committed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import Delta, Snapshot, SnapshotError, StatementError
from scheduling.engine.model import Allocation
from tests.unit.scheduling.engine.builders import cycle, job, node, quotas, role, world


def crowded() -> tuple[Snapshot, list[Allocation]]:
    """A world with two teams, and twelve allocations that could be made in it."""
    jobs = [job(f"w{index}", "a" if index % 2 else "b", at=index) for index in range(4)]
    jobs += [job(f"s{index}", "a", role(2, 1, cores=30, cpu=500), at=9 + index) for index in range(4)]
    teams = {"a": quotas(3), "b": quotas(2, lend=1)}
    snapshot = world([node("n1"), node("n2", 4)], jobs, teams=teams)
    made = [task for entry in cycle(snapshot).decisions for task in entry.allocations]
    return snapshot, made


Steps = list[tuple[str, int]]
steps = st.lists(st.tuples(st.sampled_from("adcr"), st.integers(0, 20)), max_size=25)


@given(steps, steps)
@settings(max_examples=60, deadline=None)
def test_rollback_restores_the_snapshot_exactly(
    before: list[tuple[str, int]], what_if: list[tuple[str, int]]
) -> None:
    snapshot, made = crowded()
    for kind, pick in before:
        task = made[pick % len(made)]
        if kind == "a" and task.id not in snapshot.allocations:
            snapshot.take(task)
    text = snapshot.to_json()
    with snapshot.statement() as statement:
        marks = [(statement.checkpoint(), snapshot.to_json())]
        for kind, pick in what_if:
            task = made[pick % len(made)]
            if kind == "a" and task.id not in snapshot.allocations:
                statement.allocate(task)
            elif kind == "d" and task.id in snapshot.allocations:
                assert statement.release(task.id) == task
            elif kind == "c":
                marks.append((statement.checkpoint(), snapshot.to_json()))
            elif kind == "r":
                chosen = pick % len(marks)
                mark, then = marks[chosen]
                statement.rollback(mark)
                assert snapshot.to_json() == then
                del marks[chosen + 1 :]
    assert snapshot.to_json() == text


def test_commit_keeps_and_an_outer_statement_can_still_undo() -> None:
    snapshot, made = crowded()
    text = snapshot.to_json()
    with snapshot.statement():
        with snapshot.statement() as inner:
            inner.allocate(made[0])
            inner.commit()
        assert made[0].id in snapshot.allocations
    assert snapshot.to_json() == text
    with snapshot.statement() as outer:
        outer.allocate(made[0])
        outer.commit()
    assert made[0].id in snapshot.allocations


def test_an_error_undoes_even_what_was_committed() -> None:
    snapshot, made = crowded()
    text = snapshot.to_json()
    with pytest.raises(RuntimeError, match="in between"), snapshot.statement() as statement:
        statement.allocate(made[0])
        statement.commit()
        raise RuntimeError("in between")
    assert snapshot.to_json() == text


def test_misuse_is_refused() -> None:
    snapshot, made = crowded()
    statement = snapshot.statement()
    with pytest.raises(StatementError, match="not open"):
        statement.allocate(made[0])
    with statement:
        mark = statement.checkpoint()
        statement.allocate(made[0])
        later = statement.checkpoint()
        with pytest.raises(SnapshotError, match="already"):
            statement.allocate(made[0])
        with pytest.raises(StatementError, match="advance"):
            snapshot.apply(Delta())
        statement.rollback(mark)
        with pytest.raises(StatementError, match="checkpoint"):
            statement.rollback(later)
        with pytest.raises(SnapshotError, match="no allocation"):
            statement.release(made[0].id)


def test_a_cycle_leaves_the_snapshot_as_it_was() -> None:
    snapshot, made = crowded()
    text = snapshot.to_json()
    assert made
    cycle(snapshot)
    assert snapshot.to_json() == text
