"""Invitations by link, the end of sessions and keys, and what pickers offer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from rest_framework.test import APIClient

from foundation.core.actor import SYSTEM
from foundation.models import AuditRecord
from tenants.models import AccessKey, Role, User
from tenants.selectors.user import UserState, find_user_state, people_find, user_query
from tenants.services.account import password_set, user_create, user_set_active
from tenants.services.invitation import invitation_renew, user_invite
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

FRESH = "quite another 22"


def accept(path: str, password: str = FRESH, again: str = "") -> Any:
    return Client().post(path, {"new": password, "again": again or password})


def signed_in(answer: Any) -> bool:
    return "allotment_session" in answer.cookies and answer["Location"] == "/"


def test_an_invited_person_sets_the_first_password_and_is_signed_in(w: World, as_user: As) -> None:
    body = {"username": "nora", "email": "nora@example.com"}
    answer = as_user(w.platform_admin).post("/api/v1/admin/invitations", body, "json")
    assert answer.status_code == 201 and not answer.json()["emailed"]
    user, path = User.objects.get(username="nora"), answer.json()["path"]
    assert user.is_invited and not mail.outbox
    assert "nora" in Client().get(path).content.decode()
    done = accept(path)
    assert done.status_code == 302 and signed_in(done)
    user.refresh_from_db()
    assert user.check_password(FRESH) and not user.must_change_password and not user.is_invited
    assert AuditRecord.unscoped.filter(action="user.accept", entity_id=user.pk).exists()


@pytest.mark.parametrize("spoiled", ["used", "renewed", "disabled", "expired", "guessed", "password"])
def test_a_link_that_is_not_valid_opens_nothing(w: World, spoiled: str, settings: Any) -> None:
    made = user_invite(acting_user=w.platform_admin, username="nora")
    path, user = made.path, made.user
    if spoiled == "used":
        assert signed_in(accept(path))
    elif spoiled == "renewed":
        assert invitation_renew(acting_user=w.platform_admin, user=user).path != path
    elif spoiled == "disabled":
        user_set_active(acting_user=w.platform_admin, user=user, active=False)
    elif spoiled == "expired":
        User.objects.filter(pk=user.pk).update(password_expires_at=user.date_joined)
    elif spoiled == "password":
        password_set(acting_user=w.platform_admin, user=user, password="another one 33")
    else:
        path = path[:-1] + ("0" if path[-1] != "0" else "1")
    before = User.objects.get(pk=user.pk).password
    for answer in (Client().get(path), accept(path, "yet another 44")):
        assert (answer.status_code, answer["Location"]) == (302, "/login")
        assert "allotment_session" not in answer.cookies
    assert User.objects.get(pk=user.pk).password == before


@pytest.mark.parametrize(
    ("password", "again"), [("short", ""), ("nora nora nora", "x"), ("password1234", "")]
)
def test_a_first_password_follows_the_rules(w: World, password: str, again: str) -> None:
    path = user_invite(acting_user=w.platform_admin, username="nora").path
    answer = accept(path, password, again)
    wrong = "again" if again else "new"
    assert answer.status_code == 400 and f'id="id_{wrong}_error"' in answer.content.decode()
    assert signed_in(accept(path))


def test_the_signed_in_user_is_not_the_one_who_accepts(w: World) -> None:
    path = user_invite(acting_user=w.platform_admin, username="nora").path
    browser = Client()
    browser.force_login(w.platform_admin)
    browser.post(path, {"new": FRESH, "again": FRESH})
    assert "nora" in browser.get("/account").content.decode()


def test_an_invitation_is_emailed_where_email_is_configured(
    w: World, as_user: As, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.EMAIL_HOST, settings.ALLOTMENT_URL = "mail.example.com", "https://gpu.example.com/"
    body = {"username": "nora", "email": "nora@example.com"}
    with django_capture_on_commit_callbacks(execute=True):
        answer = as_user(w.platform_admin).post("/api/v1/admin/invitations", body, "json")
        as_user(w.platform_admin).post(
            "/api/v1/admin/invitations?dry_run=true", {**body, "username": "nina"}, "json"
        )
    assert answer.json()["emailed"] and [one.to for one in mail.outbox] == [["nora@example.com"]]
    assert f"https://gpu.example.com{answer.json()['path']}" in mail.outbox[0].body


def test_a_repeated_request_does_not_repeat_the_link(w: World, as_user: As) -> None:
    client, headers = as_user(w.platform_admin), {"Idempotency-Key": "one"}
    first, second = (
        client.post("/api/v1/admin/invitations", {"username": "nora"}, "json", headers=headers)
        for _ in range(2)
    )
    assert first.json()["path"] and second.json()["path"] is None
    assert second["Idempotency-Replayed"] == "true"


def test_ending_access_closes_sessions_and_keys_and_keeps_the_password(w: World, as_user: As) -> None:
    browser = Client()
    browser.force_login(w.editor)
    tenancy.access_key(w.editor)
    assert browser.get("/account").status_code == 200
    url = f"/api/v1/admin/users/{w.editor.pk}/end-access"
    answer = as_user(w.platform_admin).post(url, {}, "json")
    assert answer.json() == {"sessions_ended": True, "keys_revoked": 1}
    assert browser.get("/account")["Location"].startswith("/login")
    assert not AccessKey.unscoped.filter(user=w.editor, revoked_at=None).exists()
    again = Client()
    again.force_login(User.objects.get(pk=w.editor.pk))
    assert again.get("/account").status_code == 200
    answer = as_user(w.platform_admin).post(url, {"sessions": False}, "json")
    assert answer.json()["sessions_ended"] is False and again.get("/account").status_code == 200


def test_no_user_ends_the_own_sessions_by_accident(w: World, as_user: As) -> None:
    url = f"/api/v1/admin/users/{w.platform_admin.pk}/end-access"
    answer = as_user(w.platform_admin).post(url, {}, "json")
    assert (answer.status_code, answer.json()["code"]) == (409, "OWN_SESSIONS")


def test_each_account_is_found_by_its_state_and_only_there(w: World) -> None:
    user_invite(acting_user=SYSTEM, username="invited")
    user_create(acting_user=SYSTEM, username="once", password=FRESH, must_change_password=True)
    closed = tenancy.user("closed")
    user_set_active(acting_user=SYSTEM, user=closed, active=False)
    found = {state: set(user_query(viewer=w.platform_admin, state=state)) for state in UserState}
    for user in user_query(viewer=w.platform_admin):
        assert [state for state, users in found.items() if user in users] == [
            find_user_state(user, frozenset())
        ]
    names = {state: {user.username for user in users} for state, users in found.items()}
    assert names[UserState.INVITED] == {"invited"} and names[UserState.ONE_TIME] == {"once"}
    assert names[UserState.DISABLED] == {"closed"}


def test_a_picker_offers_whom_the_reader_may_see(w: World) -> None:
    other = tenancy.user("hidden", w.other_workspace, Role.EDITOR)
    named = {one.username for one in people_find(viewer=w.editor, text="")}
    assert w.viewer.username in named and other.username not in named
    everybody = {one.username for one in people_find(viewer=w.platform_admin, text="")}
    assert {w.viewer.username, other.username} <= everybody
    client = APIClient()
    client.force_login(w.editor)
    assert client.get("/people?q=hid").json() == {"items": []}


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_users_page_invites_finds_disables_and_resets(w: World) -> None:
    boss = Client()
    boss.force_login(w.platform_admin)
    page = boss.post("/ops/users", {"do": "invite", "username": "nora", "email": ""})
    assert page["Cache-Control"] == "no-store"
    path = re.search(r"http://testserver(/invitation/[^<]+)<", page.content.decode())
    assert path is not None and signed_in(accept(path[1]))
    assert "nora" in text(boss, "/ops/users?q=nor") and "nora" not in text(boss, "/ops/users?state=invited")
    taken = boss.post("/ops/users", {"do": "invite", "username": "Nora", "email": ""})
    assert taken.status_code == 400 and 'id="id_username_error"' in taken.content.decode()
    user = User.objects.get(username="nora")
    page_of = f"/ops/users/{user.pk}"
    reset = boss.post(page_of, {"do": "password"}, follow=True).content.decode()
    secret = re.search(r'id="secret"[^>]*>([^<]+)<', reset)
    user.refresh_from_db()
    assert secret is not None and user.check_password(secret[1]) and user.must_change_password
    boss.post(page_of, {"do": "disable", "version": user.version})
    user.refresh_from_db()
    assert not user.is_active
    assert secret[1] not in text(boss, page_of)


def test_an_unknown_member_keeps_what_was_typed(w: World) -> None:
    boss = Client()
    boss.force_login(w.platform_admin)
    path = f"/w/{w.workspace.slug}/members"
    answer = boss.post(path, {"do": "add", "kind": "user", "name": "nobdy", "role": "admin"})
    page = answer.content.decode()
    assert answer.status_code == 400 and 'value="nobdy"' in page and 'id="id_name_error"' in page
    assert re.search(r'<option value="admin"\s+selected', page)
    group = tenancy.group("crowd")
    answer = boss.post(f"/ops/groups/{group.pk}", {"do": "add", "name": "nobdy"})
    assert answer.status_code == 400 and 'value="nobdy"' in answer.content.decode()
