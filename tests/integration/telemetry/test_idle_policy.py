"""The idle rule of a workspace's policy: from measured GPUs over the warning to the action."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clusters.models import Cell
from foundation.messaging import leases
from foundation.models import AuditRecord
from scheduling import engine
from scheduling.commit import commit_cycle
from scheduling.engine import model as em
from scheduling.engine_input.config import engine_config
from scheduling.models import IdleAction, IdleStretch, Job, JobEvent, JobState, WorkspacePolicy
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.idle_extension import extend_idle_job
from scheduling.services.sweep import watch_starts
from scheduling.snapshots import CellSnapshot, cell_snapshot
from telemetry.services.idle import idle_report
from tests.builders import tenancy
from tests.integration.telemetry.conftest import START, Bench

LIMIT_S = 300
ROUND_S = 30


class Clockwork:
    """Measurements, reports, sweeps and cycles every 30 s."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.at = bench, START
        Job.unscoped.update(state=JobState.RUNNING, attempt_number=1)

    def run(
        self,
        seconds: float,
        *,
        whole: float | None = 0.0,
        sliced: tuple[float | None, float | None] = (0.0, 40.0),
        reports: bool = True,
        cycles: bool = True,
    ) -> None:
        """Let time pass; None is a GPU without measurements, without `reports` the collector is dead."""
        for _ in range(int(seconds // ROUND_S)):
            self.at += timedelta(seconds=ROUND_S)
            self.bench.clock.move_to(self.at)
            if reports:
                self._measure(whole, sliced)
                idle_report()
            watch_starts()
            if cycles:
                cycle_run(cell_id=self.bench.world.cell.pk)

    def decide(self) -> tuple[CellSnapshot, em.CycleResult]:
        """Return what a cycle would decide now."""
        taken = cell_snapshot(self.bench.world.cell.pk)
        return taken, engine.run_cycle(taken.snapshot, engine_config(), em.Instant(self.at.timestamp()))

    def _measure(self, whole: float | None, sliced: tuple[float | None, float | None]) -> None:
        found = [(self.bench.sliced, index, use) for index, use in enumerate(sliced)]
        samples = [
            self.bench.pod(self.at, job, index, use, 5_000)
            for job, index, use in [*found, (self.bench.whole, 0, whole)]
            if use is not None
        ]
        if samples:
            self.bench.write(*samples)


@pytest.fixture
def works(bench: Bench) -> Clockwork:
    WorkspacePolicy.unscoped.create(tenant=tenancy.root(), idle_timeout_s=LIMIT_S, idle_warn_s=90)
    return Clockwork(bench)


def state(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def codes(job: Job) -> list[str]:
    return list(JobEvent.unscoped.filter(job=job).order_by("at", "pk").values_list("code", flat=True))


def stretch(job: Job) -> IdleStretch:
    return IdleStretch.unscoped.get(job=job)


def test_the_owner_is_warned_and_then_the_job_is_suspended(works: Clockwork) -> None:
    works.run(LIMIT_S - 90)
    assert codes(works.bench.whole) == []
    works.run(60)
    warned = JobEvent.unscoped.get(job=works.bench.whole)
    assert (warned.code, warned.numbers["action"]) == ("idle_warned", "suspend")
    assert 60 <= warned.numbers["left_s"] <= 90
    assert state(works.bench.whole) == JobState.RUNNING
    works.run(120)
    assert state(works.bench.whole) == JobState.EVICTING
    assert works.bench.whole.after_eviction == JobState.SUSPENDED
    told = JobEvent.unscoped.get(job=works.bench.whole, code="evicting")
    assert told.numbers["rule"] == "IDLE"
    assert told.at >= warned.at + timedelta(seconds=60)
    assert state(works.bench.sliced) == JobState.RUNNING
    assert not IdleStretch.unscoped.filter(job=works.bench.sliced).exists()


def test_without_an_idle_timeout_nothing_happens(works: Clockwork) -> None:
    WorkspacePolicy.unscoped.all().delete()
    works.run(2 * LIMIT_S, sliced=(0.0, 0.0))
    assert {state(job) for job in (works.bench.whole, works.bench.sliced)} == {JobState.RUNNING}
    assert stretch(works.bench.whole).limit_s is None
    assert codes(works.bench.whole) == []


@pytest.mark.parametrize("dead_from_s", [240, 300])
def test_a_dead_collector_never_causes_an_action(works: Clockwork, dead_from_s: int) -> None:
    works.run(dead_from_s)
    works.run(2 * LIMIT_S, reports=False)
    assert state(works.bench.whole) == JobState.RUNNING
    # When measurements are back the idle time begins anew, and the owner is warned again.
    before = works.at
    works.run(LIMIT_S - 90)
    assert stretch(works.bench.whole).since > before
    assert state(works.bench.whole) == JobState.RUNNING
    works.run(180)
    assert state(works.bench.whole) == JobState.EVICTING
    last_warning = JobEvent.unscoped.filter(job=works.bench.whole, code="idle_warned").latest("at")
    assert last_warning.at > before


def test_a_job_with_an_unmeasured_gpu_is_not_idle(works: Clockwork) -> None:
    works.run(2 * LIMIT_S, sliced=(0.0, None))
    assert not IdleStretch.unscoped.filter(job=works.bench.sliced).exists()
    assert state(works.bench.sliced) == JobState.RUNNING


def test_use_ends_the_idle_time_and_the_warning(works: Clockwork) -> None:
    works.run(LIMIT_S - 60)
    assert codes(works.bench.whole) == ["idle_warned"]
    works.run(ROUND_S, whole=50.0)
    assert codes(works.bench.whole) == ["idle_warned", "idle_ended"]
    assert not IdleStretch.unscoped.filter(job=works.bench.whole).exists()
    works.run(LIMIT_S - 60)
    assert state(works.bench.whole) == JobState.RUNNING


def test_the_owner_extends_once_per_warning(works: Clockwork) -> None:
    job, owner = works.bench.whole, works.bench.whole.submitted_by
    works.run(LIMIT_S - 60)
    due = stretch(job).act_at
    assert due is not None
    job.refresh_from_db()
    first = extend_idle_job(acting_user=owner, job=job)
    assert first.act_at == due + timedelta(seconds=LIMIT_S)
    again = extend_idle_job(acting_user=owner, job=job)
    assert (again.act_at, again.extensions) == (first.act_at, 1)
    assert AuditRecord.unscoped.filter(action="job.extend").count() == 1
    assert codes(job).count("idle_extended") == 1

    works.run(LIMIT_S - 120)
    assert state(job) == JobState.RUNNING
    works.run(150)
    assert codes(job).count("idle_warned") == 2
    works.run(120)
    assert state(job) == JobState.EVICTING


def test_an_action_that_was_decided_is_dropped_when_the_job_was_extended(works: Clockwork) -> None:
    job = works.bench.whole
    works.run(LIMIT_S + 90, cycles=False)
    taken, result = works.decide()
    assert [decision.rule for decision in result.decisions] == [em.EvictRule.IDLE]
    extend_idle_job(acting_user=job.submitted_by, job=Job.unscoped.get(pk=job.pk), seconds=60)
    with leases.hold_lease(Cell, works.bench.world.cell.pk) as epoch:
        assert epoch is not None
        done = commit_cycle(
            cell_id=works.bench.world.cell.pk, epoch=epoch, taken=taken, result=result, now=works.at
        )
    assert (done.evicted, done.dropped) == (0, 1)
    assert state(job) == JobState.RUNNING


def test_a_job_can_be_made_preemptible_and_is_not_once_it_is_used(works: Clockwork) -> None:
    WorkspacePolicy.unscoped.update(idle_action=IdleAction.PREEMPTIBLE)
    job = works.bench.whole
    Job.unscoped.filter(pk=job.pk).update(preemptible=False)
    works.run(LIMIT_S + 60)
    assert state(job) == JobState.RUNNING
    assert job.preemptible is False
    assert codes(job) == ["idle_warned", "idle_preemptible"]
    assert works.decide()[0].snapshot.jobs[str(job.pk)].preemptible
    works.run(ROUND_S, whole=50.0)
    assert not works.decide()[0].snapshot.jobs[str(job.pk)].preemptible
