"""A snapshot is read in several queries; what is created between them must not contradict the rest."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from quotas.selectors.limits.tree import TreeRows, read_engine_rows
from scheduling import snapshots
from scheduling.engine import model as em
from scheduling.engine_input.job_history import claim_content
from scheduling.models import Allocation, Attempt, Claim, Job, JobState, Task, TaskState, UserUsage
from scheduling.snapshots import tree
from scheduling.snapshots.jobs import below_cap
from tests.builders import jobs, quotas
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def test_a_queue_opened_while_the_quota_tree_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()

    def then_open(cell_id: uuid.UUID) -> TreeRows:
        rows = read_engine_rows(cell_id)
        quotas.queue(here.cell, here.workspace, [here.flavor], name="late", cards=1)
        return rows

    monkeypatch.setattr(tree, "read_engine_rows", then_open)

    assert len(snapshots.empty_snapshot(here.cell.pk).queues) == 2


def test_a_job_that_ends_while_the_snapshot_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    gone, stays = (jobs.job(here.queue, here.editor) for _ in range(2))

    def then_cancel(cell_id: uuid.UUID) -> TreeRows:
        Job.unscoped.filter(pk=gone.pk).update(state=JobState.CANCELLED)
        return read_engine_rows(cell_id)

    monkeypatch.setattr(tree, "read_engine_rows", then_cancel)

    assert set(snapshots.cell_snapshot(here.cell.pk).snapshot.jobs) == {str(stays.pk)}


def _busy(here: World, count: int) -> None:
    """Create that many of each: pending with a claim, running, evicted; users, evictions, finished tasks."""
    for number in range(count):
        waiting = jobs.job(here.queue, here.editor)
        Job.unscoped.filter(pk=waiting.pk).update(attempt_number=1)
        claim = em.Claim(job=str(waiting.pk), allocations=(), leaving=(), until=em.Instant(0))
        Claim.unscoped.create(job=waiting, content=claim_content(claim), expires_at=clock.now())
        Attempt.unscoped.create(
            job=waiting,
            number=1,
            epoch=1,
            admitted_at=clock.now(),
            ended_at=clock.now(),
            end_reason="FAIR_SHARE",
        )
        live = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(replicas=2, cards=0)])
        jobs.allocate(live, here.nodes[number % 2])
        Task.unscoped.filter(job=live, index=0).update(state=TaskState.SUCCEEDED)
        Allocation.unscoped.filter(task__job=live, task__index=0).update(released_at=clock.now())
        leaving = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=0)])
        jobs.allocate(leaving, here.nodes[number % 2], state=JobState.EVICTING)
        Allocation.unscoped.filter(task__job=leaving).update(removal_asked_at=clock.now())
    UserUsage.unscoped.get_or_create(
        queue=here.queue, user=here.editor, defaults={"at": clock.now(), "consumed": {"gpu.cores": 50.0}}
    )
    Allocation.unscoped.update(charge={})


def test_a_snapshot_costs_the_same_queries_whatever_there_is() -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            snapshots.cell_snapshot(here.cell.pk)
        return len(seen)

    here = world()
    _busy(here, 1)
    few = queries()
    _busy(here, 3)
    assert queries() == few


def test_what_jobs_bring_with_them() -> None:
    here = world()
    _busy(here, 1)
    taken = snapshots.cell_snapshot(here.cell.pk)

    by_state = {job.state: job for job in taken.snapshot.jobs.values()}
    waiting, live, leaving = (
        by_state[state] for state in (em.JobState.QUEUED, em.JobState.LIVE, em.JobState.LEAVING)
    )
    assert (waiting.evictions, waiting.preempting) == (1, True)
    assert set(taken.snapshot.claims) == {waiting.id}
    assert [role.ended for role in live.roles] == [1]
    assert live.admitted_at is not None
    assert [task.leaving for task in taken.snapshot.allocations_of(live.id)] == [False]
    assert [task.leaving for task in taken.snapshot.allocations_of(leaving.id)] == [True]
    (usage,) = taken.snapshot.usage.values()
    assert usage.consumed == (em.ResourceAmount("gpu.cores", 50.0),)
    assert set(taken.jobs) == {str(pk) for pk in Job.unscoped.values_list("pk", flat=True)}


def test_a_claim_of_another_release_is_ignored() -> None:
    here = world()
    job = jobs.job(here.queue, here.editor)
    Claim.unscoped.create(job=job, content={"places": []}, expires_at=clock.now())
    assert not snapshots.cell_snapshot(here.cell.pk).snapshot.claims


@pytest.mark.parametrize(
    ("nominal", "largest", "seen"), [(4, 2, 3), (3, 2, 2), (None, 2, 3), (4, 1, 2), (None, 0, 2)]
)
def test_a_job_that_its_own_quota_never_holds_stays_below_the_cap(
    nominal: int | None, largest: int, seen: int
) -> None:
    request = em.Request(gpu=em.GpuRequest(cards=2))
    job = em.Job(
        id="j",
        queue="q",
        roles=(em.Role(name="worker", replicas=2, request=request),),
        submitted_at=em.Instant(0),
        evictions=3,
    )
    quota = em.Quota(flavor="f", resource="gpu.cards", own_nominal=nominal)
    (found,) = below_cap(
        [job], [em.Queue(id="q", quota_node="n")], [em.QuotaNode(id="n", quotas=(quota,))], {"f": largest}
    )
    assert found.evictions == seen
