"""A cycle evaluates a bounded number of shapes of one user, however many different jobs are pending."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduling.engine import ExplainScope, FairSharing, NodePut
from scheduling.engine.actions import explain_waiting, lasting_refusals
from scheduling.engine.actions.consolidation import action, evict_and_move, search
from scheduling.engine.actions.head_estimate import OwnQuotaFit
from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.model import Job, JobOutcome, Queue, Reason
from scheduling.engine.placement.feasibility import InfeasibleFlavors, find_infeasible_flavors
from scheduling.engine.session.session import Session
from tests.unit.scheduling.engine.actions.stage import ADMIT, Stage
from tests.unit.scheduling.engine.builders import job, node, quotas, role, world

SHAPES = 400
WHOLE = replace(ADMIT, actions=("admit", "consolidate"), fair_sharing=FairSharing())


def many_shapes(*more: Job, cards: int = 1, nominal: int = 8) -> Stage:
    """Return a full node, and jobs of one user with different amounts of CPU, the last with too much."""
    stage = Stage(
        world([node("n1", 8)], [job("fill", "b", role(1, 8))], teams={"a": quotas(nominal), "b": quotas(8)}),
        WHOLE,
    )
    stage.cycle()
    shapes = [job(f"j{n:03}", "a", role(1, cards, cpu=100 + n), at=n, user="one") for n in range(SHAPES)]
    stage.submit(*shapes, job("huge", "a", role(1, 1, cpu=65_000), at=SHAPES, user="one"), *more)
    return stage


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often shapes were priced, checked for feasibility and evaluated."""
    seen: Counter[str] = Counter()

    def feasibility(*args: object, **facts: object) -> object:
        seen["feasibility"] += 1
        return find_infeasible_flavors(*args, **facts)  # type: ignore[arg-type]

    def counted(kind: type, name: str) -> None:
        known = getattr(kind, name)

        def call(self: object, *args: object) -> object:
            seen[name] += 1
            return known(self, *args)

        monkeypatch.setattr(kind, name, call)

    monkeypatch.setattr(lasting_refusals, "find_infeasible_flavors", feasibility)
    counted(search.ConsolidationSearch, "find_gain")
    counted(SlotBounds, "fits_now")
    return seen


def test_so_many_shapes_are_evaluated_and_priced_in_one_cycle(calls: Counter[str]) -> None:
    stage = many_shapes()
    calls.clear()
    stage.cycle()
    tried = WHOLE.heads_per_queue
    assert tried is not None
    assert calls["feasibility"] <= explain_waiting.MAX_NEW_SHAPES + tried < SHAPES
    assert calls["find_gain"] <= action.MAX_SHAPES_PER_USER
    calls.clear()
    stage.cycle()
    assert calls["feasibility"] <= explain_waiting.MAX_NEW_SHAPES


def test_after_some_cycles_each_job_knows_whether_it_can_ever_start(calls: Counter[str]) -> None:
    stage = many_shapes()
    stage.cycle()
    assert stage.outcome("huge").reason is Reason.IN_LINE
    for _ in range(SHAPES // explain_waiting.MAX_NEW_SHAPES):
        stage.cycle()
    assert stage.outcome("huge").reason is Reason.NEVER_FITS
    calls.clear()
    stage.cycle()
    assert calls["feasibility"] == 0


def test_the_position_in_the_queue_follows_those_who_are_removed() -> None:
    stage = many_shapes()
    stage.cycle()
    before = stage.outcome("j399")
    assert (before.reason, before.numbers["position"]) == (Reason.IN_LINE, SHAPES)
    stage.cycle()
    assert stage.outcome("j399") == before
    stage.apply_end("j000")
    stage.cycle()
    assert stage.outcome("j399").numbers["position"] == SHAPES - 1


def test_jobs_of_another_user_are_priced_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[str] = []
    known = search.ConsolidationSearch.find_gain
    monkeypatch.setattr(
        search.ConsolidationSearch,
        "find_gain",
        lambda self, queue, job: (priced.append(job.id), known(self, queue, job))[1],
    )
    stage = many_shapes(job("other", "a", role(1, 1, cpu=1), at=SHAPES + 1, user="two"))
    stage.cycle()
    assert "other" in priced


def test_a_short_cycle_looks_for_room_for_as_many_as_it_could_try(calls: Counter[str]) -> None:
    stage = many_shapes()
    stage.config = replace(
        WHOLE, actions=("admit",), stop_without_free_capacity=True, explain=ExplainScope.CONSIDERED
    )
    stage.cycle()
    assert stage.config.heads_per_queue is not None
    assert 0 < calls["fits_now"] <= stage.config.heads_per_queue + 1


def test_a_queue_that_borrows_looks_for_a_job_that_does_not_through_each_shape_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()
    known = OwnQuotaFit.may_ever_fit
    monkeypatch.setattr(
        OwnQuotaFit, "may_ever_fit", lambda self, job: (asked.update([job.id]), known(self, job))[1]
    )
    stage = many_shapes(nominal=0)
    stage.cycle()
    assert stage.outcome("j000").reason is Reason.WAITING_FOR_BORROWED
    assert set(asked.values()) == {1}


def test_a_job_that_may_not_preempt_examines_no_nodes_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    known = search.ConsolidationSearch.clearable_sets
    monkeypatch.setattr(
        search.ConsolidationSearch,
        "clearable_sets",
        lambda self, hardest, job, *rest: (searched.append(job.id), known(self, hardest, job, *rest))[1],
    )
    asked: list[str] = []
    make = evict_and_move.find_evictions_and_moves
    monkeypatch.setattr(
        action,
        "find_evictions_and_moves",
        lambda session, wanting, given: (asked.append(wanting.job.id), make(session, wanting, given))[1],
    )
    many_shapes().cycle()
    assert asked and not searched


def test_limits_are_not_looked_at_again_because_a_node_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    known = lasting_refusals.find_beyond_limits

    def find(
        session: Session, queue: Queue, waiting: Job, infeasible: InfeasibleFlavors
    ) -> JobOutcome | None:
        asked.append(waiting.id)
        return known(session, queue, waiting, infeasible)

    monkeypatch.setattr(lasting_refusals, "find_beyond_limits", find)
    stage = Stage(world([node("n1", 8)], [job("wide", "a", role(2, 3))], teams={"a": quotas(4)}), ADMIT)
    stage.cycle()
    assert stage.outcome("wide").reason is Reason.EXCEEDS_MAX_QUOTA
    before = len(asked)
    assert before
    (host,) = stage.snapshot.export_nodes()
    stage.put(NodePut(replace(host, labels={**host.labels, "checked": "1"})))
    stage.cycle()
    assert stage.outcome("wide").reason is Reason.EXCEEDS_MAX_QUOTA
    assert len(asked) == before
