"""An eviction and its claim are committed together or not at all, whatever happened meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import time_machine
from django.db.models import F

from clusters.models import Cell, Device, Node
from foundation.core import clock
from foundation.messaging import leases
from quotas.models import Queue, StopPolicy
from scheduling import engine
from scheduling.commit import Committed, commit_cycle
from scheduling.engine import model as em
from scheduling.engine.model import Instant
from scheduling.engine_input.config import engine_config
from scheduling.lifecycle.job_lifecycle import finish_jobs
from scheduling.models import Allocation, Claim, Decision, DecisionKind, Job, JobEvent, JobState
from scheduling.services.jobs.job import job_cancel, job_suspend
from scheduling.services.sweep import sweep_cells
from scheduling.snapshots import CellSnapshot, cell_snapshot
from tests.builders import jobs
from tests.builders.stage import Stage, state
from tests.integration.scheduling.books import assert_books, assert_jobs
from tests.integration.scheduling.test_reclaim import Two

pytestmark = pytest.mark.django_db


def decided(stage: Stage) -> tuple[CellSnapshot, em.CycleResult]:
    taken = cell_snapshot(stage.cell.pk)
    return taken, engine.run_cycle(taken.snapshot, engine_config(), Instant(clock.now().timestamp()))


def commit(stage: Stage, taken: CellSnapshot, result: em.CycleResult) -> Committed:
    with leases.hold_lease(Cell, stage.cell.pk) as epoch:
        assert epoch is not None
        return commit_cycle(cell_id=stage.cell.pk, epoch=epoch, taken=taken, result=result, now=clock.now())


class Reclaim(Two):
    """A cycle that takes a node back for the second team, before its commit."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        super().__init__()
        self.borrowers = self.borrowed()
        traveller.shift(18)
        self.owner = self.submit_other("owner", jobs.RoleOf(cards=8))
        self.taken, self.result = decided(self)
        evict = next(d for d in self.result.decisions if d.kind is em.DecisionKind.EVICT)
        self.victim = Job.unscoped.get(pk=evict.job)


def finishes(stage: Reclaim) -> None:
    finish_jobs([stage.victim], JobState.SUCCEEDED, now=clock.now())


def is_suspended(stage: Reclaim) -> None:
    job_suspend(acting_user=stage.user, job=stage.victim)


def owner_is_cancelled(stage: Reclaim) -> None:
    job_cancel(acting_user=stage.other_user, job=stage.owner)


@pytest.mark.parametrize("meanwhile", [finishes, is_suspended, owner_is_cancelled])
def test_nothing_is_half_done(meanwhile: Callable[[Reclaim], None]) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Reclaim(traveller)
        meanwhile(stage)
        before = list(Job.unscoped.order_by("pk").values_list("pk", "state", "version", "end_reason"))
        removals = Allocation.unscoped.filter(removal_asked_at__isnull=False).count()

        done = commit(stage, stage.taken, stage.result)

        assert (done.evicted, done.promised, done.dropped) == (0, 0, 1)
        assert not Claim.unscoped.exists()
        assert not Decision.unscoped.filter(kind=DecisionKind.EVICT).exists()
        assert before == list(Job.unscoped.order_by("pk").values_list("pk", "state", "version", "end_reason"))
        assert Allocation.unscoped.filter(removal_asked_at__isnull=False).count() == removals


def test_the_same_result_written_twice_is_written_once() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Reclaim(traveller)

        first = commit(stage, stage.taken, stage.result)
        second = commit(stage, stage.taken, stage.result)

        assert (first.evicted, first.promised, first.dropped) == (1, 1, 0)
        assert (second.evicted, second.promised, second.dropped) == (0, 0, 1)
        assert JobEvent.unscoped.filter(code="evicting").count() == 1
        assert Claim.unscoped.count() == 1
        assert_books()
        assert_jobs()


def test_what_fails_takes_its_own_bundle_along_and_no_other() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        running = [stage.submit(name, jobs.RoleOf(cards=8), run_s=100_000) for name in ("one", "two")]
        stage.run(15)
        traveller.shift(18)
        stage.submit("urgent", jobs.RoleOf(cards=8), priority=jobs.priority_class("high", 100))
        taken, result = decided(stage)
        # In the same cycle: an admission whose card has failed since.
        late = stage.submit("late")
        job = engine.decode(em.Allocation, {**engine.encode(_one_card(stage, late))})
        admit = em.Decision(kind=em.DecisionKind.ADMIT, job=str(late.pk), allocations=(job,))
        taken.jobs[str(late.pk)] = Job.unscoped.get(pk=late.pk)  # type: ignore[index]
        Device.unscoped.update(healthy=False)

        done = commit(
            stage, taken, em.CycleResult(decisions=(admit, *result.decisions), outcomes=result.outcomes)
        )

        assert (done.admitted, done.evicted, done.promised, done.dropped) == (0, 1, 1, 1)
        assert [state(job) for job in running].count(JobState.EVICTING) == 1
        assert state(late) == JobState.QUEUED


def _one_card(stage: Stage, job: Job) -> em.Allocation:
    node = Node.unscoped.order_by("name")[0]
    device = Device.unscoped.filter(node=node).order_by("index")[0]
    return em.Allocation(
        job=str(job.pk),
        queue=str(job.queue_id),
        role="main",
        index=0,
        flavor=str(stage.flavor.pk),
        node=str(node.pk),
        slices=(em.DeviceSlice(device.uuid, 100, 40_960, exclusive=True),),
    )


@pytest.mark.parametrize(
    ("rule", "then"),
    [
        (em.EvictRule.STALE_GANG, JobState.QUEUED),
        (em.EvictRule.NODE_PRESSURE, JobState.QUEUED),
        (em.EvictRule.IDLE, JobState.SUSPENDED),
        (em.EvictRule.TIME_LIMIT, JobState.FAILED),
    ],
)
def test_where_an_eviction_leads_follows_from_its_rule(rule: em.EvictRule, then: JobState) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("gang", jobs.RoleOf(replicas=2, cards=4), run_s=100_000)
        stage.run(15)
        traveller.shift(18)
        taken = cell_snapshot(stage.cell.pk)
        held = tuple(a.id for a in taken.snapshot.allocations_of(str(job.pk)))
        evict = em.Decision(kind=em.DecisionKind.EVICT, job=str(job.pk), rule=rule, released=held)

        done = commit(stage, taken, em.CycleResult(decisions=(evict,), outcomes=()))

        assert done.evicted == 1
        Queue.unscoped.update(stop_policy=StopPolicy.HOLD)  # so that it does not start again
        stage.run(60, every_s=12)
        assert state(job) == then
        numbers = JobEvent.unscoped.get(job=job, code="evicting").numbers
        assert numbers == {"rule": rule.value, "tasks": 2, "cards": 8}
        stage.assert_nothing_is_held()


class Scattered(Stage):
    """A job of four cards on each of the two nodes, and one that needs a whole node."""

    def __init__(self, traveller: time_machine.Traveller, **fields: Any) -> None:
        super().__init__()
        first = [self.submit(f"filler-{i}", jobs.RoleOf(cards=4), run_s=100_000) for i in range(4)]
        self.run(15)
        traveller.shift(18)
        by_node: dict[Any, list[Job]] = {}
        for job in first:
            by_node.setdefault(Allocation.unscoped.get(attempt__job=job).node_id, []).append(job)
        for pair in by_node.values():
            job_cancel(acting_user=self.user, job=Job.unscoped.get(pk=pair[0].pk))
        self.movable = [pair[1] for pair in by_node.values()]
        movable = Job.unscoped.filter(pk__in=[job.pk for job in self.movable])
        movable.update(version=F("version") + 1, **fields)
        self.run(60, every_s=10)
        traveller.shift(63)
        self.large = self.submit("large", jobs.RoleOf(cards=8), run_s=100_000)


def test_a_job_is_moved_for_a_larger_one_and_neither_lacks_a_place() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Scattered(traveller)
        sweep_cells()
        stage.run(0)

        (moved,) = [job for job in stage.movable if state(job) == JobState.EVICTING]
        claims = {claim.job_id: claim for claim in Claim.unscoped.all()}
        assert set(claims) == {moved.pk, stage.large.pk}
        promised = engine.decode(em.Claim, claims[moved.pk].content).allocations[0].node
        # A job that is submitted now does not get the place of the mover.
        thief = stage.submit("thief", jobs.RoleOf(cards=4), run_s=100_000)

        traveller.shift(3)
        stage.run(90, every_s=6)
        assert state(stage.large) == JobState.RUNNING
        assert state(moved) == JobState.RUNNING
        assert str(Allocation.unscoped.get(attempt__job=moved, released_at=None).node_id) == promised
        assert state(thief) == JobState.QUEUED
        assert not Claim.unscoped.exists()
        assert Decision.unscoped.filter(kind=DecisionKind.MIGRATE).count() == 1
        assert not Decision.unscoped.filter(kind=DecisionKind.EVICT).exists()
        assert_books()
        assert_jobs()


def test_a_job_that_would_not_come_back_is_not_moved() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Scattered(traveller, lifecycle=[{"on": "task_evicted", "do": "fail_job"}])
        stage.run(9)

        assert {state(job) for job in stage.movable} == {JobState.RUNNING}
        assert state(stage.large) == JobState.QUEUED
        assert stage.large.reason == "NO_ROOM"


def test_a_mover_that_is_cancelled_loses_its_new_place() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Scattered(traveller)
        stage.run(0)
        (moved,) = [job for job in stage.movable if state(job) == JobState.EVICTING]
        job_cancel(acting_user=stage.user, job=moved)

        assert set(Claim.unscoped.values_list("job", flat=True)) == {stage.large.pk}
        traveller.shift(3)
        stage.run(90, every_s=6)
        assert (state(moved), state(stage.large)) == (JobState.CANCELLED, JobState.RUNNING)
        assert_books()
