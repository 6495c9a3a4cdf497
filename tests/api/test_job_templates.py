"""Job templates of a workspace over the API."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from foundation.models import AuditRecord
from scheduling.models import JobTemplate
from scheduling.services.jobs import job_template
from tenants.models import Role
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

TEMPLATES: Final = "/api/v1/workspaces/team-a/job-templates"
TEXT: Final = "# nightly\nkind: pytorch\n\nroles:   # two\n  - {name: worker, replicas: 2}\n"


def save(client: APIClient, **more: Any) -> Any:
    return client.post(TEMPLATES, {"name": "nightly", "text": TEXT, **more}, format="json")


def test_a_template_is_saved_read_changed_and_deleted(w: World, as_user: As) -> None:
    client = as_user(w.editor)
    made = save(client, description="every night")
    assert made.status_code == 201
    assert made.json()["text"] == TEXT
    assert made.json()["saved_by"] == w.editor.username
    url = made["Location"]
    read = client.get(url)
    patch = {"name": "daily", "text": "kind: batch"}
    changed = client.patch(url, patch, format="json", headers={"If-Match": read["ETag"]})
    assert (changed.status_code, changed.json()["name"]) == (200, "daily")
    assert changed.json()["description"] == "every night"
    assert [row["name"] for row in client.get(TEMPLATES).json()["items"]] == ["daily"]
    assert client.delete(url, headers={"If-Match": read["ETag"]}).status_code == 412
    assert client.delete(url, headers={"If-Match": changed["ETag"]}).status_code == 204
    assert not JobTemplate.unscoped.exists()
    rows = AuditRecord.unscoped.filter(entity="job-template").order_by("pk")
    assert [row.action.partition(".")[2] for row in rows] == ["create", "change", "delete"]
    assert {row.tenant_id for row in rows} == {w.workspace.pk}
    assert TEXT not in json.dumps([row.after for row in rows])


def test_members_read_templates_and_editors_change_them(w: World, as_user: As) -> None:
    url = save(as_user(w.editor))["Location"]
    viewer = as_user(tenancy.user("vito", w.workspace, Role.VIEWER))
    read = viewer.get(url)
    assert read.status_code == 200
    assert save(viewer, name="other").status_code == 403
    assert viewer.delete(url, headers={"If-Match": read["ETag"]}).status_code == 403
    assert as_user(w.outsider).get(url).status_code == 404
    elsewhere = url.replace("team-a", w.other_workspace.slug)
    assert as_user(w.platform_admin).get(elsewhere).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "Not Good"}, "name"),
        ({"text": "a: ["}, "text"),
        ({"text": "- a list"}, "text"),
        ({"text": "a: &x 1"}, "text"),
        ({"description": "x" * 201}, "description"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_mistakes_are_named(w: World, as_user: As, body: dict[str, Any], field: str) -> None:
    answer = save(as_user(w.editor), **body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not JobTemplate.unscoped.exists()


def test_a_name_is_there_once_and_templates_are_bounded(
    w: World, as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = as_user(w.editor)
    assert save(client).status_code == 201
    taken = save(client)
    assert (taken.status_code, taken.json()["code"]) == (409, "NAME_TAKEN")
    monkeypatch.setattr(job_template, "TEMPLATES_MAX", 1)
    full = save(client, name="second")
    assert (full.status_code, full.json()["code"]) == (409, "TOO_MANY")
