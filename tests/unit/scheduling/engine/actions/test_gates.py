"""The gates behind a job's first failed gate are evaluated as cycles decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import EngineConfig, FairSharing, JobExamination, PreemptionResult, examine_job
from scheduling.engine.model import Instant, PreemptionPolicy, PreemptOthers, PreemptWithin, Reason
from tests.unit.scheduling.engine.actions.stage import ADMIT, TAKE_BACK, Stage
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role, world

NEVER = PreemptionPolicy()
OTHERS = PreemptionPolicy(reclaim=PreemptOthers.LOWER_PRIORITY)
NEWER = PreemptionPolicy(
    within_queue=PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY, reclaim=PreemptOthers.LOWER_PRIORITY
)


def examine(stage: Stage, name: str) -> JobExamination:
    found = examine_job(stage.snapshot, stage.config, Instant(stage.now), name)
    assert found is not None
    return found


def full(policy: PreemptionPolicy = NEVER, config: EngineConfig = ADMIT) -> Stage:
    """Team a has used its quota of 4 of 12 GPUs; a second job of it waits."""
    queues = [queue("a", preemption=policy), queue("b")]
    teams = {"a": quotas(4, borrow=8), "b": quotas(4)}
    running = [job("own", "a", role(2, 2), at=1), job("theirs", "b", role(1, 4), at=1)]
    stage = Stage(world([node("n1", 8), node("n2", 4)], running, teams=teams, queues=queues), config)
    stage.cycle()
    return stage


class TestRoom:
    def test_a_job_that_waits_to_borrow_has_its_place_named(self) -> None:
        stage = full()
        stage.submit(job("more", "a", role(1, 4), at=5))
        found = examine(stage, "more")
        assert found.outcome.reason is Reason.WAITING_FOR_BORROWED
        assert found.room is not None
        assert [place.job for place in found.room.places] == ["more"]
        assert not stage.snapshot.allocations_of("more")

    def test_a_job_that_lacks_both_has_no_place(self) -> None:
        stage = full()
        stage.submit(job("more", "a", role(1, 8), at=5))
        found = examine(stage, "more")
        assert found.room is not None
        assert (found.room.places, found.room.reason) == ((), Reason.NO_ROOM)
        assert found.room.numbers["most_free_on_one_node"] == 4

    def test_what_starts_in_this_cycle_has_taken_its_place(self) -> None:
        stage = full()
        stage.submit(job("next", "b", role(1, 0, cpu=60_000), at=2), job("more", "a", role(1, 4, cpu=60_000)))
        room = examine(stage, "more").room
        assert room is not None
        free = {place.node for place in room.places}
        stage.cycle()
        taken = {place.node for place in stage.snapshot.allocations_of("next")}
        assert taken and free.isdisjoint(taken)


class TestPreemption:
    @pytest.mark.parametrize("config", [ADMIT, replace(ADMIT, fair_sharing=FairSharing())])
    @pytest.mark.parametrize(
        ("policy", "priority", "result", "jobs"),
        [
            (NEVER, 9, PreemptionResult.NEVER, (0, 0)),
            (OTHERS, 0, PreemptionResult.NO_JOBS, (0, 0)),
            (NEWER, 0, PreemptionResult.NO_JOBS, (0, 0)),
        ],
    )
    def test_rules_that_allow_nothing_are_distinguished(
        self,
        config: EngineConfig,
        policy: PreemptionPolicy,
        priority: int,
        result: PreemptionResult,
        jobs: tuple[int, int],
    ) -> None:
        stage = full(policy, config)
        stage.submit(job("more", "a", role(1, 4), at=5, priority=priority, preemptible=False))
        gate = examine(stage, "more").preemption
        assert gate is not None
        assert (gate.result, (gate.own_jobs, gate.other_jobs)) == (result, jobs)

    def test_a_job_that_would_borrow_and_may_not_preempt_for_it_says_so(self) -> None:
        stage = full(OTHERS)
        stage.submit(job("more", "a", role(1, 8), at=5, priority=9))
        gate = examine(stage, "more").preemption
        assert gate is not None
        assert gate.result is PreemptionResult.BORROWS

    def test_candidates_that_are_not_enough_are_counted(self) -> None:
        """One of the two jobs of the queue has a lower priority, and holds half of what is missing."""
        queues = [queue("a", preemption=TAKE_BACK)]
        running = [job("low", "a", role(1, 2), at=1), job("high", "a", role(1, 2), at=2, priority=9)]
        stage = Stage(world([node("n1", 8)], running, teams={"a": quotas(4)}, queues=queues), ADMIT)
        stage.cycle()
        stage.submit(job("more", "a", role(1, 4), at=5, priority=5))
        gate = examine(stage, "more").preemption
        assert gate is not None
        assert (gate.result, gate.short) == (PreemptionResult.NOT_ENOUGH, 4)
        assert (gate.own_jobs, gate.own_amount, gate.other_jobs) == (1, 2, 0)

    def test_jobs_that_would_be_preempted_are_those_of_the_next_cycle(self) -> None:
        queues = [queue("a", preemption=TAKE_BACK)]
        running = [job("low", "a", role(1, 4), at=1)]
        stage = Stage(world([node("n1", 8)], running, teams={"a": quotas(4)}, queues=queues), ADMIT)
        stage.cycle()
        stage.submit(job("more", "a", role(1, 4), at=5, priority=5))
        found = examine(stage, "more")
        assert found.outcome.reason is Reason.WAITING_FOR_PREEMPTED
        assert found.preemption is None and found.room is not None

    def test_the_snapshot_is_unchanged_by_gates(self) -> None:
        stage = full(TAKE_BACK)
        stage.submit(job("more", "a", role(1, 8), at=5, priority=9))
        before = stage.snapshot.usage_version(), stage.snapshot.export_quota_nodes()
        examine(stage, "more")
        after = stage.snapshot.usage_version(), stage.snapshot.export_quota_nodes()
        assert before[1] == after[1] and before[0][1:] == after[0][1:]
        assert stage.cycle().outcomes == stage.cycle().outcomes
