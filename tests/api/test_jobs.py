"""Jobs over HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from rest_framework.serializers import Serializer
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.models import AuditRecord, Hint
from scheduling.api.jobs.serializers import JobDetailSerializer, JobSerializer
from scheduling.models import Job, JobDeletion, JobEvent, JobState
from scheduling.selectors.jobs.search import job_find
from tests.api.conftest import As
from tests.builders import jobs
from tests.builders.world import World

BAD_CURSORS = [
    "cursor=" + base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    for value in (
        ["submitted_at", "yesterday", "x"],
        ["submitted_at", "2026-01-01T00:00:00+00:00", "x"],
        ["submitted_at", 10**30, "x"],
        ["submitted_at", "a\x00", "x"],
        ["name", "a", "x"],
        [],
        None,
    )
]
JOBS = "/api/v1/workspaces/team-a/jobs"
BODY: dict[str, Any] = {
    "name": "train",
    "roles": [{"replicas": 2, "resources": {"cpu": 1, "gpu": {"cards": 2}}}],
}
YAML = b"""
name: train
roles:
  - {replicas: 2, resources: {gpu: {cards: 2}}}
lifecycle: [{on: task_failed, do: restart_job}]
"""


@pytest.fixture
def editor(w: World, as_user: As) -> APIClient:
    return as_user(w.editor)


def test_a_submission_answers_202_with_place_state_and_reason(editor: APIClient) -> None:
    answer = editor.post(JOBS, BODY)

    body = answer.json()
    assert answer.status_code == 202
    assert answer["Location"] == f"{JOBS}/{body['id']}"
    assert body["state"] == "queued"
    assert body["reason"]["code"] == "PENDING_EVALUATION"
    assert (body["cards"], body["tasks"], body["submitted_by"]) == (4, 2, "ed")
    assert body["submitted_at"].endswith("Z")


@pytest.mark.parametrize("media", ["application/yaml", "application/x-yaml", "text/yaml"])
def test_a_job_file_may_be_yaml(editor: APIClient, media: str) -> None:
    answer = editor.generic("POST", JOBS, YAML, content_type=media)

    assert answer.status_code == 202
    assert Job.unscoped.get().lifecycle == [{"on": "task_failed", "do": "restart_job"}]


def test_mistakes_are_reported_in_one_problem(editor: APIClient) -> None:
    answer = editor.post(JOBS, BODY | {"kind": "spark", "gangs": 1})

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "SPEC_INVALID"
    assert {error["field"] for error in answer.json()["errors"]} == {"kind", "gangs"}


def test_mistakes_are_reported_in_the_readers_language(editor: APIClient) -> None:
    body = BODY | {"kind": "spark", "roles": [{"resources": {"cpu": "eight"}}]}
    answers = [editor.post(JOBS, body, headers={"Accept-Language": tag}).json() for tag in ("en", "zh-hans")]

    for answer in answers:
        assert (answer["status"], answer["code"]) == (400, "SPEC_INVALID")
        codes = {(error["field"], error["code"]) for error in answer["errors"]}
        assert codes == {("kind", "CHOICE"), ("roles.0.resources.cpu", "QUANTITY")}
    english, chinese = answers
    assert english["detail"] == "The job file has 2 errors."
    assert chinese["title"] == "请求无效"
    assert chinese["detail"] == "任务文件有 2 处错误。"
    messages = {error["field"]: error["message"] for error in chinese["errors"]}
    assert messages["roles.0.resources.cpu"] == "CPU 数量 'eight' 无效，例如：8、0.5、500m"


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (b"{", "application/json", 400, "JSON_INVALID"),
        (b'{"a": NaN}', "application/json", 400, "JSON_INVALID"),
        (b"[1]", "application/json", 400, "SPEC_INVALID"),
        (b"a: [", "application/yaml", 400, "YAML_INVALID"),
        (b"x" * 300_000, "application/json", 413, "TOO_LARGE"),
        (b"<a/>", "application/xml", 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
def test_bodies_that_are_no_job_file(
    editor: APIClient, body: bytes, media: str, status: int, code: str
) -> None:
    answer = editor.generic("POST", JOBS, body, content_type=media)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_name_in_use_is_a_conflict(editor: APIClient) -> None:
    editor.post(JOBS, BODY)

    answer = editor.post(JOBS, BODY)

    assert (answer.status_code, answer.json()["code"]) == (409, "NAME_TAKEN")


def test_what_the_platform_sets_cannot_be_sent(editor: APIClient) -> None:
    for field in ("state", "priority", "workspace", "used", "id"):
        assert editor.post(JOBS, BODY | {field: "x"}).status_code == 400


def test_a_dry_run_reports_the_demand_and_writes_nothing(editor: APIClient) -> None:
    answer = editor.post(f"{JOBS}?dry_run=true", BODY)

    assert answer.status_code == 200
    assert answer.json()["demand"] == {"cpu": 2000, "gpu.cards": 4, "gpu.cores": 400}
    assert not Job.unscoped.exists() and not Hint.unscoped.exists()
    assert editor.post(f"{JOBS}?dry_run=true", BODY | {"queue": "nope"}).status_code == 400


def test_a_repeated_key_makes_one_job(editor: APIClient) -> None:
    first = editor.post(JOBS, BODY, headers={"Idempotency-Key": "k-1"})
    second = editor.post(JOBS, BODY, headers={"Idempotency-Key": "k-1"})
    other = editor.post(JOBS, BODY | {"name": "other"}, headers={"Idempotency-Key": "k-1"})

    assert (first.status_code, second.status_code, other.status_code) == (202, 202, 422)
    assert first.json() == second.json()
    assert second["Idempotency-Replayed"] == "true"
    assert Job.unscoped.count() == 1


def test_a_list_has_items_total_and_next_and_pages_through_all(w: World, editor: APIClient) -> None:
    names = [jobs.job(w.queue, w.editor).name for _ in range(5)]

    seen: list[str] = []
    url = f"{JOBS}?limit=2"
    while True:
        page = editor.get(url).json()
        seen += [item["name"] for item in page["items"]]
        assert page["total"] is None
        if page["next"] is None:
            break
        url = f"{JOBS}?limit=2&cursor={page['next']}"

    assert seen == names[::-1]


def test_filters_and_sorting(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.queue, w.admin, "beta", state="running")
    jobs.job(w.queue, w.admin, "gamma", state="failed")

    def names(query: str) -> list[str]:
        return [item["name"] for item in editor.get(f"{JOBS}?{query}").json()["items"]]

    assert names("state=running,failed&sort=name") == ["beta", "gamma"]
    assert names("state=running&state=failed&sort=-name") == ["gamma", "beta"]
    assert names("mine=true") == ["alpha"]
    assert names("submitted_by=adam&name=GAM") == ["gamma"]
    assert names("queue=default&sort=name") == ["alpha", "beta", "gamma"]
    assert names("queue=other") == []


@pytest.mark.parametrize(
    "query",
    [
        "colour=red",
        "limit=501",
        "limit=0",
        "sort=id",
        "state=lost",
        "cursor=abc",
        "cursor=é",
        "name=%00",
        *BAD_CURSORS,
    ],
)
def test_parameters_that_are_not_there_are_errors(editor: APIClient, query: str) -> None:
    answer = editor.get(f"{JOBS}?{query}")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_addresses_and_numbers_that_no_database_takes(editor: APIClient) -> None:
    assert editor.get(f"{JOBS}/%00").status_code == 404
    assert editor.get(f"{JOBS}/x/events?cursor={10**30}").status_code in (400, 404)
    assert editor.get(f"/api/v1/workspaces?offset={10**30}").status_code == 400


def test_what_could_never_run_is_refused_with_numbers(editor: APIClient) -> None:
    answer = editor.post(JOBS, {"roles": [{"resources": {"gpu": {"cards": 64}}}]})

    assert (answer.status_code, answer.json()["code"]) == (422, "NEVER_FITS")
    assert answer.json()["numbers"]


def test_a_list_costs_the_same_number_of_queries_whatever_its_length(
    w: World, editor: APIClient, django_assert_max_num_queries: Any
) -> None:
    for _ in range(12):
        jobs.job(w.queue, w.editor)

    with django_assert_max_num_queries(7):
        assert len(editor.get(JOBS).json()["items"]) == 12


def test_a_finished_job_leaves_the_lists_and_stays_in_records(
    w: World, editor: APIClient, as_user: As
) -> None:
    runs = jobs.job(w.queue, w.editor, "runs")
    jobs.allocate(runs, w.nodes[0])
    ended = jobs.job(w.queue, w.editor, "ended", state=JobState.FAILED, finished_at=clock.now())
    others = jobs.job(w.queue, w.admin, "others", state=JobState.SUCCEEDED, finished_at=clock.now())
    for job, status in ((runs, 409), (others, 403)):
        assert editor.delete(f"{JOBS}/{job.pk}").status_code == status
    assert editor.delete(f"{JOBS}/{ended.pk}?dry_run=true").status_code == 204
    assert not JobDeletion.unscoped.exists()

    assert editor.delete(f"{JOBS}/ended").status_code == 204
    assert [item["name"] for item in editor.get(JOBS).json()["items"]] == ["others", "runs"]
    assert [item["name"] for item in editor.get(f"{JOBS}?deleted=true").json()["items"]] == ["ended"]
    assert editor.get(f"{JOBS}/ended").status_code == 404, "its name is free"
    found = editor.get(f"{JOBS}/{ended.pk}").json()
    assert found["state"] == "failed" and found["deleted_at"]
    assert editor.get(f"{JOBS}/{others.pk}").json()["deleted_at"] is None
    assert editor.delete(f"{JOBS}/{ended.pk}").json()["code"] == "JOB_DELETED"
    assert not job_find(viewer=w.editor, text="ended", limit=9)
    assert AuditRecord.unscoped.get(action="job.delete").entity_id == str(ended.pk)
    assert Job.unscoped.filter(pk=ended.pk).exists()


def test_a_job_by_id_or_name_with_its_position_and_spec(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.admin, "before", roles=[jobs.RoleOf(replicas=3, cards=2)])
    job = jobs.job(w.queue, w.editor, "train")

    by_id, by_name = editor.get(f"{JOBS}/{job.pk}").json(), editor.get(f"{JOBS}/train").json()

    assert by_id == by_name
    assert by_id["position"] == {"position_in_local_queue": 1, "waiting": 2, "cards_ahead": 6}
    assert by_id["spec"]["roles"][0]["resources"]["gpu"] == {"cards": 1, "mode": "whole"}
    assert editor.post(f"{JOBS}?dry_run=true", by_id["spec"]).status_code == 200


def test_cancel_suspend_resume(w: World, editor: APIClient) -> None:
    job = jobs.job(w.queue, w.editor)

    assert editor.post(f"{JOBS}/{job.name}/suspend").json()["state"] == "suspended"
    assert editor.post(f"{JOBS}/{job.name}/resume").json()["reason"]["code"] == "PENDING_EVALUATION"
    assert editor.post(f"{JOBS}/{job.name}/cancel?dry_run=true").json()["state"] == "cancelled"
    assert Job.unscoped.get().state == "queued"
    assert editor.post(f"{JOBS}/{job.name}/cancel").json()["state"] == "cancelled"
    answer = editor.post(f"{JOBS}/{job.name}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "JOB_ENDED")


def test_events_continue_where_the_reader_stopped(editor: APIClient) -> None:
    editor.post(JOBS, BODY)
    editor.post(f"{JOBS}/train/suspend")
    editor.post(f"{JOBS}/train/resume")

    first = editor.get(f"{JOBS}/train/events?limit=2").json()
    rest = editor.get(f"{JOBS}/train/events?cursor={first['next']}").json()

    assert [event["code"] for event in first["items"] + rest["items"]] == [
        "submitted",
        "suspended",
        "resumed",
    ]
    assert (first["total"], rest["next"]) == (None, None)
    assert JobEvent.unscoped.count() == 3


def test_tasks_have_node_and_cards_in_few_queries(
    w: World, editor: APIClient, django_assert_max_num_queries: Any
) -> None:
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(replicas=4, cards=2)])
    jobs.allocate(job, w.nodes[0])

    with django_assert_max_num_queries(12):
        body = editor.get(f"{JOBS}/{job.name}/tasks").json()

    assert body["total"] == 4
    assert body["items"][0]["allocation"]["node"] == "node-1"
    assert [len(task["devices"]) for task in body["items"]] == [2, 2, 2, 2]


def test_a_job_is_answered_as_its_fields_are_declared(w: World) -> None:
    for job in (
        jobs.job(w.queue, w.editor, "waits"),
        jobs.job(w.queue, w.editor, "ends", state=JobState.FAILED),
    ):
        job.finished_at = job.submitted_at
        for shape in (JobSerializer, JobDetailSerializer):
            declared = Serializer.to_representation(shape(), job)
            assert shape(job).data == declared
            assert list(shape(job).data) == list(declared)


def test_what_is_named_is_found_by_its_key(w: World, editor: APIClient) -> None:
    high = jobs.priority_class("high", 100)
    jobs.job(w.queue, w.editor, "alpha", priority=high)
    jobs.job(w.queue, w.editor, "beta")

    def names(query: str) -> list[str]:
        return sorted(item["name"] for item in editor.get(f"{JOBS}?{query}").json()["items"])

    assert names("priority_class=high") == ["alpha"]
    assert names("filterBy=priority_class!=high") == ["beta"]
    assert names(f"filterBy=queue=={w.queue.name}") == ["alpha", "beta"]
    assert names("submitted_by=ed&filterBy=priority_class==high") == ["alpha"]
    # Unknown names match no job; another workspace's queue of that name is not meant.
    assert names("priority_class=nothing") == names("queue=nothing") == names("submitted_by=nobody") == []
