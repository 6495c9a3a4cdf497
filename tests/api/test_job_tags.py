"""Tags of jobs over HTTP: submitted, changed in any state, found, and visible to the workspace alone."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.models import AuditRecord, Hint
from scheduling.models import Job, JobEvent, JobState, JobTag, WorkspacePolicy
from tenants.models import Role
from tests.api.conftest import As
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World

JOBS: Final = "/api/v1/workspaces/team-a/jobs"
ACTIONS: Final = "/api/v1/workspaces/team-a/job-actions"
BODY: Final[dict[str, Any]] = {"name": "train", "tags": ["baseline", "team:nlp"], "roles": [{}]}
HOSTILE: Final = ["<script>alert(1)</script>", "🚀👍", "שלום", "' OR 1=1 --", "a%b_c", "x" * 63]


@pytest.fixture
def editor(w: World, as_user: As) -> APIClient:
    return as_user(w.editor)


def indexed(job: Job) -> list[str]:
    return sorted(JobTag.unscoped.filter(job=job, workspace=job.workspace_id).values_list("name", flat=True))


def names(client: APIClient, *conditions: str) -> list[str]:
    answer = client.get(JOBS, {"filterBy": list(conditions)})
    return sorted(item["name"] for item in answer.json()["items"])


def test_a_job_keeps_the_tags_of_its_file_and_so_does_its_copy(editor: APIClient) -> None:
    made = editor.post(JOBS, BODY).json()
    assert made["tags"] == ["baseline", "team:nlp"]
    one = editor.get(f"{JOBS}/train").json()
    assert one["tags"] == one["spec"]["tags"] == ["baseline", "team:nlp"]
    copy = editor.post(f"{JOBS}/train/clone", {"name": "copy"}).json()
    assert copy["tags"] == one["tags"]
    assert [indexed(job) for job in Job.unscoped.all()] == [["baseline", "team:nlp"]] * 2
    many = editor.post("/api/v1/workspaces/team-a/job-submissions", {"jobs": [BODY | {"name": "third"}]})
    assert many.status_code == 202
    assert names(editor, "tags==baseline") == ["copy", "third", "train"]


@pytest.mark.parametrize("state", list(JobState))
def test_tags_are_changed_in_every_state(w: World, editor: APIClient, state: JobState) -> None:
    job = jobs.job(w.queue, w.editor, "one", state=state, tags=["old", "both"])
    Hint.unscoped.all().delete()
    answer = editor.post(f"{JOBS}/{job.pk}/tags", {"add": ["new", "both"], "remove": ["old", "none"]})
    assert (answer.status_code, answer.json()["tags"]) == (202, ["both", "new"])
    job.refresh_from_db()
    assert (job.state, job.tags, indexed(job)) == (state, ["both", "new"], ["both", "new"])
    assert answer["ETag"] == f'"{job.version}"'
    (event,) = JobEvent.unscoped.filter(job=job)
    assert (event.code, event.actor) == ("tags", "ed")
    assert event.numbers == {"added": ["new"], "removed": ["old"]}
    (record,) = AuditRecord.unscoped.filter(action="job.tags")
    assert (record.before, record.after) == ({"tags": ["old", "both"]}, {"tags": ["both", "new"]})
    assert not Hint.unscoped.filter(topic="cycle").exists(), "nothing is decided anew"

    assert editor.post(f"{JOBS}/{job.pk}/tags", {"tags": ["both", "new"]}).status_code == 202
    assert JobEvent.unscoped.count() == 1, "what changes nothing is not noted"
    stale = editor.post(f"{JOBS}/{job.pk}/tags", {"tags": []}, headers={"If-Match": '"0"'})
    assert stale.status_code == 412
    dry = editor.post(f"{JOBS}/{job.pk}/tags?dry_run=true", {"tags": []})
    assert dry.json()["tags"] == [] and indexed(job) == ["both", "new"]
    assert editor.post(f"{JOBS}/{job.pk}/tags", {"tags": []}).json()["tags"] == []
    assert indexed(job) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"tags": ["a"], "add": ["b"]}, 400),
        ({"tags": "a"}, 400),
        ({"tags": ["a,b"]}, 400),
        ({"add": ["x" * 64]}, 400),
        ({"add": ["\u202etxt"]}, 400),
        ({"add": ["\x00"]}, 400),
        ({"add": [f"t{number}" for number in range(21)]}, 400),
        ({"add": ["one more"]}, 400),
    ],
)
def test_what_is_no_tag_changes_nothing(
    w: World, editor: APIClient, body: dict[str, Any], status: int
) -> None:
    most = [f"tag-{number}" for number in range(20)]
    job = jobs.job(w.queue, w.editor, tags=most)
    answer = editor.post(f"{JOBS}/{job.pk}/tags", body)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    job.refresh_from_db()
    assert (job.tags, indexed(job)) == (most, sorted(most))
    # A tag that the job already has does not count twice.
    assert editor.post(f"{JOBS}/{job.pk}/tags", {"add": most[:3]}).status_code == 202


def test_hostile_tags_are_texts(w: World, editor: APIClient) -> None:
    for number, tag in enumerate(HOSTILE):
        assert editor.post(JOBS, BODY | {"name": f"job-{number}", "tags": [tag]}).status_code == 202
    for number, tag in enumerate(HOSTILE):
        for sign in ("==", "=@", "=^", "=$"):
            assert names(editor, f"tags{sign}{tag}") == [f"job-{number}"], (sign, tag)


def test_conditions_on_tags_add_up(w: World, editor: APIClient) -> None:
    for name, tags in (("a", ["x", "y"]), ("b", ["x"]), ("c", ["z"]), ("d", [])):
        jobs.job(w.queue, w.editor, name, tags=tags)
    assert names(editor, "tags==x,z") == ["a", "b", "c"]
    assert names(editor, "tags==x", "tags==y") == ["a"]
    assert names(editor, "tags==x", "tags!=y") == ["b"]
    assert names(editor, "tags!=x,z") == ["d"]
    assert names(editor, "tags!@X") == ["c", "d"]
    assert editor.get(JOBS, {"filterBy": "tags>=x"}).json()["code"] == "FILTER_INVALID"


def test_a_tag_of_many_jobs_is_read_from_the_index_of_the_list(
    w: World, editor: APIClient, django_assert_max_num_queries: Any
) -> None:
    made = [jobs.job(w.queue, w.editor, f"job-{number}") for number in range(230)]
    for job in made[:220]:
        JobTag.unscoped.bulk_create(JobTag.of_job(job, ["many"]))
    with django_assert_max_num_queries(8):
        page = editor.get(JOBS, {"filterBy": "tags==many", "limit": 500}).json()
    assert {item["name"] for item in page["items"]} == {job.name for job in made[:220]}
    rest = editor.get(JOBS, {"filterBy": "tags!=many", "limit": 500}).json()
    assert {item["name"] for item in rest["items"]} == {job.name for job in made[220:]}


def test_who_may_change_a_job_may_change_its_tags(w: World, as_user: As) -> None:
    own = jobs.job(w.queue, w.editor, "own", tags=["secret"])
    others = jobs.job(w.queue, w.admin, "others", tags=["secret"])
    add = {"add": ["new"]}
    assert as_user(w.editor).post(f"{JOBS}/{own.pk}/tags", add).status_code == 202
    assert as_user(w.editor).post(f"{JOBS}/{others.pk}/tags", add).status_code == 403
    assert as_user(w.viewer).post(f"{JOBS}/{own.pk}/tags", add).status_code == 403
    assert as_user(w.admin).post(f"{JOBS}/{own.pk}/tags", {"add": ["by-admin"]}).status_code == 202
    assert as_user(w.outsider).post(f"{JOBS}/{own.pk}/tags", add).status_code == 404
    assert as_user(w.outsider).get(JOBS, {"filterBy": "tags==secret"}).status_code == 404


def test_several_jobs_are_tagged_with_a_result_for_each(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "own")
    jobs.job(w.queue, w.editor, "ended", state=JobState.FAILED, finished_at=clock.now(), tags=["a"])
    jobs.job(w.queue, w.admin, "others")
    asked = {"action": "add_tags", "jobs": ["own", "ended", "others", "none"], "tags": ["a", "b"]}
    body = editor.post(ACTIONS, asked).json()
    assert (body["succeeded"], body["failed"]) == (2, 2)
    assert [item["job"] and item["job"]["tags"] for item in body["items"]] == [["a", "b"]] * 2 + [None] * 2
    body = editor.post(ACTIONS, asked | {"action": "remove_tags", "jobs": ["ended"], "tags": ["a"]}).json()
    assert body["items"][0]["job"]["tags"] == ["b"]
    for wrong in ({"tags": ["a"], "action": "cancel"}, {"action": "add_tags"}):
        assert editor.post(ACTIONS, {"jobs": ["own"], **wrong}).status_code == 400


def test_a_policy_limits_the_tags_of_new_jobs_and_later_ones(w: World, editor: APIClient) -> None:
    old = jobs.job(w.queue, w.editor, "old", tags=["free"])
    WorkspacePolicy.unscoped.create(tenant=w.workspace, allowed={"tags": ["team:*", "baseline"]})
    assert editor.post(JOBS, BODY).status_code == 202
    refused = editor.post(JOBS, BODY | {"name": "other", "tags": ["mine"]})
    assert refused.json()["code"] == "POLICY_DENIED" and refused.json()["errors"][0]["field"] == "tags.0"
    answer = editor.post(f"{JOBS}/{old.pk}/tags", {"add": ["mine"]})
    assert (answer.status_code, answer.json()["code"]) == (422, "POLICY_DENIED")
    assert "team:*" in answer.json()["detail"]
    answer = editor.post(f"{JOBS}/{old.pk}/tags", {"add": ["team:cv"]})
    assert answer.json()["tags"] == ["free", "team:cv"], "what it has already stays"


def test_jobs_of_all_workspaces_are_found_by_tags(w: World, as_user: As) -> None:
    jobs.job(w.queue, w.editor, "ours", tags=["shared", "ours"])
    jobs.job(w.other_queue, w.outsider, "theirs", tags=["shared"])

    def found(client: APIClient, **query: str) -> list[str]:
        return sorted(item["name"] for item in client.get("/api/v1/admin/jobs", query).json()["items"])

    operator = as_user(w.platform_admin)
    assert found(operator, tags="shared") == ["ours", "theirs"]
    assert found(operator, filterBy="tags==ours,none") == ["ours"]
    assert found(operator, filterBy="tags!=ours") == ["theirs"]
    labs = tenancy.folder("labs")
    queue = quotas.queue(w.cell, tenancy.workspace("lab", labs), [w.flavor], cards=1)
    jobs.job(queue, w.platform_admin, "labs", tags=["shared"])
    lea = as_user(tenancy.user("lea", labs, Role.ADMIN))
    assert found(lea, tags="shared") == ["labs"]
    assert found(lea, tags="ours") == []
