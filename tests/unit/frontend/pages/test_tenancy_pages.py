"""The pages of the tenant tree, members and access keys."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tenants.models import AccessKey, Member, Role, Tenant, User
from tenants.services.member import member_set
from tests.builders import tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import ask_batch, hidden, post

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


def test_a_department_with_a_team_is_built_moved_and_archived(w: World) -> None:
    boss, root = signed_in(w.platform_admin), tenancy.root()
    base = f"/ops/tenants/{root.pk}"
    assert "Labs created" in post(boss, base, do="new", name="Labs", kind="folder", slug="labs")
    again = boss.post(base, {"do": "new", "name": "labs", "kind": "folder", "slug": "labs-2"})
    assert again.status_code == 400 and "Tenant labs already exists." in again.content.decode()
    labs = Tenant.unscoped.get(slug="labs")
    tenancy.user("lea", labs, Role.ADMIN)

    page = text(boss, f"/ops/tenants/{w.workspace.pk}?to={labs.pk}")
    assert "gains access" in page and "lea" in page and "a100" in page
    done = post(boss, f"/ops/tenants/{w.workspace.pk}?to={labs.pk}", do="move", to=str(labs.pk))
    assert "Team A moved to Labs" in done
    assert "Renamed to Team One" in post(boss, f"/ops/tenants/{w.workspace.pk}", do="rename", name="Team One")

    post(boss, f"/ops/tenants/{labs.pk}", do="archive")
    assert "Team One" not in text(boss, "/ops/tenants")
    assert "Team One" in text(boss, "/ops/tenants?archived=1")
    post(boss, f"/ops/tenants/{labs.pk}", do="restore")
    assert "Team One" in text(boss, "/ops/tenants")


def test_a_move_that_cannot_be_is_said(w: World) -> None:
    upper = tenancy.folder("upper")
    lower = tenancy.folder("lower", upper)
    boss = signed_in(w.platform_admin)
    said = post(boss, f"/ops/tenants/{upper.pk}", do="move", to=str(lower.pk), version=str(upper.version))
    assert "Upper can&#x27;t be moved into itself." in said


def test_the_slower_user_sees_the_present_values(w: World) -> None:
    boss, path = signed_in(w.platform_admin), f"/ops/tenants/{w.workspace.pk}"
    people = f"{path}/members"
    seen = hidden(boss, path, do="rename")
    member = w.editor.memberships.get()
    role = {"do": "change", **hidden(boss, f"{people}?edit={member.pk}", row=member.pk)}
    post(boss, path, do="rename", name="Team One")
    post(boss, people, do="change", row=str(member.pk), role="viewer")

    late = post(boss, path, **{**seen, "name": "Team Two"})
    assert "The resource changed since you loaded it." in late
    assert "Current name: Team One. Parent: Root." in late
    late = post(boss, people, **{**role, "role": "admin"})
    assert "Role of ed is now Viewer" in late
    assert (Tenant.unscoped.get(pk=w.workspace.pk).name, member.role) == ("Team One", "editor")
    member.refresh_from_db()
    assert member.role == "viewer"
    gone = post(boss, path, do="archive", version="")
    assert "The resource changed since you loaded it." in gone


def test_the_tree_is_filtered_sorted_and_paged(w: World) -> None:
    labs = tenancy.folder("labs")
    inner = tenancy.folder("inner", labs)
    for number in range(12):
        tenancy.workspace(f"work-{number:02}", inner if number % 2 else labs)
    boss = signed_in(w.platform_admin)

    def shown(query: str) -> list[str]:
        return re.findall(
            r'<a href="/ops/tenants/[0-9a-f-]{36}">([^<]+)</a>', text(boss, f"/ops/tenants?{query}")
        )

    whole = shown("pageSize=100")
    at = whole.index("Labs")
    assert whole[at + 1] == "Inner" and whole[at + 2 : at + 8] == [f"Work {n:02}" for n in range(1, 12, 2)]
    assert shown("pageSize=10") + shown("pageSize=10&page=2") == whole
    assert shown("q=work 0&sort=-name") == [f"Work {n:02}" for n in range(9, -1, -1)]
    assert shown("filterBy=kind==folder&filterBy=folder==Labs") == ["Inner"]
    assert "1 folder, 12 workspaces" in text(boss, "/ops/tenants?q=labs")
    assert "Work 01" in text(boss, f"/ops/tenants/{inner.pk}") and "Work 00" not in text(
        boss, f"/ops/tenants/{inner.pk}"
    )
    said = ask_batch(boss, "/ops/tenants", "archive", inner.pk, tenancy.root().pk)
    assert "Done for 1 of 2" in said and "root tenant" in said
    assert "Work 01" not in text(boss, "/ops/tenants?pageSize=100")


def test_who_may_not_change_the_tree_sees_no_buttons_for_it(w: World) -> None:
    page = text(signed_in(w.viewer), f"/ops/tenants/{w.workspace.pk}")
    assert "Team A" in page and "Rename" not in page
    assert "Add member" not in text(signed_in(w.viewer), f"/ops/tenants/{w.workspace.pk}/members")
    assert "Team B" not in text(signed_in(w.viewer), "/ops/tenants")
    text(signed_in(w.outsider), f"/ops/tenants/{w.workspace.pk}", status=404)
    denied = signed_in(w.viewer).post(
        f"/ops/tenants/{w.workspace.pk}", {"do": "rename", "name": "Mine"}, follow=True
    )
    assert "have permission" in denied.content.decode()


def test_members_are_added_changed_and_removed(w: World) -> None:
    admin, page = signed_in(w.admin), "/w/team-a/members"
    assert "otto added" in post(admin, page, do="add", kind="user", name="otto", role="viewer")
    member = Member.unscoped.get(user=w.outsider, tenant=w.workspace)
    post(admin, page, do="change", row=str(member.pk), role="editor")
    member.refresh_from_db()
    assert member.role == Role.EDITOR
    assert "User nobody not found." in post(admin, page, do="add", kind="user", name="nobody", role="viewer")
    stale = {"do": "remove", "item": str(member.pk), "confirmed": "1", f"version-{member.pk}": "0"}
    assert "changed since you loaded it" in admin.post(page, stale, follow=True).content.decode()
    inherited = tenancy.user("rita", tenancy.root(), Role.VIEWER).memberships.get()
    assert f'value="{inherited.pk}"' not in text(admin, page), "a role that was given above is fixed here"
    assert admin.post(page, {"one": f"remove {inherited.pk}"}).status_code == 404
    asked = {"do": "role", "item": [str(member.pk)], "choice": "viewer", "confirmed": "1"}
    admin.post(page, asked)
    member.refresh_from_db()
    assert member.role == Role.VIEWER
    ask_batch(admin, page, "remove", member.pk)
    assert not Member.unscoped.filter(pk=member.pk).exists()


def test_the_members_page_says_where_each_role_comes_from(w: World) -> None:
    tenancy.group_member(tenancy.group("ml", w.outsider), tenancy.root(), Role.VIEWER)
    page = text(signed_in(w.viewer), "/w/team-a/members")
    assert "from Root" in page
    assert "Viewer on Root by ml" in text(signed_in(w.viewer), "/w/team-a/members/permissions")
    assert "Admins of this tenant or its parents manage members." in page


def test_members_show_who_gave_each_role_to_readers_of_the_audit_log(w: World) -> None:
    member_set(acting_user=w.platform_admin, tenant=w.workspace, role=Role.ADMIN, user=w.outsider)
    member_set(acting_user=w.admin, tenant=w.workspace, role=Role.VIEWER, user=w.outsider)
    page = text(signed_in(w.admin), "/w/team-a/members")
    row = next(row for row in page.split("<tr") if w.outsider.username in row)
    assert w.admin.username in row.partition("Authorized by")[2].partition("</td>")[0], row
    page = text(signed_in(w.viewer), "/w/team-a/members")
    row = next(row for row in page.split("<tr") if w.outsider.username in row)
    assert "–" in row.partition("Authorized by")[2].partition("</td>")[0], row


@pytest.mark.parametrize("path", ["/w/team-a/keys", "/account/keys"])
def test_a_key_is_shown_once_and_works_until_it_is_revoked(w: World, path: str) -> None:
    client = signed_in(w.editor)
    answer = client.post(path, {"do": "make", "name": "laptop", "days": "30", "scopes": ["job.view"]})
    found = re.search(r'id="token"[^>]*>(alt_\w+?_[^<]+)<', answer.content.decode())
    assert found is not None and answer["Cache-Control"] == "no-store"
    again = text(client, path)
    assert found[1] not in again and "laptop" in again
    key = AccessKey.unscoped.get()
    assert key.scopes == ["job.view"] and key.expires_at is not None
    ask_batch(client, path, "revoke", key.pk)
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_service_account_gets_its_key_on_the_page_of_the_workspace(w: World) -> None:
    admin = signed_in(w.admin)
    accounts = "/w/team-a/keys/accounts"
    assert "Service account created." in post(admin, accounts, do="create", name="ci")
    assert "already exists" in admin.post(accounts, {"do": "create", "name": "ci"}).content.decode()
    post(admin, "/w/team-a/keys", do="make", name="pipeline", owner="ci@team-a", days="0")
    key = AccessKey.unscoped.get()
    assert (key.user.username, key.expires_at) == ("ci@team-a", None)
    assert "stays valid for 24 hours" in text(admin, f"/w/team-a/keys?edit={key.pk}")
    rotated = post(admin, "/w/team-a/keys", do="rotate", row=str(key.pk))
    assert 'id="token"' in rotated
    account = key.user
    ask_batch(admin, accounts, "end", account.pk)
    account.refresh_from_db()
    assert not account.is_active and "No service accounts" in text(admin, accounts)
    assert "Service accounts" not in text(signed_in(w.editor), "/w/team-a/keys")
    text(signed_in(w.editor), accounts, status=403)


def test_a_key_of_another_user_is_not_there(w: World) -> None:
    tenancy.access_key(w.admin)
    key = AccessKey.unscoped.get()
    for form in ({"one": f"revoke {key.pk}"}, {"do": "rotate", "row": str(key.pk)}):
        assert signed_in(w.editor).post("/w/team-a/keys", form).status_code == 404


@pytest.mark.parametrize("form", [{"do": "remove", "member": "x"}, {"do": "move", "to": "x"}, {}])
def test_unknown_forms_are_answered_without_an_error(w: World, form: dict[str, str]) -> None:
    answer = signed_in(w.platform_admin).post(f"/ops/tenants/{w.workspace.pk}", form)
    assert answer.status_code == 404
