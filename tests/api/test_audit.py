"""The audit over HTTP: its readers, its search and export, and the denials in it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client
from rest_framework.test import APIClient

from foundation.audit import audit_log
from foundation.models import AuditRecord
from tenants.models import Role, User
from tests.api.conftest import As
from tests.builders import jobs, tenancy
from tests.builders.world import World

TEAM = "/api/v1/workspaces/team-a"
ALL = "/api/v1/admin/audit"


@pytest.fixture
def auditor(w: World, as_user: As) -> APIClient:
    return as_user(tenancy.user("audrey", None, Role.AUDITOR))


def actions(client: APIClient, address: str) -> list[str]:
    return [item["action"] for item in client.get(address).json()["items"]]


def test_a_write_is_seen_by_auditors_and_by_admins_of_its_workspace(
    w: World, as_user: As, auditor: APIClient
) -> None:
    jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.other_queue, w.outsider, "theirs")
    as_user(w.editor).post(f"{TEAM}/jobs/alpha/suspend")
    as_user(w.outsider).post("/api/v1/workspaces/team-b/jobs/theirs/cancel")

    assert actions(auditor, ALL) == ["job.cancel", "job.suspend"]
    assert actions(as_user(w.admin), f"{TEAM}/audit") == ["job.suspend"]
    assert as_user(w.editor).get(f"{TEAM}/audit").status_code == 403
    assert as_user(w.admin).get("/api/v1/workspaces/team-b/audit").status_code == 404


def test_every_denied_attempt_is_written_once(w: World, as_user: As) -> None:
    jobs.job(w.queue, w.editor, "alpha")

    as_user(w.viewer).post(f"{TEAM}/jobs/alpha/cancel")
    as_user(w.outsider).get(f"{TEAM}/jobs")
    APIClient().get("/api/v1/me")
    wrong = APIClient()
    wrong.credentials(HTTP_AUTHORIZATION="Bearer alt_dead_beef")
    wrong.get("/api/v1/me")
    page = Client()
    page.force_login(w.viewer)
    page.get("/ops/overview")
    as_user(w.viewer).get(f"{TEAM}/jobs/nowhere")

    found = AuditRecord.unscoped.order_by("created_at", "pk")
    assert [(row.actor_name, row.after["status"], row.result) for row in found] == [
        ("vera", 403, "denied"),
        ("otto", 404, "denied"),
        ("anonymous", 401, "denied"),
        ("anonymous", 401, "denied"),
        ("vera", 403, "denied"),
    ]
    first = found[0]
    assert (first.tenant_id, first.entity_id) == (w.workspace.pk, "job-cancel")
    assert first.after["path"] == f"{TEAM}/jobs/alpha/cancel" and first.request_id
    assert "beef" not in json.dumps([row.after for row in found])


def test_a_sign_in_is_written_with_the_page_that_it_came_by(w: World, client: Client) -> None:
    client.post("/login", {"username": "ed", "password": "a long password 1"})

    row = AuditRecord.unscoped.get(action="user.sign-in")
    assert (row.actor_id, row.entity_id, row.result) == (w.editor.pk, str(w.editor.pk), "done")
    assert row.after == {"by": "login"} and row.address and row.request_id


def test_a_failed_sign_in_is_written_without_what_was_typed(w: World) -> None:
    page = Client()

    for username in ("ed", "hunter2 typed in the wrong box", "a\x00"):
        page.post("/login", {"username": username, "password": "wrong guess"})

    rows = list(AuditRecord.unscoped.filter(entity="user").order_by("created_at", "pk"))
    assert [(row.actor_name, row.result, row.after["username"]) for row in rows] == [
        ("anonymous", "denied", "ed"),
        ("anonymous", "denied", ""),
    ]
    assert rows[0].entity_id == str(w.editor.pk) and rows[0].address
    assert "hunter2" not in json.dumps([row.after for row in rows])


def test_what_one_of_many_is_denied_is_written_too(w: World, as_user: As) -> None:
    job = jobs.job(w.queue, w.admin, "alpha")

    as_user(w.editor).post(f"{TEAM}/job-actions", {"action": "cancel", "jobs": ["alpha"]})

    row = AuditRecord.unscoped.get()
    assert (row.action, row.entity_id, row.result) == ("access.denied", str(job.pk), "denied")
    assert (row.tenant_id, row.after) == (w.workspace.pk, {"action": "cancel", "code": "PERMISSION_DENIED"})


def test_the_audit_is_searched_and_paged(w: World, auditor: APIClient) -> None:
    for number in range(5):
        audit_log.record_action(w.editor, f"job.step-{number}", entity="job", entity_id=f"id-{number}")
    audit_log.record_action(w.admin, "queue.stop", entity="queue", entity_id="q")

    assert actions(auditor, f"{ALL}?search=step-3") == ["job.step-3"]
    assert actions(auditor, f"{ALL}?actor=adam") == ["queue.stop"]
    assert actions(auditor, f"{ALL}?filterBy=entity==queue") == ["queue.stop"]
    assert actions(auditor, f"{ALL}?until=2020-01-01T00:00:00Z") == []
    assert len(actions(auditor, f"{ALL}?since=2020-01-01T00:00:00Z&result=done")) == 6
    seen, cursor = [], ""
    while cursor is not None:
        page = auditor.get(f"{ALL}?limit=4{cursor}").json()
        seen += [item["action"] for item in page["items"]]
        assert page["total"] is None
        cursor = f"&cursor={page['next']}" if page["next"] else None
    assert seen == ["queue.stop", *(f"job.step-{number}" for number in reversed(range(5)))]
    assert auditor.get(f"{ALL}?colour=red").status_code == 400


def test_the_audit_is_exported_whole_and_without_formulas(
    w: World, auditor: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.api.audit._CHUNK", 2)
    for name in ("one", "two", "=cmd()"):
        audit_log.record_action(w.editor, "job.submit", entity="job", entity_id=name, after={"name": name})

    # By a key, not by `force_authenticate`: the reader is authenticated again for a second page.
    token = tenancy.access_key(User.objects.get(username="audrey"))
    reader = APIClient(headers={"Authorization": f"Bearer {token}"})
    lines = reader.get(f"{ALL}/export?search=job.submit")
    table = reader.get(f"{ALL}/export?search=job.submit&type=csv", headers={"Accept": "text/csv"})

    rows = [json.loads(line) for line in b"".join(lines).decode().splitlines()]
    assert [row["entity_id"] for row in rows] == ["=cmd()", "two", "one"]
    cells = list(csv.DictReader(io.StringIO(b"".join(table).decode())))
    assert [row["entity_id"] for row in cells] == ["'=cmd()", "two", "one"]
    assert json.loads(cells[1]["after"]) == {"name": "two"}
    assert table["Content-Disposition"] == 'attachment; filename="audit.csv"'
    assert auditor.get(f"{ALL}/export?type=xml").status_code == 400
