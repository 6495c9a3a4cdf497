"""The pages of the tenant tree, members and access keys."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tenants.models import AccessKey, Member, Role, Tenant, User
from tests.builders import tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import hidden, post

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


def test_who_was_slower_is_told_what_there_is_now(w: World) -> None:
    boss, path = signed_in(w.platform_admin), f"/ops/tenants/{w.workspace.pk}"
    seen = hidden(boss, path, do="rename")
    member = w.editor.memberships.get()
    role = hidden(boss, path, do="change", member=member.pk)
    post(boss, path, do="rename", name="Team One")
    post(boss, path, do="change", member=str(member.pk), role="viewer")

    late = post(boss, path, **{**seen, "name": "Team Two"})
    assert "The resource changed since you loaded it." in late
    assert "Current name: Team One. Parent: Root." in late
    late = post(boss, path, **{**role, "role": "admin"})
    assert "Role of ed is now Viewer" in late
    assert (Tenant.unscoped.get(pk=w.workspace.pk).name, member.role) == ("Team One", "editor")
    member.refresh_from_db()
    assert member.role == "viewer"
    gone = post(boss, path, do="archive", version="")
    assert "The resource changed since you loaded it." in gone


def test_who_may_not_change_the_tree_sees_no_buttons_for_it(w: World) -> None:
    page = text(signed_in(w.viewer), f"/ops/tenants/{w.workspace.pk}")
    assert "Team A" in page and "Rename" not in page and "Add member" not in page
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
    post(admin, page, do="change", member=str(member.pk), role="editor")
    member.refresh_from_db()
    assert member.role == Role.EDITOR
    assert "User nobody not found." in post(admin, page, do="add", kind="user", name="nobody", role="viewer")
    post(admin, page, do="remove", member=str(member.pk))
    assert not Member.unscoped.filter(pk=member.pk).exists()


def test_the_members_page_says_where_each_role_comes_from(w: World) -> None:
    tenancy.group_member(tenancy.group("ml", w.outsider), tenancy.root(), Role.VIEWER)
    page = text(signed_in(w.viewer), "/w/team-a/members")
    assert "from Root" in page and "Viewer on Root by ml" in page
    assert "Admins of this tenant or its parents manage members." in page


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
    post(client, path, do="revoke", key=key.prefix)
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_service_account_gets_its_key_on_the_page_of_the_workspace(w: World) -> None:
    admin = signed_in(w.admin)
    assert "Service account created." in post(admin, "/w/team-a/keys", do="add-account", name="ci")
    post(admin, "/w/team-a/keys", do="make", name="pipeline", owner="ci@team-a", days="0")
    key = AccessKey.unscoped.get()
    assert (key.user.username, key.expires_at) == ("ci@team-a", None)
    rotated = post(admin, "/w/team-a/keys", do="rotate", key=key.prefix)
    assert 'id="token"' in rotated
    assert "deleted" in post(admin, "/w/team-a/keys", do="end-account", name="ci@team-a")
    assert "Service accounts" not in text(signed_in(w.editor), "/w/team-a/keys")


def test_a_key_of_somebody_else_is_not_there(w: World) -> None:
    tenancy.access_key(w.admin)
    answer = signed_in(w.editor).post(
        "/w/team-a/keys", {"do": "revoke", "key": AccessKey.unscoped.get().prefix}
    )
    assert answer.status_code == 404


@pytest.mark.parametrize("form", [{"do": "remove", "member": "x"}, {"do": "move", "to": "x"}, {}])
def test_forms_that_nobody_sends_are_answered_without_an_error(w: World, form: dict[str, str]) -> None:
    answer = signed_in(w.platform_admin).post(f"/ops/tenants/{w.workspace.pk}", form)
    assert answer.status_code == 404
