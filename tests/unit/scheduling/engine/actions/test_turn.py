"""A queue's turn: jobs like one that waits are passed over, and only those whose turn came are told so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import Delta, EngineConfig, JobGone, JobPut, Snapshot, run_cycle
from scheduling.engine.actions.turn import Turn
from scheduling.engine.model import Instant, Job, Outcome, OutcomeStatus, Reason
from scheduling.engine.order.users import Users
from scheduling.engine.session import Session
from tests.unit.scheduling.engine.builders import NOW, job, node, quotas, role, world


def asking(name: str, cards: int, at: int) -> Job:
    return job(name, "a", role(cards=cards), at=at)


def cell(*jobs: Job) -> Snapshot:
    return world([node("n1", 1)], jobs, teams={"a": quotas(8)})


def waits(job_id: str) -> Outcome:
    return Outcome(job=job_id, status=OutcomeStatus.WAITING, reason=Reason.NO_ROOM)


def test_only_those_before_the_last_head_are_told() -> None:
    sizes = {"x1": 4, "y1": 3, "x2": 4, "y2": 3, "z1": 2, "x3": 4}
    snapshot = cell(*(asking(name, cards, at) for at, (name, cards) in enumerate(sizes.items())))
    session = Session(snapshot, EngineConfig(heads_per_queue=3), NOW)
    turn, heads = Turn(session, snapshot.queues["a"]), list[str]()
    while turn.head is not None:
        heads.append(turn.head.id)
        turn.failed(waits(turn.head.id))
    assert heads == ["x1", "y1", "z1"]
    assert {name: told.job for name, told in session.outcomes.items()} == {"x2": "x2", "y2": "y2"}


def test_without_a_bound_all_are_told_but_those_not_ready() -> None:
    late = replace(asking("x3", 4, 3), backoff_until=Instant(NOW + 1))
    snapshot = cell(asking("x1", 4, 1), asking("x2", 4, 2), late, asking("x4", 4, 4))
    session = Session(snapshot, EngineConfig(), NOW)
    turn = Turn(session, snapshot.queues["a"], lambda: {"x4"})
    turn.failed(waits("x1"))
    assert turn.head is None
    assert list(session.outcomes) == ["x2"]


def test_what_is_kept_follows_jobs_that_came_changed_and_left() -> None:
    jobs = [asking(f"x{number}", 2 + number % 2, number) for number in range(8)]
    kept, config = cell(*jobs), EngineConfig()
    run_cycle(kept, config, NOW)
    changes = [JobPut(replace(jobs[5], priority=9)), JobPut(asking("x9", 1, 9)), JobGone("x0")]
    kept.apply(Delta((*changes, JobPut(replace(jobs[2], backoff_until=Instant(NOW + 60))))))
    assert run_cycle(kept, config, NOW) == run_cycle(cell(*kept.jobs.values()), config, NOW)


def test_who_is_told_the_same_keeps_the_answer() -> None:
    kept, config = cell(*(asking(f"x{number}", 2, number) for number in range(3))), EngineConfig()
    first = {told.job: told for told in run_cycle(kept, config, NOW).outcomes}
    again = {told.job: told for told in run_cycle(kept, config, NOW).outcomes}
    assert all(again[name] is first[name] for name in ("x1", "x2"))


def test_the_next_of_many_is_found_without_looking_at_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    many, looked = 200, list[str]()
    load = Users.load

    def counted(users: Users, queue_id: str, user: str) -> float | None:
        looked.append(user)
        return load(users, queue_id, user)

    monkeypatch.setattr(Users, "load", counted)
    jobs = [replace(asking(f"x{number}", 1, number), user=f"u{number}") for number in range(many)]
    snapshot = world([node("n1", many)], jobs, teams={"a": quotas(many)})
    assert len(run_cycle(snapshot, EngineConfig(), NOW).decisions) == many
    assert len(looked) < 10 * many
