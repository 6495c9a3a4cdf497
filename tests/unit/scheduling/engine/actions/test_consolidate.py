"""Moves of running tasks that free capacity for a pending job."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scheduling.engine import Snapshot
from scheduling.engine.actions.consolidation.search import ConsolidationSearch
from scheduling.engine.cycle import start_session
from scheduling.engine.gang import clearable_nodes
from scheduling.engine.gang.clearable_nodes import CanEvict, ClearableRow, MovableUnits
from scheduling.engine.model import CycleResult, Decision, DecisionKind, Instant, Job, Reason
from scheduling.engine.model.options import ConsolidationOptions, FairSharing
from scheduling.engine.preemption.trials.slot_counts import ShapeSlots
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session
from tests.unit.scheduling.engine.actions.worlds import act, decided, live, running_world, settle
from tests.unit.scheduling.engine.builders import NOW, flavor, job, node, outcome, quotas, role
from tests.unit.scheduling.engine.gang.test_parts import member
from tests.unit.scheduling.engine.gang.worlds import LEVELS, part, racked, required


def run(name: str, cards: int, at: float = 0, **facts: Any) -> Job:
    return live(job(name, "a", role(1, cards), at=at), **facts)


def waits(cards: int, tasks: int = 1, **facts: Any) -> Job:
    return job("wait", "a", role(tasks, cards), at=100, **facts)


def moved(result: CycleResult) -> dict[str, str]:
    """Return the new node of each moved task."""
    return {
        allocation.id: allocation.node
        for decision in result.decisions
        if decision.kind.value == "migrate"
        for allocation in decision.allocations
    }


def claimed_nodes(result: CycleResult) -> list[str]:
    return [
        allocation.node
        for decision in result.decisions
        if decision.kind.value == "park"
        for allocation in decision.allocations
    ]


def nodes(*cards: int) -> list[Any]:
    return [node(f"n{index}", number) for index, number in enumerate(cards)]


def two_halves(*more: Job) -> Snapshot:
    """Return two nodes of four cards with two taken on each."""
    where = {"old": ["n0"], "new": ["n1"]}
    return running_world(nodes(4, 4), where, [run("old", 2, 1), run("new", 2, 2), *more])


def test_the_newest_that_helps_moves_and_the_waiting_job_gets_a_claim() -> None:
    snapshot = two_halves(waits(3))
    result = act(snapshot, "consolidate")
    assert moved(result) == {"new/worker/0": "n0"}
    assert claimed_nodes(result) == ["n1"]
    claim = result.decisions[-1]
    assert (claim.job, claim.released) == ("wait", ("new/worker/0",))
    assert outcome(result, "wait").reason is Reason.WAITING_FOR_PREEMPTED
    assert decided(result)[0] == ("migrate", "new", "CONSOLIDATION")


def test_a_move_repeated_is_no_move() -> None:
    snapshot = two_halves(waits(3))
    result = act(snapshot, "consolidate")
    settle(snapshot, result)
    assert decided(act(snapshot, "consolidate")) == []
    done = two_halves(waits(3))
    settle(done, result, gone=True)
    assert decided(act(done, "consolidate")) == []


def test_the_snapshot_is_unchanged() -> None:
    snapshot = two_halves(waits(3), waits(4, 9))
    before = snapshot.to_json()
    act(snapshot, "consolidate")
    assert snapshot.to_json() == before


@pytest.mark.parametrize(
    ("jobs", "where", "waiting", "expected"),
    [
        # Lower priority moves first, whatever its age.
        (
            [run("old", 2, 1), run("new", 2, 2, priority=9)],
            {"old": "n0", "new": "n1"},
            waits(3),
            {"old": "n1"},
        ),
        # A task that cannot be placed again stays.
        ([run("old", 3, 1), run("new", 3, 2)], {"old": "n0", "new": "n1"}, waits(3), {}),
        # One of two moves suffices: the other task, tried first, stays.
        (
            [run("big", 3, 1), run("small", 1, 2), run("mid", 2, 3)],
            {"big": "n0", "small": "n1", "mid": "n1"},
            waits(2),
            {"small": "n0"},
        ),
        # Nothing is moved for a job that fits, or that lacks quota.
        ([run("old", 2, 1), run("new", 2, 2)], {"old": "n0", "new": "n1"}, waits(2), {}),
        # A job that may not be evicted may not be moved.
        (
            [run("old", 2, 1, preemptible=False), run("new", 2, 2, preemptible=False)],
            {"old": "n0", "new": "n1"},
            waits(3),
            {},
        ),
        (
            [run("old", 2, 1, movable=False), run("new", 2, 2, movable=False)],
            {"old": "n0", "new": "n1"},
            waits(3),
            {},
        ),
        (
            [run("old", 2, 1, min_run_s=2_000), run("new", 2, 2, min_run_s=2_000)],
            {"old": "n0", "new": "n1"},
            waits(3),
            {},
        ),
    ],
)
def test_who_moves(jobs: list[Job], where: dict[str, str], waiting: Job, expected: dict[str, str]) -> None:
    stand = {name: [place] for name, place in where.items()}
    result = act(running_world(nodes(4, 4), stand, [*jobs, waiting]), "consolidate")
    assert moved(result) == {f"{name}/worker/0": place for name, place in expected.items()}
    assert bool(claimed_nodes(result)) == bool(expected)


def test_quota_comes_first() -> None:
    full = quotas(5)
    where = {"old": ["n0"], "new": ["n1"]}
    jobs = [run("old", 2, 1), run("new", 2, 2), waits(3)]
    assert decided(act(running_world(nodes(4, 4), where, jobs, teams={"a": full}), "consolidate")) == []


def test_a_gang_gets_room_on_several_nodes() -> None:
    jobs = [run(f"j{index}", 1, index) for index in range(8)]
    where = {f"j{index}": [f"n{index % 4}"] for index in range(8)}
    result = act(running_world(nodes(4, 4, 4, 4), where, [*jobs, waits(3, 2)]), "consolidate")
    assert moved(result) == {"j6/worker/0": "n0", "j7/worker/0": "n0"}
    assert sorted(claimed_nodes(result)) == ["n2", "n3"]


def test_of_an_elastic_job_one_task_moves_and_of_a_gang_only_what_must() -> None:
    elastic = live(job("e", "a", role(2, 2, least=1)))
    result = act(running_world(nodes(4, 3), {"e": ["n0", "n1"]}, [elastic, waits(3)]), "consolidate")
    assert moved(result) == {"e/worker/1": "n0"}
    parts = live(
        job(
            "g",
            "a",
            replace(member("x", "left", 1), request=role(1, 1).request),
            replace(member("y", "right", 1), request=role(1, 3).request),
            sub_gangs=(part("left", min_available=1), part("right", min_available=1)),
        )
    )
    result = act(running_world(nodes(4, 4), {"g": ["n0", "n1"]}, [parts, waits(4)]), "consolidate")
    assert moved(result) == {"g/x/0": "n1"}
    assert claimed_nodes(result) == ["n0"]


def test_tasks_keep_their_numbers_when_one_before_them_was_given_up() -> None:
    elastic = live(job("e", "a", role(3, 1, least=2), at=9))
    where = {"e": ["n1", "n0", "n0"], "old": ["n1"]}
    snapshot = running_world(nodes(4, 4), where, [run("old", 2, 1), elastic, waits(4)])
    snapshot.remove_allocation("e/worker/0")
    assert moved(act(snapshot, "consolidate")) == {"e/worker/1": "n1", "e/worker/2": "n1"}


def test_slices_are_moved_together_to_empty_a_card() -> None:
    sliced = [live(job(f"s{n}", "a", role(1, 1, cores=50), at=n)) for n in range(2)]
    where = {"s0": ["n0"], "s1": ["n1"]}
    result = act(running_world(nodes(1, 1), where, [*sliced, waits(1)]), "consolidate")
    assert moved(result) == {"s1/worker/0": "n0"}


def test_room_is_opened_inside_a_required_domain() -> None:
    layout = {"z": {"r1": {"n0": 2}, "r2": {"n1": 2}}}
    waiting = waits(1, 2, topology=required("rack"))
    snapshot = running_world(
        racked(layout),
        {"old": ["n0"], "new": ["n1"]},
        [run("old", 1, 1), run("new", 1, 2), waiting],
        flavors=[flavor(topology=LEVELS)],
    )
    result = act(snapshot, "consolidate")
    assert moved(result) == {"new/worker/0": "n0"}
    assert claimed_nodes(result) == ["n1", "n1"]


@pytest.mark.parametrize(
    ("options", "helped"),
    [
        (ConsolidationOptions(moves_per_cycle=2), True),
        (ConsolidationOptions(moves_per_cycle=1), False),
        (ConsolidationOptions(jobs_per_move=1), False),
        (ConsolidationOptions(jobs_per_move=None), True),
        (ConsolidationOptions(max_job_shapes=0), False),
        (ConsolidationOptions(placement_budget=0), False),
        (ConsolidationOptions(preemptible_only=True), False),
    ],
)
def test_bounds_and_switches(options: ConsolidationOptions, helped: bool) -> None:
    where = {"j0": ["n0"], "j1": ["n1"]}
    waiting = waits(2, 2, preemptible=False)
    snapshot = running_world(nodes(2, 2, 1, 1), where, [run("j0", 1), run("j1", 1), waiting])
    assert bool(claimed_nodes(act(snapshot, "consolidate", consolidation=options))) == helped


def test_an_elastic_job_may_be_helped_to_grow_where_configured() -> None:
    growing = live(job("e", "a", role(2, 3, least=1), at=9))
    where = {"s": ["n1"], "e": ["n0"]}
    snapshot = running_world(nodes(4, 4), where, [run("s", 2), growing])
    assert decided(act(snapshot, "consolidate")) == []
    spread = running_world(nodes(5, 4), where, [run("s", 2), growing])
    options = ConsolidationOptions(for_growth=True)
    assert moved(act(spread, "consolidate", consolidation=options)) == {"s/worker/0": "n0"}


def test_a_trial_returns_the_gain_and_changes_nothing() -> None:
    saved = run("new", 2, 2, checkpoint_interval_s=300, running_since=Instant(NOW - 400))
    where = {"old": ["n0"], "new": ["n1"]}
    snapshot = running_world(nodes(4, 4), where, [run("old", 2, 1), saved, waits(3)])
    before = snapshot.to_json()
    with snapshot.statement():
        gain = find_gain(start_session(snapshot, EngineConfig(), NOW))
    assert gain is not None
    assert (gain.cards, gain.tasks, gain.jobs, gain.gpu_seconds) == (3, 1, 1, 200.0)
    assert snapshot.to_json() == before


def test_on_a_large_fleet_the_node_that_is_cheapest_to_clear_is_found() -> None:
    # On thirty nodes the newest jobs would have to move in fours; on one an old job is alone.
    fleet = [node(f"n{index:02}", 4) for index in range(30)] + [node("x0", 4), node("x1", 4)]
    jobs = [run(f"j{index:02}-{slot}", 1, at=50 + index) for index in range(30) for slot in range(3)]
    where = {entry.id: [f"n{entry.id[1:3]}"] for entry in jobs}
    jobs += [run("alone", 1, at=1), run("broad", 4, at=2, preemptible=False)]
    where |= {"alone": ["x0"], "broad": ["x1"]}
    result = act(running_world(fleet, where, [*jobs, waits(4)]), "consolidate")
    assert list(moved(result)) == ["alone/worker/0"]
    assert claimed_nodes(result) == ["x0"]
    teams = {"a": quotas(200)}
    three = act(running_world(fleet, where, [*jobs, waits(4, 3)], teams=teams), "consolidate")
    assert len(claimed_nodes(three)) == 3
    assert len(moved(three)) == 7


def scattered_jobs(seed: int) -> Snapshot:
    """Return eight nodes with jobs of one to three cards at random, and pending jobs of two shapes."""
    draw = Random(seed)
    free, jobs, where = dict.fromkeys((f"n{index}" for index in range(8)), 4), list[Job](), {}
    for number in range(14):
        cards, host = draw.randint(1, 3), draw.choice(sorted(free))
        if free[host] >= cards:
            free[host] -= cards
            jobs.append(run(f"r{number:02}", cards, at=draw.randint(0, 50), priority=draw.randint(0, 1)))
            where[jobs[-1].id] = [host]
    asked = [(4, 1), (3, 2), (4, 2), (3, 1), (4, 1), (3, 3)]
    jobs += [job(f"w{n}", "a", role(tasks, cards), at=100 + n) for n, (cards, tasks) in enumerate(asked)]
    return running_world(nodes(*[4] * 8), where, jobs, teams={"a": quotas(64)})


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_were_looked_at_before_give_the_same_moves(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = act(scattered_jobs(seed), "consolidate")
    monkeypatch.setattr(ConsolidationSearch, "_find_known_rows", lambda self, board: {})
    assert act(scattered_jobs(seed), "consolidate") == kept


def test_a_row_is_looked_at_once_for_all_jobs_of_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[tuple[int, int]] = []
    known = clearable_nodes._clear_row

    def clearable(
        counted: ShapeSlots, row: int, movable: MovableUnits, gives: CanEvict | None
    ) -> ClearableRow | None:
        looked_at.append((id(counted.board), row))
        return known(counted, row, movable, gives)

    monkeypatch.setattr(clearable_nodes, "_clear_row", clearable)
    # Two jobs would have to move from each node, and only one may.
    where = {f"r{n}-{half}": [f"n{n}"] for n in range(4) for half in "ab"}
    running = [run(name, 1) for name in where]
    waiting = [job(f"w{n}", "a", role(1 + n, 4), at=100 + n) for n in range(2)]
    snapshot = running_world(nodes(4, 4, 4, 4), where, [*running, *waiting], teams={"a": quotas(64)})
    options = ConsolidationOptions(jobs_per_move=1)
    assert not moved(act(snapshot, "consolidate", consolidation=options))
    assert looked_at
    assert len(looked_at) == len(set(looked_at))


def test_an_evicted_job_is_not_moved() -> None:
    snapshot = two_halves(waits(3))
    session = start_session(snapshot, EngineConfig(), NOW)
    with snapshot.statement():
        assert moved_by(find_gain(session)) == ["new"]
        session.decisions.append(Decision(kind=DecisionKind.EVICT, job="new"))
        assert moved_by(find_gain(session)) == ["old"]


def find_gain(session: Session) -> ConsolidationGain | None:
    """Return what moving others would gain for the job `wait` now."""
    wait = session.snapshot.jobs["wait"]
    return ConsolidationSearch(session).find_gain(session.snapshot.queues[wait.queue], wait)


def moved_by(gain: ConsolidationGain | None) -> list[str]:
    assert gain is not None
    return [move.before.job for move in gain.plan.moves]


@pytest.mark.parametrize("fair", [None, FairSharing()])
def test_moves_are_made_for_owners_before_a_borrower_of_a_higher_rank(fair: FairSharing | None) -> None:
    movers = [live(job(name, "c", role(1, 2))) for name in ("old", "new")]
    waiting = [job("owner", "a", role(1, 3)), job("borrower", "b", role(1, 3), priority=1)]
    snapshot = running_world(
        nodes(4, 4),
        {"old": ["n0"], "new": ["n1"]},
        [*movers, *waiting],
        teams={"a": quotas(3), "b": quotas(1), "c": quotas(4)},
    )
    config = {"consolidation": ConsolidationOptions(max_loss_s=None), "fair_sharing": fair}
    result = act(snapshot, "consolidate", **config)
    assert [found.job for found in result.decisions if found.kind is DecisionKind.PARK] == ["owner"]
