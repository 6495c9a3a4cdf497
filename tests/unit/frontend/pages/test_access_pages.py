"""The pages of groups, custom roles and the audit, and quotas as a file."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from foundation.audit import audit_log, chain
from foundation.core.actor import SYSTEM
from foundation.models import AuditRecord, AuditSeal
from frontend.pages.operations.audit_changes import describe_changes
from frontend.pages.tenancy.roles import POINTS
from quotas.files import FileFormat
from quotas.services.quota_files.quota_file import quota_file_export
from scheduling.selectors.events.audit_subjects import find_subjects
from tenants.access.permissions import Permission
from tenants.models import CustomRole, Group, Role, User
from tests.builders import tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import ask_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def w() -> World:
    return world()


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def post(client: Client, path: str, status: int = 200, **form: Any) -> str:
    answer = client.post(path, form, follow=True)
    assert answer.status_code == status
    return answer.content.decode()


def test_every_permission_has_words() -> None:
    assert set(POINTS) == set(Permission)


def test_a_group_is_made_filled_and_removed(w: World) -> None:
    boss = signed_in(w.platform_admin)
    assert "Group ML created" in post(boss, "/ops/groups", name="ML", claim="")
    assert "already" in post(boss, "/ops/groups", status=400, name="ML")
    place = f"/ops/groups/{Group.unscoped.get().pk}"
    assert "ed added to ML" in post(boss, place, do="add", name="ed")
    assert "User nobody not found." in post(boss, place, status=400, do="add", name="nobody")
    assert "removed from ML" in post(boss, place, do="take", user=str(w.editor.pk))
    assert "Group updated" in post(boss, place, do="rename", name="ML team", version="0")
    assert "The resource changed since you loaded it." in post(
        boss, place, status=400, do="rename", name="Mine", version="0"
    )
    assert "deleted" in post(boss, place, do="delete", version="1")
    assert not Group.unscoped.exists()
    text(signed_in(w.admin), "/ops/groups", status=403)


def test_a_role_is_ticked_together_changed_and_removed(w: World) -> None:
    admin, place = signed_in(w.admin), f"/ops/tenants/{w.workspace.pk}/roles"
    page = text(admin, f"{place}?edit=new")
    assert "Submit jobs" in page and "Manage clusters and nodes" not in page
    said = post(admin, place, name="Operator", points=["tenant.view", "job.stop-any"])
    assert "Role Operator saved" in said
    role = CustomRole.unscoped.get()
    assert role.points == ["job.stop-any", "tenant.view"]
    assert 'value="Operator"' in text(admin, f"{place}?edit={role.pk}")
    form = {"row": str(role.pk), "version": "0", "name": "Operator", "points": ["tenant.view"]}
    post(admin, place, **form)
    assert CustomRole.unscoped.get().points == ["tenant.view"]
    assert "The resource changed since you loaded it." in post(admin, place, status=400, **form)
    assert "A role requires at least one permission." in post(admin, place, status=400, name="Empty")
    assert f'value="remove {role.pk}"' in text(admin, place)
    ask_batch(admin, place, "remove", role.pk)
    assert not CustomRole.unscoped.exists()
    text(signed_in(w.viewer), place, status=403)


def test_a_platform_role_may_hold_permissions_of_clusters(w: World) -> None:
    boss = signed_in(w.platform_admin)
    post(boss, "/ops/roles", name="Rack", points=["tenant.view", "cluster.view"])
    assert CustomRole.unscoped.get().tenant is None
    text(signed_in(w.admin), "/ops/roles", status=403)


def test_the_subject_of_a_group_is_the_group_and_not_who_was_added(w: World) -> None:
    group = tenancy.group("readers", w.editor)
    made = audit_log.record_action(
        SYSTEM, "group.add", entity="group", entity_id=group.pk, after={"user": "ed"}
    )
    member = audit_log.record_action(
        SYSTEM, "member.set", entity="member", entity_id="1", after={"user": "ed"}
    )
    assert find_subjects([made, member]) == {made.pk: "readers", member.pk: "ed"}
    group.delete()
    assert find_subjects([made, member]) == {member.pk: "ed"}


def test_the_audit_is_searched_exported_and_verified(w: World) -> None:
    boss = signed_in(w.platform_admin)
    post(boss, f"/ops/tenants/{w.workspace.pk}", do="rename", name="Team One", version="0")
    auditor = signed_in(tenancy.user("audrey", None, Role.AUDITOR))
    page = text(auditor, "/ops/audit?action=tenant.")
    assert "Name: Team A → Team One" in page and "filterBy=action" in page
    assert "No results" in text(auditor, "/ops/audit?actor=nobody")
    assert "Team One" not in text(auditor, "/ops/audit?until=2001-01-01")
    for odd in ("since=never", "cursor=broken", "result=perhaps", "search=%00"):
        text(auditor, f"/ops/audit?{odd}")
    export = page.split('href="/api/v1/admin/audit/export?')[1].split('"')[0].replace("&amp;", "&")
    assert auditor.get(f"/api/v1/admin/audit/export?{export}").status_code == 200
    chain.seal_records()
    assert "records intact" in post(auditor, "/ops/audit")
    AuditSeal.unscoped.filter(number=1).update(hash="0" * 64)
    assert "Integrity check failed at entry 1" in post(auditor, "/ops/audit")


def test_an_admin_reads_the_audit_of_the_own_workspace_only(w: World) -> None:
    admin = signed_in(w.admin)
    post(admin, f"/ops/tenants/{w.workspace.pk}", do="rename", name="Team One", version="0")
    page = text(admin, "/w/team-a/audit")
    assert "Team One" in page and "Verify integrity" not in page
    text(admin, "/ops/audit", status=403)
    text(signed_in(w.editor), "/w/team-a/audit", status=403)
    text(signed_in(w.outsider), "/w/team-a/audit", status=404)
    assert AuditRecord.unscoped.filter(result="denied").exists()
    page = text(admin, "/w/team-a/audit?result=denied")
    row = page.partition("<tbody")[2].partition("</tr>")[0]
    assert "GET /w/team-a/audit" in row and "HTTP status: 404" in row
    action, subject = (
        row.partition(f'data-column="{name}"')[2].partition("</td>")[0] for name in ("action", "subject")
    )
    assert action.count("enied") == 1, "the title alone says that it was denied"
    assert "workspace-audit" not in subject


def test_a_quota_file_shows_what_it_would_change_before_it_does(w: World) -> None:
    boss, place = signed_in(w.platform_admin), "/ops/quotas/import"
    file = quota_file_export(viewer=w.platform_admin, kind=FileFormat.CSV)
    assert "No differences found." in post(boss, place, text=file, kind="csv", do="check")
    rows = file.splitlines()
    at = next(n for n, row in enumerate(rows) if row.startswith("team-a,default,") and ",gpu.cards," in row)
    head = rows[0].split(",")
    cells = rows[at].split(",")
    cells[head.index("nominal")] = "4"
    changed = "\n".join([*rows[:at], ",".join(cells), *rows[at + 1 :]])
    upload = SimpleUploadedFile("quotas.csv", changed.encode())
    page = post(boss, place, upload=upload, kind="yaml", do="check")  # its name says what it is
    assert "8 GPUs → 4 GPUs" in page and "Apply" in page
    assert quota_file_export(viewer=w.platform_admin, kind=FileFormat.CSV) == file
    assert "File applied." in post(boss, place, text=changed, kind="csv", do="apply")
    assert quota_file_export(viewer=w.platform_admin, kind=FileFormat.CSV) != file


@pytest.mark.parametrize("body", ["", "tenant,nonsense\n1,2\n", "nobody: ["])
def test_a_wrong_quota_file_is_refused_where_it_is_wrong(w: World, body: str) -> None:
    kind = "yaml" if body.startswith("nobody") else "csv"
    page = post(signed_in(w.platform_admin), "/ops/quotas/import", status=400, text=body, kind=kind)
    assert "Apply" not in page and "error" in page


def test_only_the_parts_of_a_change_that_differ_are_described() -> None:
    before = {"a100 memory": {"nominal": 8, "lending_limit": None}, "size": 1}
    after = {"a100 memory": {"nominal": 9, "lending_limit": None}, "size": 1, "new": {"limit": None, "a": 1}}
    lines = describe_changes(AuditRecord(before=before, after=after), "subject")
    assert [line.rpartition(" • ")[2] for line in lines] == ["nominal: 8 → 9", "a: 1"]
