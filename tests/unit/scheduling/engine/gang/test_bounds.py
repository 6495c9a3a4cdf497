"""Counted slots equal what placing finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, Snapshot, resolve_config
from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import FreedAmounts, SlotBounds, count_needed_releases, restore_if_fitting
from scheduling.engine.model import Allocation, Job
from scheduling.engine.placement.placer import placer_for
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.equivalence import equivalence_classes_of
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import job, node, role

NODES = ("n0", "n1", "n2")


def tasks() -> st.SearchStrategy[tuple[int, dict[str, Any]]]:
    """Whole cards, parts of a card, or CPU alone."""
    whole = st.integers(1, 3).map(lambda cards: (cards, dict[str, Any]()))
    parts = st.sampled_from((30, 50, 80)).map(lambda cores: (1, {"cores": cores}))
    return whole | parts | st.just((0, {"cpu": 20_000}))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Snapshot, Job, list[Allocation]]:
    nodes = [node(name, draw(st.integers(1, 4))) for name in NODES]
    snapshot = running_world(nodes, {}, [])
    placer = placer_for(snapshot.fleet, resolve_config(EngineConfig()).rule)
    for number in range(draw(st.integers(1, 6))):
        cards, parts = draw(tasks())
        runs = live(job(f"r{number}", "a", role(1, cards, **parts)))
        with snapshot.statement() as statement:
            seats = StartAttempt(snapshot, placer).start_job(
                statement, snapshot.queues["a"], runs, {"worker": 1}
            )
        if not isinstance(seats, Refusal):
            snapshot.add_allocation(seats[0])
    held = draw(st.permutations(sorted(snapshot.allocations.values(), key=lambda task: task.id)))
    cards, parts = draw(tasks())
    return snapshot, job("w", "a", role(draw(st.integers(1, 4)), cards, **parts)), list(held)


def starts(snapshot: Snapshot, attempt: StartAttempt, entry: Job, gone: Sequence[Allocation]) -> bool:
    with snapshot.statement() as statement:
        for task in gone:
            statement.release(task.id)
        more = {"worker": entry.roles[0].replicas}
        return not isinstance(attempt.start_job(statement, snapshot.queues["a"], entry, more), Refusal)


def slot_bounds(snapshot: Snapshot) -> SlotBounds:
    placer = placer_for(snapshot.fleet, resolve_config(EngineConfig()).rule)
    return SlotBounds(snapshot, placer, equivalence_classes_of(snapshot).class_of)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_counting_finds_the_evictions_after_which_a_gang_fits(
    drawn: tuple[Snapshot, Job, list[Allocation]],
) -> None:
    snapshot, entry, held = drawn
    placer = placer_for(snapshot.fleet, resolve_config(EngineConfig()).rule)
    attempt, bounds = StartAttempt(snapshot, placer), slot_bounds(snapshot)
    wanted = bounds.find_wanted_slots(snapshot.queues["a"], entry, {"worker": entry.roles[0].replicas})
    assert wanted is not None
    seated = [starts(snapshot, attempt, entry, held[:count]) for count in range(len(held) + 1)]
    seats = bounds.free_slot_counters(wanted)
    assert bounds.fits_now(wanted) == seated[0]
    assert count_needed_releases(seats, held) == next(
        (count for count, fits in enumerate(seated) if fits), None
    )
    for count, fits in enumerate(seated):
        assert bounds.fits_after(wanted, held[:count]) == fits
        if fits and count:
            seats = bounds.free_slot_counters(wanted)
            for counter in seats:
                counter.remove_tasks(held[:count])
            assert restore_if_fitting(seats, held[count - 1]) == seated[count - 1]
        assert bounds.may_fit_after(wanted, FreedAmounts.of_tasks(snapshot.fleet, held[:count])) or not fits


def test_a_gang_whose_places_depend_on_more_than_amounts_is_not_counted() -> None:
    snapshot = running_world([node("n0")], {}, [])
    bounds = slot_bounds(snapshot)
    mixed = job("m", "a", role(1, 1, name="x"), role(1, 2, name="y"))
    assert bounds.find_wanted_slots(snapshot.queues["a"], mixed, {"x": 1, "y": 1}) is None
    assert bounds.find_wanted_slots(snapshot.queues["a"], mixed, {"x": 1}) is not None
