"""Trial changes are undone unless they are committed."""

from __future__ import annotations

import pytest

from scheduling.engine import Delta, SnapshotError, StatementError
from tests.unit.scheduling.engine.builders import cycle
from tests.unit.scheduling.engine.state.worlds import crowded


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
        with pytest.raises(StatementError, match="not applied"):
            snapshot.apply_delta(Delta())
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
