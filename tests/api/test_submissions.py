"""Many jobs in one request."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from foundation.models import AuditRecord, Hint
from scheduling.models import Job, JobEvent, Task
from scheduling.services.jobs import job_batch, job_check
from tests.api.conftest import As
from tests.builders import jobs
from tests.builders.world import World

SUBMISSIONS = "/api/v1/workspaces/team-a/job-submissions"


def body(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "roles": [{"replicas": 2, "resources": {"gpu": {"cards": 1}}}], **more}


@pytest.fixture
def editor(w: World, as_user: As) -> APIClient:
    return as_user(w.editor)


def test_all_of_them_become_jobs(w: World, editor: APIClient) -> None:
    answer = editor.post(SUBMISSIONS, {"jobs": [body("one"), body("two"), body("three")]})

    told = answer.json()
    assert (answer.status_code, told["succeeded"], told["failed"]) == (202, 3, 0)
    made = {str(job.pk): job for job in Job.unscoped.all()}
    assert [made[item["id"]].name for item in told["items"]] == ["one", "two", "three"]
    assert Task.unscoped.count() == 6
    assert JobEvent.unscoped.filter(code="submitted", actor="ed").count() == 3
    assert AuditRecord.unscoped.filter(action="job.submit", tenant_id=w.workspace.pk).count() == 3
    assert Hint.unscoped.filter(topic="cycle-later").count() == 1


def test_what_one_is_refused_for_does_not_stop_the_others(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "taken")
    asked = [
        body("good"),
        body("taken"),
        body("good"),
        body("elsewhere", queue="nowhere"),
        {"name": "broken", "roles": []},
        "no job at all",
        body("fine"),
    ]

    told = editor.post(SUBMISSIONS, {"jobs": asked}).json()

    codes = [item["problem"]["code"] if item["problem"] else None for item in told["items"]]
    refused = ["NAME_TAKEN", "NAME_TAKEN", "QUEUE_UNKNOWN", "SPEC_INVALID", "SPEC_INVALID"]
    assert codes == [None, *refused, None]
    assert [item["name"] for item in told["items"]][3:6] == ["elsewhere", "broken", ""]
    assert (told["succeeded"], told["failed"]) == (2, 5)
    assert set(Job.unscoped.values_list("name", flat=True)) == {"taken", "good", "fine"}


def test_each_is_held_to_the_size_of_a_single_one(w: World, editor: APIClient) -> None:
    fat = body("fat")
    fat["roles"][0] |= {"command": ["x" * 4000] * 100}
    asked = [body("good"), fat, body("vast", environment={"A": "x" * 300_000}), body("fine")]

    told = editor.post(SUBMISSIONS, {"jobs": asked}).json()

    problems = [item["problem"] for item in told["items"]]
    assert [problem and problem["code"] for problem in problems] == [None, "TOO_LARGE", "TOO_LARGE", None]
    assert set(Job.unscoped.values_list("name", flat=True)) == {"good", "fine"}


def test_a_dry_run_writes_nothing(editor: APIClient) -> None:
    answer = editor.post(f"{SUBMISSIONS}?dry_run=true", {"jobs": [body("one"), body("one")]})

    told = answer.json()
    assert (answer.status_code, answer["Dry-Run"]) == (200, "true")
    assert [item["succeeded"] for item in told["items"]] == [True, False]
    assert not Job.unscoped.exists() and not AuditRecord.unscoped.exists()


def test_a_repetition_is_answered_as_before(editor: APIClient) -> None:
    asked = {"jobs": [body("one"), body("two")]}

    first = editor.post(SUBMISSIONS, asked, headers={"Idempotency-Key": "sweep"})
    second = editor.post(SUBMISSIONS, asked, headers={"Idempotency-Key": "sweep"})

    assert first.json() == second.json() and second["Idempotency-Replayed"] == "true"
    assert Job.unscoped.count() == 2


def test_no_more_are_accepted_than_may_wait(
    w: World, editor: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_check, "PENDING_MAX", 3)  # as two more find room
    jobs.job(w.queue, w.editor, "waits")

    told = editor.post(SUBMISSIONS, {"jobs": [body(f"job-{n}") for n in range(4)]}).json()

    codes = [item["problem"]["code"] if item["problem"] else None for item in told["items"]]
    assert codes == [None, None, "TOO_MANY_PENDING", "TOO_MANY_PENDING"]
    assert Job.unscoped.count() == 3


def test_a_name_that_is_taken_at_the_same_moment_is_left_out(
    w: World, editor: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = job_batch.create_many

    def beaten(many: Any) -> None:
        monkeypatch.setattr(job_batch, "create_many", write)
        raise IntegrityError

    looked = job_batch._refuse_taken

    def look(entries: Any, workspace: Any) -> None:
        looked(entries, workspace)
        if not Job.unscoped.exists():
            jobs.job(w.queue, w.editor, "one")

    monkeypatch.setattr(job_batch, "create_many", beaten)
    monkeypatch.setattr(job_batch, "_refuse_taken", look)

    told = editor.post(SUBMISSIONS, {"jobs": [body("one"), body("two")]}).json()

    assert [item["succeeded"] for item in told["items"]] == [False, True]
    assert told["items"][0]["problem"]["code"] == "NAME_TAKEN"
    assert set(Job.unscoped.values_list("name", flat=True)) == {"one", "two"}


def test_many_cost_as_many_statements_as_few(
    editor: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    editor.post(SUBMISSIONS, {"jobs": [body("first"), body("second")]})

    with django_assert_max_num_queries(40):
        answer = editor.post(SUBMISSIONS, {"jobs": [body(f"job-{n}") for n in range(200)]})

    assert answer.json()["succeeded"] == 200


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "jobs"),
        ({"jobs": []}, "jobs"),
        ({"jobs": {"name": "one"}}, "jobs"),
        ({"jobs": [{}] * 501}, "jobs"),
        ({"jobs": [{}], "colour": "red"}, "colour"),
    ],
)
def test_a_body_of_another_shape_is_refused_whole(editor: APIClient, asked: Any, field: str) -> None:
    answer = editor.post(SUBMISSIONS, asked)

    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_viewer_submits_nothing(w: World, as_user: As) -> None:
    answer = as_user(w.viewer).post(SUBMISSIONS, {"jobs": [body("one")]})

    assert answer.status_code == 403 and not Job.unscoped.exists()


def test_the_tasks_of_one_request_are_bounded_together(
    w: World, editor: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_check, "REQUEST_TASKS_MAX", 5)

    told = editor.post(SUBMISSIONS, {"jobs": [body("one"), body("two"), body("three")]}).json()

    assert [item["succeeded"] for item in told["items"]] == [True, True, False]
    problem = told["items"][2]["problem"]
    assert problem["code"] == "TOO_MANY_PENDING_TASKS"
    assert problem["numbers"] == {"limit": 5, "ahead": 4, "asked": 2}
    assert Task.unscoped.count() == 4


def test_the_tasks_that_wait_in_a_workspace_are_bounded(
    w: World, editor: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_check, "PENDING_TASKS_MAX", 30)
    # More tasks than the cards there are have to be able to start together, so each can start alone.
    wide = {"roles": [{"replicas": 12, "min_replicas": 1, "resources": {"cpu": 1}}]}
    for name in ("one", "two"):
        assert editor.post("/api/v1/workspaces/team-a/jobs", {"name": name, **wide}).status_code == 202

    third = editor.post("/api/v1/workspaces/team-a/jobs", {"name": "three", **wide})
    small = editor.post("/api/v1/workspaces/team-a/jobs", body("small"))

    assert (third.status_code, third.json()["code"]) == (422, "TOO_MANY_PENDING_TASKS")
    assert third.json()["numbers"] == {"limit": 30, "waiting": 24, "asked": 12}
    assert small.status_code == 202
    Job.unscoped.filter(name="one").update(state="running")
    assert editor.post("/api/v1/workspaces/team-a/jobs", {"name": "three", **wide}).status_code == 202
