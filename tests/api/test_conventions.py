"""Conventions of every resource: paging, filters, sparse fields, versions, repetition, dry runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver
from rest_framework import serializers
from rest_framework.test import APIClient

from alerts.selectors.alerts import COLUMNS
from alerts.selectors.messages import MESSAGE_COLUMNS
from foundation.core.quantities import Resource
from foundation.models import AuditRecord, Hint, IdempotencyKey
from quotas.selectors.changes.quota_request import INBOX_COLUMNS
from scheduling.models import Job
from tenants.models import AccessKey, Tenant
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World

TEAM = "/api/v1/workspaces/team-a"
JOBS = f"{TEAM}/jobs"
KEY = "Idempotency-Key"
NODES = "/api/v1/admin/nodes"
BODY: dict[str, Any] = {"name": "train", "roles": [{"resources": {"gpu": {"cards": 1}}}]}


@pytest.fixture
def editor(w: World, as_user: As) -> APIClient:
    return as_user(w.editor)


@pytest.fixture
def operator(w: World, as_user: As) -> APIClient:
    return as_user(w.platform_admin)


def names(answer: Any) -> list[str]:
    return [item["name"] for item in answer.json()["items"]]


def problem(answer: Any) -> tuple[int, str, list[str]]:
    body = answer.json()
    return answer.status_code, body["code"], [error["field"] for error in body["errors"]]


def test_a_list_pages_by_number_and_by_offset_alike(w: World, operator: APIClient) -> None:
    clusters.nodes(w.flavor, 5, prefix="more")

    first = operator.get(f"{NODES}?page=2&pageSize=3")
    second = operator.get(f"{NODES}?offset=3&limit=3")

    assert names(first) == names(second) and len(names(first)) == 3
    assert (first.json()["total"], first.json()["next"]) == (7, 6)
    assert operator.get(f"{NODES}?page=3&pageSize=3").json()["next"] is None
    assert problem(operator.get(f"{NODES}?page=1&limit=3")) == (400, "INVALID", ["limit"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("colour=red", "colour"),
        ("pageSize=501", "pageSize"),
        ("page=0", "page"),
        ("sort=colour", "sort"),
        ("filterBy=name", "filterBy"),
        ("filterBy=colour==red", "filterBy"),
        ("filterBy=ready=@t", "filterBy"),
        ("filterBy=ready==maybe", "filterBy"),
        ("filterBy=cpu_millicores>=1e30", "filterBy"),
        (f"filterBy=cpu_millicores>={10**30}", "filterBy"),
        ("filterBy=name==a%00", "filterBy.0"),
        ("zone=a%00", "zone"),
        ("format=xml", "format"),
        ("fields=name,colour", "fields"),
        ("fields=", "fields"),
        ("dry_run=true", "dry_run"),
    ],
)
def test_a_wrong_parameter_is_named(operator: APIClient, query: str, field: str) -> None:
    status, _, fields = problem(operator.get(f"{NODES}?{query}"))

    assert (status, fields) == (400, [field])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("name==node-1", ["node-1"]),
        ("name!=node-1", ["ANNEX", "node-2"]),
        ("name=@NODE", ["node-1", "node-2"]),
        ("name!@node", ["ANNEX"]),
        ("name=^ann", ["ANNEX"]),
        ("name=$-2", ["node-2"]),
        ("cpu_millicores>=1", ["ANNEX", "node-1", "node-2"]),
        ("cpu_millicores<=0", []),
        ("ready==false", ["ANNEX"]),
    ],
)
def test_conditions_on_rows_of_the_database(
    w: World, operator: APIClient, condition: str, expected: list[str]
) -> None:
    clusters.node(w.flavor, "ANNEX", cards=1, ready=False)

    assert names(operator.get(NODES, {"filterBy": condition, "sort": "name"})) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("slug==team-a", ["team-a"]),
        ("slug!=team-a", ["alpha", "team-b"]),
        ("slug=@TEAM", ["team-a", "team-b"]),
        ("slug!@team", ["alpha"]),
        ("slug=^AL", ["alpha"]),
        ("slug=$-b", ["team-b"]),
        ("folder==research", ["alpha"]),
    ],
)
def test_conditions_on_objects_at_hand(
    w: World, operator: APIClient, condition: str, expected: list[str]
) -> None:
    tenancy.workspace("alpha", tenancy.folder("research"))

    answer = operator.get("/api/v1/workspaces", {"filterBy": condition, "sort": "slug"})

    assert [item["slug"] for item in answer.json()["items"]] == expected


def test_conditions_add_up_and_plain_parameters_are_conditions(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.queue, w.admin, "beta")
    jobs.job(w.queue, w.editor, "gamma", state="failed")

    both = "filterBy=submitted_by==ed&filterBy=state!=failed"
    assert names(editor.get(f"{JOBS}?{both}")) == ["alpha"]
    assert names(editor.get(f"{JOBS}?kind=batch&submitted_by=adam")) == ["beta"]
    assert names(editor.get(f"{JOBS}?filterBy=submitted_at>=2100-01-01T00:00:00Z")) == []
    assert len(names(editor.get(f"{TEAM}/queues?name=default&sort=-name"))) == 1
    assert editor.get(f"{TEAM}/quota?resource=cpu&sort=-reserved").json()["total"] == 2


def test_only_the_fields_asked_for(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "alpha")

    body = editor.get(f"{JOBS}?fields=name,state").json()

    assert body["items"] == [{"name": "alpha", "state": "queued"}]
    assert editor.get(f"{JOBS}/alpha?fields=name").json() == {"name": "alpha"}
    assert editor.get(f"{JOBS}?name=nothing&fields=name").json()["items"] == []


def test_a_job_has_its_version_and_a_stale_one_is_refused(w: World, editor: APIClient) -> None:
    job = jobs.job(w.queue, w.editor, "alpha")
    seen = editor.get(f"{JOBS}/alpha")["ETag"]
    assert seen == f'"{job.version}"'

    changed = editor.post(f"{JOBS}/alpha/suspend", headers={"If-Match": seen})
    stale = editor.post(f"{JOBS}/alpha/resume", headers={"If-Match": seen})

    assert (changed.status_code, changed["ETag"]) == (202, f'"{job.version + 1}"')
    assert problem(stale) == (412, "PRECONDITION_FAILED", ["If-Match"])
    assert Job.unscoped.get().state == "suspended"
    for wrong in ('W/"1"', '"elsewhere"', "1"):
        assert editor.post(f"{JOBS}/alpha/resume", headers={"If-Match": wrong}).status_code == 412
    assert editor.post(f"{JOBS}/alpha/resume", headers={"If-Match": '"1", "2"'}).status_code == 400
    assert editor.post(f"{JOBS}/alpha/resume", headers={"If-Match": "*"}).status_code == 202


def test_any_post_may_be_repeated(w: World, editor: APIClient) -> None:
    key = {"Idempotency-Key": "once"}

    first = editor.post(f"{TEAM}/keys", {"name": "laptop"}, headers=key)
    again = editor.post(f"{TEAM}/keys", {"name": "laptop"}, headers=key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotency-Replayed"] == "true" and "Idempotency-Replayed" not in first
    assert again["Location"] == first["Location"]
    assert AccessKey.unscoped.count() == 1
    assert first.json()["token"] and again.json() == first.json() | {"token": None}
    assert first.json()["token"] not in json.dumps(IdempotencyKey.unscoped.get().body)
    other = editor.post(f"{TEAM}/keys", {"name": "desktop"}, headers=key)
    assert problem(other) == (422, "IDEMPOTENCY_KEY_REUSED", ["Idempotency-Key"])
    assert problem(editor.post(JOBS, BODY, headers={"Idempotency-Key": "x" * 256}))[:2] == (
        400,
        "IDEMPOTENCY_KEY_INVALID",
    )


def test_a_kept_answer_is_only_for_who_was_given_it_and_may_still_have_it(w: World, as_user: As) -> None:
    key = {"Idempotency-Key": "once"}
    assert as_user(w.editor).post(JOBS, BODY, headers=key).status_code == 202

    other = as_user(w.admin).post(JOBS, BODY, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "NAME_TAKEN"), (
        "a key of somebody else's is free"
    )
    assert as_user(w.outsider).post(JOBS, BODY, headers=key).status_code == 404
    w.editor.memberships.update(role="viewer")
    assert as_user(w.editor).post(JOBS, BODY, headers=key).status_code == 403


def test_a_key_belongs_to_the_whole_address_however_long_it_is(w: World, as_user: As) -> None:
    Tenant.unscoped.filter(pk=w.workspace.pk).update(slug="s" * 63)
    job = jobs.job(w.queue, w.editor, "alpha")
    at, client, key = f"/api/v1/workspaces/{'s' * 63}/jobs/{job.pk}", as_user(w.editor), {KEY: "once"}

    for verb, state in (("suspend", "suspended"), ("resume", "queued"), ("cancel", "cancelled")):
        answer = client.post(f"{at}/{verb}", headers=key)
        assert answer.status_code == 202 and "Idempotency-Replayed" not in answer
        job.refresh_from_db()
        assert job.state == state
    assert client.post(f"{at}/cancel", headers=key)["Idempotency-Replayed"] == "true"


def test_no_user_learns_which_keys_another_uses(w: World, as_user: As) -> None:
    key, path = {KEY: "once"}, f"{TEAM}/keys"
    for user in (w.editor, w.admin, w.platform_admin):
        answer = as_user(user).post(path, {"name": f"of {user}"}, headers=key)
        assert answer.status_code == 201 and "Idempotency-Replayed" not in answer
        assert answer.json()["owner"] == user.username


def test_what_is_out_of_sight_by_now_is_not_sent_again(w: World, as_user: As) -> None:
    key, path = {KEY: "once"}, f"{TEAM}/keys"
    client = as_user(w.editor)
    assert client.post(path, {"name": "laptop"}, headers=key).status_code == 201
    w.editor.memberships.all().delete()
    assert client.post(path, {"name": "laptop"}, headers=key).status_code == 404


def test_answers_of_the_api_are_kept_nowhere_and_pages_by_the_browser_alone(w: World, client: Client) -> None:
    client.force_login(w.editor)
    for path in ("/api/v1/me", "/api/v1/me/keys", "/api/v1/nowhere", "/api/v1/schema", f"{TEAM}/jobs"):
        assert client.get(path)["Cache-Control"] == "no-store", path
    made = client.post("/api/v1/me/keys", {"name": "laptop"}, "application/json")
    assert made.json()["token"] and made["Cache-Control"] == "no-store"
    assert Client().get("/api/v1/me")["Cache-Control"] == "no-store"
    assert client.get("/w/team-a/jobs")["Cache-Control"] == "private, no-cache"
    assert "no-store" in client.get("/account/keys")["Cache-Control"]


def test_every_write_has_a_dry_run(w: World, editor: APIClient) -> None:
    job = jobs.job(w.queue, w.editor, "alpha")
    token = tenancy.access_key(w.editor)
    prefix = AccessKey.unscoped.get().prefix
    writes = [
        ("POST", f"{TEAM}/keys", {"name": "new"}, 201),
        ("DELETE", f"{TEAM}/keys/{prefix}", None, 204),
        ("POST", f"{JOBS}/alpha/cancel", None, 202),
        ("POST", f"{JOBS}/alpha/clone", {}, 202),
        ("POST", f"{TEAM}/job-actions", {"action": "cancel", "jobs": ["alpha"]}, 200),
    ]

    for method, path, body, status in writes:
        answer = getattr(editor, method.lower())(f"{path}?dry_run=true", body)
        assert (answer.status_code, answer["Dry-Run"]) == (status, "true"), path
        assert "Location" not in answer

    assert token and AccessKey.unscoped.filter(revoked_at=None).count() == 1
    assert Job.unscoped.get().version == job.version
    assert not Hint.unscoped.exists()
    assert AuditRecord.unscoped.exclude(action="access-key.create").count() == 0
    previewed = editor.post(f"{TEAM}/keys?dry_run=true", {"name": "new"}).json()
    assert previewed["token"] is None
    assert problem(editor.post(f"{JOBS}/alpha/cancel?dry_run=perhaps")) == (400, "INVALID", ["dry_run"])


def test_many_jobs_at_once_with_a_result_for_each(w: World, as_user: As) -> None:
    jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.queue, w.admin, "beta")
    jobs.job(w.queue, w.editor, "gamma", state="failed")

    answer = as_user(w.editor).post(
        f"{TEAM}/job-actions", {"action": "cancel", "jobs": ["alpha", "beta", "gamma", "delta"]}
    )

    body = answer.json()
    assert (answer.status_code, body["succeeded"], body["failed"]) == (200, 1, 3)
    assert [item["ref"] for item in body["items"]] == ["alpha", "beta", "gamma", "delta"]
    assert [(item["problem"] or {}).get("code") for item in body["items"]] == [
        None,
        "PERMISSION_DENIED",
        "JOB_ENDED",
        "NOT_FOUND",
    ]
    assert body["items"][0]["job"]["state"] == "cancelled"
    assert dict(Job.unscoped.values_list("name", "state"))["beta"] == "queued"


def test_another_priority_while_it_waits(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.queue, w.editor, "beta", state="running")
    jobs.priority_class("mild", -10)
    jobs.priority_class("steep", 10)

    assert editor.post(f"{JOBS}/alpha/priority", {"priority_class": "mild"}).status_code == 202
    assert Job.unscoped.get(name="alpha").priority == -10
    for name, wanted, code in [
        ("alpha", "steep", "PRIORITY_NOT_GRANTED"),
        ("alpha", "none", "PRIORITY_CLASS_UNKNOWN"),
        ("beta", "mild", "NOT_WAITING"),
    ]:
        assert editor.post(f"{JOBS}/{name}/priority", {"priority_class": wanted}).json()["code"] == code
    assert [event["code"] for event in editor.get(f"{JOBS}/alpha/events").json()["items"]] == ["priority"]
    assert AuditRecord.unscoped.get().before == {"priority_class": "normal"}


def test_a_job_like_another(w: World, editor: APIClient) -> None:
    editor.post(JOBS, BODY)

    answer = editor.post(f"{JOBS}/train/clone", {"name": "train-2"})

    assert answer.status_code == 202
    assert answer["Location"] == f"{JOBS}/{answer.json()['id']}"
    first, second = (editor.get(f"{JOBS}/{name}").json()["spec"] for name in ("train", "train-2"))
    assert second == first | {"name": "train-2"}
    assert problem(editor.post(f"{JOBS}/train/clone", {"state": "running"})) == (400, "INVALID", ["state"])


def test_why_a_job_waits(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "alpha")

    body = editor.get(f"{JOBS}/alpha/explain").json()

    assert (body["state"], body["reason"]["code"]) == ("queued", "PENDING_EVALUATION")
    assert body["position"]["position_in_local_queue"] == 0
    assert (body["promised_until"], body["decisions"], body["held_by"]) == (None, [], [])


def test_who_holds_what_a_job_lacks(w: World, editor: APIClient) -> None:
    jobs.job(w.queue, w.editor, "alpha", reason="NO_ROOM")
    for queue, amount in ((w.queue, 3), (w.other_queue, 9)):
        quotas.reserve(queue, w.flavor, Resource.GPU_CORES, 100 * amount)

    [pool] = editor.get(f"{JOBS}/alpha/explain").json()["held_by"]

    assert (pool["flavor"], pool["resource"], pool["total"], pool["free"]) == ("a100", "gpu.cores", 1600, 400)
    assert pool["tenants"] == [
        {"tenant": "team-a", "amount": 300, "nominal": 300, "borrowed": 0},
        {"tenant": None, "amount": 900, "nominal": 800, "borrowed": 100},
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (f"{TEAM}/keys", b"[" * 100_000, 400, "TOO_DEEP"),
        (f"{TEAM}/keys", b'{"a":' * 40 + b"1" + b"}" * 40, 400, "TOO_DEEP"),
        (f"{TEAM}/keys", b'"' + b"x" * 2**20 + b'"', 413, "TOO_LARGE"),
        (f"{TEAM}/keys", b'{"a": Infinity}', 400, "JSON_INVALID"),
        (f"{TEAM}/keys", b'{"a": ' + b"1" * 5000 + b"}", 400, "JSON_INVALID"),
        (f"{TEAM}/keys", b"\xff\xfe", 400, "JSON_INVALID"),
    ],
)
def test_unneeded_bodies(editor: APIClient, path: str, body: bytes, status: int, code: str) -> None:
    answer = editor.generic("POST", path, body, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_field_named_workspace_is_never_a_folder() -> None:
    """Resources that belong to a tenant of either kind name it `tenant`."""
    get_resolver().url_patterns  # noqa: B018 (imports the modules of all serializers)
    wrong, seen = [], set()
    left = list(serializers.Serializer.__subclasses__())
    while left:
        shape = left.pop()
        left += shape.__subclasses__()
        field = shape._declared_fields.get("workspace")
        if field is not None:
            seen.add(shape)
            if "tenant" in str(field._kwargs.get("source", "")):
                wrong.append(shape.__qualname__)
    assert len(seen) > 5 and not wrong, wrong
    columns = {"messages": MESSAGE_COLUMNS, "requests": INBOX_COLUMNS, "alerts": COLUMNS}
    assert not [name for name, known in columns.items() if "workspace" in known]
