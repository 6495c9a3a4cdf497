"""The cursor of a queue: jobs equivalent to a pending one are skipped and get its outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import Delta, EngineConfig, JobPut, JobRemoved, Snapshot, run_cycle
from scheduling.engine.actions.head_estimate import OwnQuotaFit
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.cycle import start_session
from scheduling.engine.model import Instant, Job, JobOutcome, OutcomeStatus, Reason
from scheduling.engine.order.user_usage import UserUsageTable
from scheduling.engine.session.queue_classes import QueueClasses
from tests.unit.scheduling.engine.builders import NOW, job, node, quotas, role, world


def asking(name: str, cards: int, at: int) -> Job:
    return job(name, "a", role(cards=cards), at=at)


def cell(*jobs: Job) -> Snapshot:
    return world([node("n1", 1)], jobs, teams={"a": quotas(8)})


def waits(job_id: str) -> JobOutcome:
    return JobOutcome(job=job_id, status=OutcomeStatus.WAITING, reason=Reason.NO_ROOM)


def test_only_those_before_the_last_head_get_an_outcome() -> None:
    sizes = {"x1": 4, "y1": 3, "x2": 4, "y2": 3, "z1": 2, "x3": 4}
    snapshot = cell(*(asking(name, cards, at) for at, (name, cards) in enumerate(sizes.items())))
    session = start_session(snapshot, EngineConfig(heads_per_queue=3), NOW)
    turn, heads = QueueCursor(session, snapshot.queues["a"]), list[str]()
    while turn.head is not None:
        heads.append(turn.head.id)
        turn.advance_after_refusal(waits(turn.head.id))
    assert heads == ["x1", "y1", "z1"]
    assert {name: told.job for name, told in session.outcomes.items()} == {"x2": "x2", "y2": "y2"}


def test_without_a_bound_all_get_an_outcome_but_those_not_ready() -> None:
    late = replace(asking("x3", 4, 3), backoff_until=Instant(NOW + 1))
    snapshot = cell(asking("x1", 4, 1), asking("x2", 4, 2), late, asking("x4", 4, 4))
    session = start_session(snapshot, EngineConfig(), NOW)
    turn = QueueCursor(session, snapshot.queues["a"], lambda: {"x4"})
    turn.advance_after_refusal(waits("x1"))
    assert turn.head is None
    assert list(session.outcomes) == ["x2"]


class Among(OwnQuotaFit):
    """A check that only these jobs pass."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def refresh(self) -> bool:
        return False

    def may_ever_fit(self, job: Job) -> bool:
        return job.id in self.names

    fits_now = may_ever_fit


def test_a_job_equivalent_to_a_pending_one_is_skipped_without_a_turn() -> None:
    sizes = {"x1": 4, "y1": 3, "x2": 4, "z1": 2}
    snapshot = cell(*(asking(name, cards, at) for at, (name, cards) in enumerate(sizes.items())))
    session = start_session(snapshot, EngineConfig(), NOW)
    turn = QueueCursor(session, snapshot.queues["a"], lambda: {"x2"})
    turn.advance_after_refusal(waits("x1"))
    assert turn.find_first_fitting(Among(set())) is None
    turn.advance_after_refusal(waits("y1"))
    turn.advance_after_refusal(waits("z1"))
    assert turn.head is None


def test_the_job_that_is_sought_goes_before_the_head_and_no_job_loses_the_turn() -> None:
    sizes = {"x1": 4, "y1": 3, "x2": 4, "y2": 3, "z1": 2, "z2": 2}
    snapshot = cell(*(asking(name, cards, at) for at, (name, cards) in enumerate(sizes.items())))
    session = start_session(snapshot, EngineConfig(heads_per_queue=None), NOW)
    turn, heads = QueueCursor(session, snapshot.queues["a"]), list[str]()
    found = turn.find_first_fitting(Among({"z1", "z2"}))
    assert found is not None and found.id == "z1"
    turn.promote_job(found)
    while turn.head is not None:
        heads.append(turn.head.id)
        turn.advance_after_admission()
    assert heads == ["z1", "x1", "y1", "x2", "y2", "z2"]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=40
    )
)
@settings(max_examples=60, deadline=None)
def test_the_ranks_that_are_kept_are_those_that_would_be_made_anew(
    steps: list[tuple[int, int, int, int]],
) -> None:
    kept, config = cell(), EngineConfig()
    line = kept.queues["a"]
    start_session(kept, config, NOW).queue_classes(line)
    for number, user, cards, at in steps:
        name = f"j{number}"
        known = kept.jobs.get(name)
        come = JobPut(replace(asking(name, cards + 1, at), user=f"u{user}"))
        kept.apply_delta(Delta((JobRemoved(name) if known is not None and at % 3 == 0 else come,)))
        follows = start_session(kept, config, NOW).queue_classes(line)
        anew = start_session(cell(*kept.jobs.values()), config, NOW).queue_classes(line)
        assert _shown(follows, kept) == _shown(anew, kept)


def _shown(ranks: QueueClasses, snapshot: Snapshot) -> object:
    """Return the jobs of each rank, the ranks of each user in their order, and equivalent jobs."""
    ids = {kind: tuple(lined) for kind, lined in ranks.lines.items()}
    users = {user: [(entry, ids[kind]) for entry, kind in own] for user, own in ranks.by_user.items() if own}
    return users, {frozenset(ids[kind] for kind in kinds) for kinds in ranks.by_class.values()}


def test_cached_ranks_follow_jobs_that_came_changed_and_ended() -> None:
    jobs = [asking(f"x{number}", 2 + number % 2, number) for number in range(8)]
    kept, config = cell(*jobs), EngineConfig()
    run_cycle(kept, config, NOW)
    changes = [JobPut(replace(jobs[5], priority=9)), JobPut(asking("x9", 1, 9)), JobRemoved("x0")]
    kept.apply_delta(Delta((*changes, JobPut(replace(jobs[2], backoff_until=Instant(NOW + 60))))))
    assert run_cycle(kept, config, NOW) == run_cycle(cell(*kept.jobs.values()), config, NOW)


def test_a_job_with_an_equal_outcome_keeps_it() -> None:
    kept, config = cell(*(asking(f"x{number}", 2, number) for number in range(3))), EngineConfig()
    first = {told.job: told for told in run_cycle(kept, config, NOW).outcomes}
    again = {told.job: told for told in run_cycle(kept, config, NOW).outcomes}
    assert all(again[name] is first[name] for name in ("x1", "x2"))


def test_the_next_of_many_is_found_without_looking_at_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    many, looked = 200, list[str]()
    load = UserUsageTable.compute_load

    def counted(users: UserUsageTable, queue_id: str, user: str) -> float | None:
        looked.append(user)
        return load(users, queue_id, user)

    monkeypatch.setattr(UserUsageTable, "compute_load", counted)
    jobs = [replace(asking(f"x{number}", 1, number), user=f"u{number}") for number in range(many)]
    snapshot = world([node("n1", many)], jobs, teams={"a": quotas(many)})
    assert len(run_cycle(snapshot, EngineConfig(), NOW).decisions) == many
    assert len(looked) < 10 * many
