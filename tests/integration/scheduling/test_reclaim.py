"""Own quota is reclaimed from the queue that borrowed it, through every real part but the broker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db.models import F

from clusters.models import SimulatedPod
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from frontend.pages.jobs.events.eviction import explain_rule
from quotas.models import LedgerEntry, Queue, Quota
from scheduling.models import Attempt, Claim, Decision, DecisionKind, Job, JobEvent, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_cancel
from scheduling.services.sweep import sweep_cells
from scheduling.snapshots import cell_snapshot
from tenants.models import Role, User
from tests.builders import jobs, quotas, tenancy
from tests.builders.stage import Stage, state
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.django_db


class Two(Stage):
    """Two teams with eight cards each; the first has borrowed what the second does not use."""

    def __init__(self) -> None:
        super().__init__(cards=8)
        quotas.gpu_quota(quotas.quota_node(self.cell, tenancy.root()), self.flavor, 0)
        workspace = tenancy.workspace("team-b")
        self.other_user: User = tenancy.user("bo", workspace, Role.EDITOR)
        self.other: Queue = quotas.queue(self.cell, workspace, [self.flavor], cards=8)

    def submit_other(self, name: str, *roles: jobs.RoleOf, **fields: Any) -> Job:
        simulate = {"run_s": 100_000}
        return jobs.job(self.other, self.other_user, name, roles=roles, simulate=simulate, **fields)

    def borrowed(self) -> tuple[Job, Job]:
        """Return two running jobs of the first team, each on all cards of a node."""
        made = [self.submit(name, jobs.RoleOf(cards=8), run_s=100_000) for name in ("first", "second")]
        self.run(15)
        assert [state(job) for job in made] == [JobState.RUNNING] * 2
        return made[0], made[1]


def used(queue: Queue) -> int:
    row = LedgerEntry.unscoped.filter(node=queue.node, resource=Resource.GPU_CARDS.value).first()
    return row.reserved if row else 0


def test_a_team_gets_its_own_back_and_the_borrower_waits_in_its_old_place() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        borrowers = stage.borrowed()
        first_submitted = {job.pk: job.submitted_at for job in borrowers}
        traveller.shift(18)
        owner = stage.submit_other("owner", jobs.RoleOf(cards=8))

        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)

        (gone,) = [job for job in borrowers if state(job) == JobState.EVICTING]
        decision = Decision.unscoped.get(kind=DecisionKind.EVICT)
        assert (decision.job, decision.code, decision.beneficiary) == (gone, "RECLAIM_NOMINAL", owner)
        assert state(owner) == JobState.QUEUED
        assert owner.reason == "WAITING_FOR_PREEMPTED"
        assert Claim.unscoped.get().job == owner
        assert used(stage.queue) == 16  # nothing is free before the pods are gone
        assert_books()

        stage.run(60)
        assert state(owner) == JobState.RUNNING
        assert state(gone) == JobState.QUEUED
        assert gone.submitted_at == first_submitted[gone.pk]
        assert Attempt.unscoped.get(job=gone).end_reason == "RECLAIM_NOMINAL"
        assert (used(stage.queue), used(stage.other)) == (8, 8)
        assert not Claim.unscoped.exists()
        assert Decision.unscoped.filter(kind=DecisionKind.EVICT).count() == 1
        assert_books()
        assert_jobs()


def test_the_evicted_learn_the_rule_and_nothing_of_the_other_team() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        stage.borrowed()
        traveller.shift(18)
        owner = stage.submit_other("secret-project", jobs.RoleOf(cards=8))

        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)

        event = JobEvent.unscoped.get(code="evicting")
        assert event.numbers.items() >= {"rule": "RECLAIM_NOMINAL", "tasks": 1, "cards": 8}.items()
        told = str(list(Decision.unscoped.filter(kind=DecisionKind.EVICT).values_list("numbers")))
        told += str(list(AuditRecord.unscoped.filter(action="job.evict").values_list("after")))
        assert "RECLAIM_NOMINAL" in told
        assert owner.name not in told
        assert str(owner.pk) not in told


def test_a_job_of_the_same_team_is_named_to_the_one_evicted_for_it() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        low = [stage.submit(name, jobs.RoleOf(cards=8), run_s=100_000) for name in ("one", "two")]
        stage.run(15)
        traveller.shift(18)
        stage.submit("urgent", jobs.RoleOf(cards=8), priority=jobs.priority_class("high", 100))

        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)

        event = JobEvent.unscoped.get(code="evicting")
        assert event.job in low
        assert (event.numbers["rule"], event.numbers["beneficiary"]) == ("IN_QUEUE_PRIORITY", "urgent")


def test_while_some_terminate_no_other_job_is_evicted() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        made = [stage.submit(f"small-{i}", jobs.RoleOf(cards=2), run_s=100_000) for i in range(8)]
        stage.run(15)
        assert {state(job) for job in made} == {JobState.RUNNING}
        traveller.shift(18)
        stage.submit_other("owner", jobs.RoleOf(cards=2))

        for _ in range(5):  # the cluster removes no pod meanwhile
            sweep_cells()
            cycle_run(cell_id=stage.cell.pk)
            traveller.shift(1)

        assert Job.unscoped.filter(state=JobState.EVICTING).count() == 1
        assert Decision.unscoped.filter(kind=DecisionKind.EVICT).count() == 1
        assert Claim.unscoped.count() == 1


def test_a_claim_expires_and_is_made_again_without_further_victims() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        stage.borrowed()
        traveller.shift(18)
        owner = stage.submit_other("owner", jobs.RoleOf(cards=8))
        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)
        made = Claim.unscoped.get()
        assert made.expires_at == clock.now() + timedelta(seconds=300)

        traveller.shift(301)
        sweep_cells()
        assert not Claim.unscoped.exists()
        cycle_run(cell_id=stage.cell.pk)

        again = Claim.unscoped.get(job=owner)
        assert again.expires_at > made.expires_at
        assert Decision.unscoped.filter(kind=DecisionKind.EVICT).count() == 1


def test_a_canceled_job_loses_its_claim() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        borrowers = stage.borrowed()
        traveller.shift(18)
        owner = stage.submit_other("owner", jobs.RoleOf(cards=8))
        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)
        job_cancel(acting_user=stage.other_user, job=Job.unscoped.get(pk=owner.pk))

        assert not Claim.unscoped.exists()
        stage.run(60)
        assert {state(job) for job in borrowers} == {JobState.RUNNING}  # the place was free again
        assert state(owner) == JobState.CANCELLED


def test_evictions_are_counted_and_other_ends_are_not() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Two()
        job = stage.submit("often")
        for number, reason in enumerate(("RECLAIM_NOMINAL", "NODE_LOST", "FAIR_SHARE", "USER"), 1):
            Attempt.unscoped.create(
                job=job,
                number=number,
                epoch=1,
                admitted_at=clock.now(),
                ended_at=clock.now(),
                end_reason=reason,
            )
        Job.unscoped.filter(pk=job.pk).update(attempt_number=4)

        assert cell_snapshot(stage.cell.pk).snapshot.jobs[str(job.pk)].evictions == 2


def test_an_elastic_job_releases_its_surplus_and_goes_on() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        workers = jobs.RoleOf(name="worker", replicas=4, min_replicas=2, cards=4)
        elastic = stage.submit("elastic", workers, run_s=100_000)
        stage.run(15)
        assert used(stage.queue) == 16
        traveller.shift(18)
        owner = stage.submit_other("owner", jobs.RoleOf(cards=4))

        stage.run(60)

        assert state(owner) == JobState.RUNNING
        assert state(elastic) == JobState.RUNNING
        assert elastic.attempt_number == 1
        assert sorted(elastic.tasks.values_list("state", flat=True)) == ["running"] * 3 + ["waiting"]
        assert (used(stage.queue), used(stage.other)) == (12, 4)
        assert SimulatedPod.unscoped.filter(holds=True).count() == 4
        assert Decision.unscoped.filter(kind=DecisionKind.SHRINK).count() == 1
        assert_books()
        assert_jobs()


@pytest.mark.parametrize("lowered", [False, True])
def test_a_job_that_did_not_borrow_learns_what_its_queue_used(lowered: bool) -> None:
    """The job that borrowed has the higher priority, so the other one is evicted."""
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Two()
        Queue.unscoped.filter(pk=stage.queue.pk).update(within_queue="never")
        if lowered:
            quotas_of_queue = Quota.unscoped.filter(node=stage.queue.node, resource__startswith="gpu")
            quotas_of_queue.update(own_nominal=F("own_nominal") * 2)
        stage.submit("first", jobs.RoleOf(cards=8), run_s=100_000)
        stage.run(15)
        traveller.shift(18)
        urgent = jobs.priority_class("urgent", 100)
        stage.submit("second", jobs.RoleOf(cards=8), run_s=100_000, priority=urgent)
        stage.run(15)
        traveller.shift(18)
        if lowered:
            quotas_of_queue.update(own_nominal=F("own_nominal") / 2)
        stage.submit_other("owner", jobs.RoleOf(cards=8))

        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)

        event = JobEvent.unscoped.get(code="evicting")
        numbers = event.numbers
        assert (event.job.name, numbers["rule"]) == ("first", "RECLAIM_NOMINAL")
        assert (numbers["used"], numbers["nominal"], numbers.get("lowered", 0)) == (16, 8, lowered)
        text = explain_rule(numbers["rule"], numbers, "team-b")
        assert text.endswith(" (for team-b)")
        assert "Ran on borrowed quota" not in text
        assert ("was lowered to 8 GPUs while it used 16 GPUs" in text) == lowered
        assert ("The job itself started on nominal quota" in text) != lowered
