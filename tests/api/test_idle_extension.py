"""More time for an idle job, requested through the API, the console and the command."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from foundation.core import clock
from foundation.models import AuditRecord
from scheduling.models import IdleStretch, Job, JobState
from tenants.models import Role, User
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas, tenancy

pytestmark = pytest.mark.django_db
BASE = "/api/v1/workspaces/team-a/jobs/nap"
LIMIT_S = 600


@pytest.fixture
def job(db: None) -> Job:
    place = tenancy.workspace("team-a")
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    queue = quotas.queue(cell, place, [flavor], cards=4)
    made = jobs.job(queue, tenancy.user("ed", place, Role.EDITOR), "nap", state=JobState.RUNNING)
    now = clock.now()
    IdleStretch.unscoped.create(
        job=made,
        attempt_number=made.attempt_number,
        since=now - timedelta(seconds=500),
        seen_at=now,
        limit_s=LIMIT_S,
        warn_s=200,
        warned_at=now - timedelta(seconds=50),
    )
    return made


def post(client: Any, body: dict[str, Any], path: str = "", **headers: str) -> Any:
    return client.post(
        f"{BASE}/extend{path}", json.dumps(body), content_type="application/json", headers=headers
    )


def owner(job: Job) -> User:
    return User.objects.get(pk=job.submitted_by_id)


def test_the_owner_extends_and_pressing_twice_changes_nothing(job: Job, as_user: As) -> None:
    client = as_user(owner(job))
    before = client.get(BASE).json()["idle"]
    assert before["action"] == "suspend"
    first = post(client, {})
    assert first.status_code == 200, first.content
    second = post(client, {})
    assert second.status_code == 200
    assert first.json() == second.json()
    body = first.json()
    assert (body["extensions"], body["warned_at"], body["act_at"]) == (1, None, body["extended_until"])
    assert client.get(BASE).json()["idle"] == body
    record = AuditRecord.unscoped.get(action="job.extend")
    assert record.after["act_at"] == body["act_at"].replace("Z", "+00:00")


@pytest.mark.parametrize("seconds", [0, -1, LIMIT_S + 1, 2**40, "soon"])
def test_by_at_most_the_timeout_again(job: Job, as_user: As, seconds: Any) -> None:
    answer = post(as_user(owner(job)), {"seconds": seconds})
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["seconds"]
    assert IdleStretch.unscoped.get(job=job).extended_until is None


@pytest.mark.parametrize(
    "fields",
    [
        {"warned_at": None},
        {"limit_s": None},
        {"acted_at": "2026-01-01T00:00:00Z"},
        {"seen_at": "2026-01-01T00:00:00Z"},
        {"attempt_number": 7},
    ],
)
def test_only_what_is_announced_is_put_off(job: Job, as_user: As, fields: dict[str, Any]) -> None:
    IdleStretch.unscoped.update(**fields)
    answer = post(as_user(owner(job)), {})
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_WARNED")
    assert not AuditRecord.unscoped.filter(action="job.extend").exists()


def test_a_dry_run_and_an_old_version_change_nothing(job: Job, as_user: As) -> None:
    client = as_user(owner(job))
    assert post(client, {}, "?dry_run=true").status_code == 200
    assert post(client, {}, **{"If-Match": '"99"'}).status_code == 412
    assert IdleStretch.unscoped.get(job=job).extended_until is None


def test_another_editor_cannot_and_an_admin_can(job: Job, as_user: As) -> None:
    place = job.workspace
    assert post(as_user(tenancy.user("eve", place, Role.EDITOR)), {}).status_code == 403
    assert post(as_user(tenancy.user("ada", place, Role.ADMIN)), {}).status_code == 200


def test_the_page_counts_down_and_extends(job: Job, client: Client) -> None:
    client.force_login(owner(job))
    page = client.get("/w/team-a/jobs/nap").content.decode()
    assert "the job will be suspended in" in page
    assert "Extend by 10 min" in page
    answer = client.post("/w/team-a/jobs/nap/extend", follow=True)
    assert "extended" in answer.content.decode()
    assert IdleStretch.unscoped.get(job=job).extensions == 1


def test_the_command_extends(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--workspace", "team-a", "--user", "ed", "--json", "-"]
    call_command("job", "extend", "nap", "--seconds", "60", *args)
    assert json.loads(capsys.readouterr().out)["idle"]["extensions"] == 1
