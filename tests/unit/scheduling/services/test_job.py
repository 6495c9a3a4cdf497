"""Submitting, cancelling, suspending and resuming jobs."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.core.errors import AllotmentError, Conflict, NotFound, PermissionDenied, Refused
from foundation.models import AuditRecord, Hint
from scheduling.job_file import parse_job
from scheduling.models import Claim, Job, JobEvent, JobState, PriorityGrant, Task
from scheduling.services.jobs import feasibility, job_check
from scheduling.services.jobs.feasibility import JobMisfit
from scheduling.services.jobs.job import job_cancel, job_restart, job_resume, job_submit, job_suspend
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def w() -> World:
    return world()


def body(**changes: Any) -> dict[str, Any]:
    role = {"replicas": 2, "resources": {"cpu": 1, "memory": "1Gi", "gpu": {"cards": 1}}}
    return {"name": "train", "roles": [role]} | changes


def submit(w: World, **changes: Any) -> Job:
    return job_submit(acting_user=w.editor, workspace=w.workspace, spec=parse_job(body(**changes)))


def refusal(w: World, **changes: Any) -> AllotmentError:
    with pytest.raises(AllotmentError) as caught:
        submit(w, **changes)
    return caught.value


def test_a_submission_writes_job_tasks_event_audit_and_hint(w: World) -> None:
    job = submit(w)

    stored = Job.unscoped.get(pk=job.pk)
    assert (stored.state, stored.reason) == (JobState.QUEUED, "PENDING_EVALUATION")
    assert Task.unscoped.filter(job=job).count() == 2
    assert JobEvent.unscoped.get(job=job).code == "submitted"
    assert AuditRecord.unscoped.get(action="job.submit").entity_id == str(job.pk)
    assert Hint.unscoped.get(topic="cycle-later").key == str(w.cell.pk)


def test_a_submission_costs_the_same_whatever_its_size(w: World, django_assert_max_num_queries: Any) -> None:
    submit(w, name="warm")

    with django_assert_max_num_queries(17):
        submit(w, roles=[{"name": f"r{n}", "replicas": 10} for n in range(8)])


def test_who_may_not_submit(w: World) -> None:
    spec = parse_job(body())

    with pytest.raises(PermissionDenied):
        job_submit(acting_user=w.viewer, workspace=w.workspace, spec=spec)
    with pytest.raises(NotFound):
        job_submit(acting_user=w.outsider, workspace=w.workspace, spec=spec)


def test_a_live_name_is_taken_and_free_again_afterwards(w: World) -> None:
    first = submit(w)

    assert refusal(w).code == "NAME_TAKEN"
    job_cancel(acting_user=w.editor, job=first)
    submit(w)


def test_unknown_queue_and_class(w: World) -> None:
    assert refusal(w, queue="nope").code == "QUEUE_UNKNOWN"
    assert refusal(w, priority_class="nope").errors[0].field == "priority_class"


def test_a_raised_priority_needs_a_grant(w: World) -> None:
    high = jobs.priority_class("high", 100)

    assert refusal(w, priority_class="high").code == "PRIORITY_NOT_GRANTED"
    PriorityGrant.unscoped.create(tenant=w.workspace.parent, priority_class=high)
    assert submit(w, priority_class="high").priority == 100


def test_a_workspace_has_a_cap_of_waiting_jobs(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_check, "PENDING_MAX", 2)
    submit(w, name="one")
    submit(w, name="two")

    assert refusal(w, name="three").code == "TOO_MANY_PENDING"


def test_what_can_never_fit_is_refused_with_numbers(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasibility, "find_misfit", lambda spec, queue: JobMisfit({"asked": 9, "largest": 8}))

    error = refusal(w)

    assert isinstance(error, Refused)
    assert (error.code, error.status, error.numbers["largest"]) == ("NEVER_FITS", 422, 8)
    assert not Job.unscoped.exists()


def test_protection_asked_for_is_capped(w: World) -> None:
    assert submit(w, min_run_s=10**6).min_run_s == job_check.MIN_RUN_MAX_S


def test_cancel_while_waiting_ends_at_once_and_frees_the_claim(w: World) -> None:
    job = submit(w)
    Claim.unscoped.create(job=job, content={}, expires_at=job.submitted_at)

    job_cancel(acting_user=w.editor, job=job)

    job.refresh_from_db()
    assert (job.state, job.reason, job.end_reason) == (JobState.CANCELLED, "", "CANCELLED")
    assert job.finished_at is not None
    assert not Claim.unscoped.exists()
    with pytest.raises(Conflict):
        job_cancel(acting_user=w.editor, job=job)


def test_cancel_while_running_begins_to_stop_and_may_be_repeated(w: World) -> None:
    job = jobs.job(w.queue, w.editor)
    jobs.allocate(job, w.nodes[0])

    job_cancel(acting_user=w.editor, job=job)
    job_cancel(acting_user=w.editor, job=job)

    assert job.state == JobState.STOPPING


def test_suspend_and_resume_while_waiting(w: World) -> None:
    job = submit(w)

    job_suspend(acting_user=w.editor, job=job)
    assert (job.state, job.reason, job.reason_numbers) == (JobState.SUSPENDED, "SUSPENDED", {"user": "ed"})
    with pytest.raises(Conflict):
        job_suspend(acting_user=w.editor, job=job)

    job_resume(acting_user=w.editor, job=job)
    assert (job.state, job.reason) == (JobState.QUEUED, "PENDING_EVALUATION")
    with pytest.raises(Conflict):
        job_resume(acting_user=w.editor, job=job)


def test_suspend_while_running_evicts_towards_suspended(w: World) -> None:
    job = jobs.job(w.queue, w.editor)
    jobs.allocate(job, w.nodes[0])

    job_suspend(acting_user=w.editor, job=job)

    assert (job.state, job.after_eviction) == (JobState.EVICTING, JobState.SUSPENDED)


def test_restart_evicts_towards_the_queue_whatever_the_rules_on_evictions_say(w: World) -> None:
    job = jobs.job(w.queue, w.editor)
    Job.unscoped.filter(pk=job.pk).update(lifecycle=[{"on": "task_evicted", "do": "fail_job"}])
    job.refresh_from_db()
    with pytest.raises(Conflict):
        job_restart(acting_user=w.editor, job=job)
    jobs.allocate(job, w.nodes[0])

    job_restart(acting_user=w.editor, job=job)

    assert (job.state, job.after_eviction, job.end_reason) == (JobState.EVICTING, JobState.QUEUED, "RESTART")


def test_an_action_on_a_stale_copy_looks_again(w: World) -> None:
    job = submit(w)
    stale = Job.unscoped.select_related("queue", "workspace").get(pk=job.pk)
    jobs.allocate(job, w.nodes[0])
    Job.unscoped.filter(pk=job.pk).update(version=7)

    job_cancel(acting_user=w.editor, job=stale)

    assert stale.state == JobState.STOPPING


def test_whose_jobs_one_may_stop(w: World) -> None:
    job = jobs.job(w.queue, w.admin)

    with pytest.raises(PermissionDenied):
        job_cancel(acting_user=w.editor, job=job)
    with pytest.raises(NotFound):
        job_cancel(acting_user=w.outsider, job=job)
    job_cancel(acting_user=w.admin, job=job)
