"""One-time passwords only allow setting a password, and expire; a reset ends keys; guesses are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
import time_machine
from axes.models import AccessAttempt
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from allotment.requests.one_time_passwords import OPEN
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.errors import PermissionDenied
from foundation.models import AuditRecord
from tenants.api.responses.streams import signed_in_still
from tenants.models import AccessKey, Role, User
from tenants.services.access_key import access_key_check, access_key_create
from tenants.services.account import password_set, user_create
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

ONCE: Final = "good for once 12"
FRESH: Final = "quite another 22"
OLD: Final = "a long password 1"


@pytest.fixture
def newcomer(w: World) -> User:
    user = user_create(acting_user=SYSTEM, username="new", password=ONCE, must_change_password=True)
    tenancy.member(user, None, Role.PLATFORM_ADMIN)
    return user


def signed_in(name: str, password: str) -> Client:
    client = Client()
    assert client.post("/login", {"username": name, "password": password}).status_code == 302
    return client


def change(client: Client, old: str, new: str = FRESH, *, query: str = "", **headers: str) -> Any:
    body = {"old": old, "new": new}
    return client.post(f"/api/v1/me/password{query}", body, "application/json", headers=headers)


def addresses(resolver: URLResolver, prefix: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """Every address with made-up ids, and the name of its view."""
    for pattern in resolver.url_patterns:
        path = prefix + re.sub(r"<uuid:\w+>", "00000000-0000-7000-8000-000000000000", str(pattern.pattern))
        path = re.sub(r"\(\?P<\w+>[^)]*\)|<(?:\w+:)?\w+>", "x", path).replace("^", "").replace("$", "")
        if isinstance(pattern, URLPattern):
            yield "/" + path, ":".join(filter(None, (space, pattern.name or "")))
        else:
            inner = ":".join(filter(None, (space, pattern.namespace or "")))
            yield from addresses(pattern, path, inner)


PUBLIC_API: Final = {"/api/v1/schema", "/api/v1/docs"}
AGENT_API: Final = {"/api/v1/agent/keys", "/api/v1/agent/samples"}
"""Asked with the key of a node, never with the session of a person."""
OPEN_API: Final = {"/api/v1/me", "/api/v1/me/password"}


def test_a_one_time_password_opens_nothing_but_the_way_to_another_one(newcomer: User) -> None:
    client = signed_in("new", ONCE)
    opened = set()
    for path, name in addresses(get_resolver()):
        if name in OPEN or path in PUBLIC_API | AGENT_API:
            continue
        for method in ("get", "post"):
            answer = getattr(client, method)(path)
            if path.startswith("/api/"):
                shut = answer.status_code == 403 and answer.json()["code"] == "PASSWORD_CHANGE_REQUIRED"
            else:
                shut = answer.status_code == 302 and answer["Location"] == "/account"
            if not shut:
                opened.add(path)
    assert opened == OPEN_API
    # A redirected fetch loads the page anew.
    assert "data-live=" not in client.get("/account").content.decode()
    assert not AccessKey.unscoped.exists()


def test_the_answer_of_the_creation_has_the_expiry_of_the_one_time_password(w: World, as_user: As) -> None:
    client = as_user(w.platform_admin)
    with time_machine.travel("2026-01-01T10:00:00Z", tick=False):
        made = client.post("/api/v1/admin/users", {"username": "new", "password": ONCE}).json()
        assert made["password_expires_at"] == "2026-01-04T10:00:00Z"
        reset = client.post(f"/api/v1/admin/users/{w.editor.pk}/password", {"password": ONCE})
    assert reset.json() == {"password_expires_at": "2026-01-04T10:00:00Z", "keys_revoked": 0, "keys_kept": 0}


def test_an_expired_one_time_password_signs_no_user_in_and_is_not_changed(
    newcomer: User, settings: Any
) -> None:
    settings.SESSION_COOKIE_AGE = 30 * 24 * 3600
    before = signed_in("new", ONCE)
    assert before.get("/api/v1/me").json()["must_change_password"] is True
    with time_machine.travel(clock.now() + timedelta(hours=72, seconds=1)):
        late = Client().post("/login", {"username": "new", "password": ONCE})
        assert late.status_code == 200 and "has expired" in late.content.decode()
        refused = change(before, ONCE)
        assert (refused.status_code, refused.json()["code"]) == (403, "PASSWORD_EXPIRED")
        page = before.post("/account", {"old": ONCE, "new": FRESH, "again": FRESH})
        assert page.status_code == 200 and "has expired" in page.content.decode()
    newcomer.refresh_from_db()
    assert newcomer.check_password(ONCE)


def test_a_changed_password_does_not_expire(newcomer: User) -> None:
    client = signed_in("new", ONCE)
    assert change(client, ONCE, ONCE).status_code == 400, "the same one would stay with whoever gave it"
    assert change(client, ONCE).status_code == 204
    newcomer.refresh_from_db()
    assert (newcomer.must_change_password, newcomer.password_expires_at) == (False, None)
    assert client.get("/api/v1/workspaces").status_code == 200
    with time_machine.travel(clock.now() + timedelta(days=30)):
        signed_in("new", FRESH)


def test_a_date_left_by_an_older_version_ends_no_password_that_was_chosen(w: World) -> None:
    User.objects.filter(pk=w.editor.pk).update(password_expires_at=datetime(2020, 1, 1).astimezone())
    assert signed_in("ed", OLD).get("/api/v1/workspaces").status_code == 200


def test_a_stream_ends_for_a_session_of_a_one_time_password(newcomer: User) -> None:
    client = signed_in("new", ONCE)
    request: Any = type("R", (), {"auth": None, "session": client.session})()
    with pytest.raises(PermissionDenied) as refused:
        signed_in_still(request)
    assert refused.value.code == "PASSWORD_CHANGE_REQUIRED"


def test_a_user_who_must_choose_a_password_makes_no_key(newcomer: User) -> None:
    with pytest.raises(PermissionDenied) as refused:
        access_key_create(acting_user=newcomer, user=newcomer, name="mine")
    assert refused.value.code == "PASSWORD_CHANGE_REQUIRED"


@pytest.mark.parametrize("keep", [False, True])
def test_a_reset_revokes_the_keys_unless_they_are_to_be_kept(w: World, as_user: As, keep: bool) -> None:
    tokens = [tenancy.access_key(w.editor), tenancy.access_key(w.editor)]
    other = tenancy.access_key(w.viewer)
    body = {"password": ONCE} | ({"keep_keys": True} if keep else {})
    path = f"/api/v1/admin/users/{w.editor.pk}/password"
    client = as_user(w.platform_admin)

    previewed = client.post(f"{path}?dry_run=true", body).json()
    assert [access_key_check(token) is not None for token in tokens] == [True, True]
    answer = client.post(path, body).json()

    assert [answer["keys_revoked"], answer["keys_kept"]] == ([0, 2] if keep else [2, 0])
    assert previewed["keys_revoked"] == answer["keys_revoked"]
    assert [access_key_check(token) is not None for token in tokens] == [keep, keep]
    assert access_key_check(other) is not None
    noted = AuditRecord.unscoped.get(action="user.password-set")
    assert noted.after == {"keys_revoked": answer["keys_revoked"]}


def test_no_user_sets_their_own_password_without_the_old_one(w: World, as_user: As) -> None:
    path = f"/api/v1/admin/users/{w.platform_admin.pk}/password"
    answer = as_user(w.platform_admin).post(path, {"password": ONCE})
    assert (answer.status_code, answer.json()["code"]) == (409, "OWN_PASSWORD")
    w.platform_admin.refresh_from_db()
    assert w.platform_admin.check_password(OLD)


def test_an_access_key_changes_no_password(w: World) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {tenancy.access_key(w.editor)}")
    for old in (OLD, "wrong"):
        answer = client.post("/api/v1/me/password", {"old": old, "new": FRESH})
        assert (answer.status_code, answer.json()["code"]) == (403, "SESSION_REQUIRED")


def by_page(client: Client, old: str) -> Any:
    return client.post("/account", {"old": old, "new": FRESH, "again": FRESH})


WAYS: Final = {
    "api": change,
    "dry run": lambda client, old: change(client, old, query="?dry_run=true"),
    "idempotency key": lambda client, old: change(client, old, **{"Idempotency-Key": "one"}),
    "page": by_page,
}


@pytest.mark.parametrize("way", WAYS)
def test_guesses_of_the_old_password_lock_like_a_sign_in(w: World, settings: Any, way: str) -> None:
    client = signed_in("ed", OLD)
    settings.AXES_ENABLED = True
    for _guess in range(settings.AXES_FAILURE_LIMIT):
        assert WAYS[way](client, "a wrong guess 1").status_code in (200, 400)
    assert AccessAttempt.objects.get().failures_since_start == settings.AXES_FAILURE_LIMIT
    assert AuditRecord.unscoped.filter(action="access.denied", after__action="sign-in").count() == 8

    for locked in WAYS.values():
        answer = locked(client, OLD)
        assert answer.status_code == 429 or "Too many failed sign-in attempts" in answer.content.decode()
    w.editor.refresh_from_db()
    assert w.editor.check_password(OLD)
    assert Client().post("/login", {"username": "ed", "password": OLD}).status_code == 429
    # Elsewhere and for others nothing is locked.
    elsewhere = Client(REMOTE_ADDR="192.0.2.7")
    assert elsewhere.post("/login", {"username": "ed", "password": OLD}).status_code == 302
    assert Client().post("/login", {"username": "vera", "password": OLD}).status_code == 302


def test_a_reset_by_the_shell_needs_no_rights(w: World) -> None:
    reset = password_set(acting_user=SYSTEM, user=w.platform_admin, password=ONCE)
    assert reset.user.must_change_password


def test_a_session_writes_with_its_token_and_not_without(w: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.get("/login")
    form = {"username": "ed", "password": OLD, "csrfmiddlewaretoken": client.cookies["allotment_csrf"].value}
    assert client.post("/login", form).status_code == 302
    token = {"X-CSRFToken": client.cookies["allotment_csrf"].value}

    refused = client.post("/api/v1/me/keys", {"name": "mine"}, "application/json")
    assert (refused.status_code, AccessKey.unscoped.count()) == (403, 0)
    made = client.post("/api/v1/me/keys", {"name": "mine"}, "application/json", headers=token)
    assert made.status_code == 201
    gone = client.delete(f"/api/v1/me/keys/{made.json()['prefix']}", headers=token)
    assert gone.status_code == 204
    assert change(client, OLD, **token).status_code == 204
