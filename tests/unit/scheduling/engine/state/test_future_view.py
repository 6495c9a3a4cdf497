"""A cycle reads two views: the present one, and the future one after all terminations."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduling.engine import AllocationPut, AllocationRemoved, Delta, JobRemoved, Snapshot, StatementError
from scheduling.engine.model import Allocation
from tests.unit.scheduling.engine.state.worlds import crowded


def peopled() -> tuple[Snapshot, list[Allocation]]:
    """A world in which half of the allocations that could be made are made."""
    snapshot, made = crowded()
    snapshot.apply_delta(Delta(tuple(AllocationPut(task) for task in made[::2])))
    return snapshot, made[1::2]


def books(snapshot: Snapshot) -> tuple[object, ...]:
    """All that the snapshot shows of what is held."""
    fleet = snapshot.fleet
    free = (fleet.cpu_free, fleet.memory_free, fleet.cores_free, fleet.card_memory_free, fleet.holders)
    usages = {key: snapshot.quota.usages(key) for key in snapshot._quota_nodes}
    return (*(array.tolist() for array in free), fleet.classes.tolist(), usages, sorted(snapshot.allocations))


def without(snapshot: Snapshot, leaving: list[str]) -> tuple[object, ...]:
    """The same, as it would be with some gone."""
    with snapshot.statement() as statement:
        for key in leaving:
            if key in snapshot.allocations:
                statement.release(key)
        return books(snapshot)


@pytest.mark.parametrize("seed", range(20))
def test_the_future_is_the_present_without_terminating_tasks(seed: int) -> None:
    snapshot, made = peopled()
    draw, before = random.Random(seed), snapshot.to_json()
    leaving = draw.sample(sorted(snapshot.allocations), 2)
    with snapshot.statement():
        snapshot.open_future()
        snapshot.release_in_future(leaving)
        for _ in range(12):
            snapshot.select_view(future=draw.random() < 0.5)
            match draw.randrange(3):
                case 0 if made:
                    snapshot.add_allocation(made.pop())
                case 1 if snapshot.allocations:
                    with snapshot.statement() as inner:
                        inner.release(draw.choice(sorted(snapshot.allocations)))
                        if draw.random() < 0.5:
                            inner.commit()
                case _:
                    told = draw.sample(sorted(snapshot.allocations), min(1, len(snapshot.allocations)))
                    leaving += told
                    snapshot.release_in_future(told)
            snapshot.select_view(future=False)
            expected = without(snapshot, leaving)
            snapshot.select_view(future=True)
            assert books(snapshot) == expected
    assert snapshot.to_json() == before


def test_the_other_moment_needs_a_statement_and_its_own_level() -> None:
    snapshot, _ = peopled()
    with pytest.raises(StatementError, match="inside a statement only"):
        snapshot.open_future()
    with snapshot.statement():
        with pytest.raises(StatementError, match="cannot be changed"):
            snapshot.select_view(future=True)
        snapshot.open_future()
        with snapshot.statement(), pytest.raises(StatementError, match="cannot be changed"):
            snapshot.select_view(future=True)
        snapshot.select_view(future=True)
    assert not np.shares_memory(snapshot.fleet.cpu_free, snapshot.fleet.copy().cpu_free)


def test_both_moments_advance_together() -> None:
    snapshot, _ = peopled()
    with snapshot.statement():
        snapshot.open_future()
    gone = next(iter(snapshot.allocations.values()))
    snapshot.apply_delta(Delta((AllocationRemoved(gone.id), JobRemoved(gone.job))))
    with snapshot.statement():
        snapshot.open_future()
        expected = books(snapshot)
        snapshot.select_view(future=True)
        assert books(snapshot) == expected
