"""Accounts, passwords and keys: rules, expiry, and that no secret is stored or shown."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.apps import apps
from django.core import serializers
from django.test import Client
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.errors import Conflict, Invalid, PermissionDenied
from tenants.models import AccessKey, Role
from tenants.services.access_key import (
    access_key_check,
    access_key_create,
    access_key_revoke,
    access_key_rotate,
)
from tenants.services.account import password_change, password_set, user_create, user_set_active, user_unlock
from tenants.services.member import member_set
from tenants.services.service_account import service_account_close, service_account_create
from tests.builders import tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
PASSWORD = "a long password 1"


@pytest.fixture
def here() -> World:
    return world()


@pytest.mark.parametrize("password", ["short", "password1234", "newcomer-newcomer", "11111111111111"])
def test_a_password_against_the_rules_is_refused(here: World, password: str) -> None:
    with pytest.raises(Invalid) as refused:
        user_create(
            acting_user=SYSTEM, username="newcomer-newcomer", password=password, must_change_password=True
        )
    assert refused.value.errors[0].field == "password"
    with pytest.raises(Invalid):
        password_set(acting_user=SYSTEM, user=here.editor, password="short")


@pytest.mark.parametrize("username", ["", "a b", "x" * 151, "a/b"])
def test_a_user_name_against_the_rules_is_refused(here: World, username: str) -> None:
    with pytest.raises(Invalid) as refused:
        user_create(
            acting_user=SYSTEM, username=username, password="correct horse 9", must_change_password=True
        )
    assert refused.value.errors[0].field == "username"


def test_user_names_differ_in_more_than_case(here: World) -> None:
    with pytest.raises(Conflict):
        user_create(acting_user=SYSTEM, username="ED", password="correct horse 9", must_change_password=False)


def test_other_sessions_end_with_the_password(here: World) -> None:
    one, other = Client(), Client()
    for client in (one, other):
        assert client.login(username="ed", password=PASSWORD)
    form = {"old": PASSWORD, "new": "quite another 22", "again": "quite another 22"}
    assert one.post("/account", form).status_code == 302
    assert one.get("/api/v1/me").status_code == 200, "the one who changed it goes on"
    assert other.get("/api/v1/me").status_code in (401, 403)


def test_a_password_that_an_admin_sets_ends_the_users_sessions(here: World) -> None:
    client = Client()
    assert client.login(username="ed", password=PASSWORD)
    password_set(acting_user=here.platform_admin, user=here.editor, password="one time only 7")
    assert client.get("/api/v1/me").status_code in (401, 403)
    here.editor.refresh_from_db()
    assert here.editor.must_change_password
    with pytest.raises(PermissionDenied):
        password_set(acting_user=here.admin, user=here.editor, password="one time only 7")


def test_a_locked_out_user_is_let_in_again_by_an_operator(here: World, settings: Any) -> None:
    settings.AXES_ENABLED = True
    client = Client()
    for _ in range(settings.AXES_FAILURE_LIMIT):
        client.post("/login", {"username": "ed", "password": "wrong"})
    locked = client.post("/login", {"username": "ed", "password": PASSWORD})
    assert locked.status_code == 429 and "Too many failed sign-in attempts" in locked.content.decode()
    with pytest.raises(PermissionDenied):
        user_unlock(acting_user=here.admin, user=here.editor)
    assert user_unlock(acting_user=here.platform_admin, user=here.editor) == 1
    assert client.post("/login", {"username": "ed", "password": PASSWORD}).status_code == 302


def test_a_closed_account_signs_in_nowhere(here: World) -> None:
    token, client = tenancy.access_key(here.editor), Client()
    assert client.login(username="ed", password=PASSWORD)
    user_set_active(acting_user=here.platform_admin, user=here.editor, active=False)
    assert client.get("/api/v1/me").status_code in (401, 403)
    assert access_key_check(token) is None
    assert not Client().login(username="ed", password=PASSWORD)


def test_a_rotated_key_goes_on_for_its_grace_and_no_longer(here: World) -> None:
    key, old = access_key_create(
        acting_user=here.editor,
        user=here.editor,
        name="ci",
        scopes=["job.view"],
        expires_at=clock.now() + timedelta(days=30),
    )
    made, new = access_key_rotate(acting_user=here.editor, key=key, grace_s=3600)
    assert (made.name, made.scopes) == ("ci", ["job.view"])
    assert made.expires_at is not None and timedelta(days=29) < made.expires_at - clock.now() <= timedelta(
        days=30
    )
    assert access_key_check(old) == key and access_key_check(new) == made
    with time_machine.travel(clock.now() + timedelta(hours=2)):
        assert access_key_check(old) is None and access_key_check(new) == made
    with pytest.raises(Conflict):
        access_key_rotate(acting_user=here.editor, key=key)


def test_the_last_use_is_written_once_a_minute(here: World, django_assert_num_queries: Any) -> None:
    token = tenancy.access_key(here.editor)
    with time_machine.travel("2026-01-01T10:00:00Z", tick=False) as now:
        with django_assert_num_queries(2):
            access_key_check(token)
        now.shift(59)
        with django_assert_num_queries(1):
            access_key_check(token)
        now.shift(2)
        with django_assert_num_queries(2):
            access_key_check(token)
        assert AccessKey.unscoped.get().last_used_at == clock.now()


def test_a_key_that_ends_before_it_begins_is_refused(here: World) -> None:
    with pytest.raises(Invalid):
        access_key_create(acting_user=here.editor, user=here.editor, name="late", expires_at=clock.now())


def test_keys_of_a_service_account_are_made_by_who_may_do_as_much(here: World) -> None:
    robot = service_account_create(acting_user=here.admin, tenant=here.workspace, name="ci")
    member_set(acting_user=here.admin, user=robot, tenant=here.workspace, role=Role.ADMIN)
    key, token = access_key_create(acting_user=here.admin, user=robot, name="pipeline")
    assert access_key_check(token) == key
    keeper = tenancy.custom_role(here.workspace, "Keeper", "tenant.view", "member.edit")
    steward = tenancy.user("stew")
    member_set(acting_user=here.admin, user=steward, tenant=here.workspace, role=keeper)
    for user in (steward, here.editor):
        with pytest.raises(PermissionDenied):
            access_key_create(acting_user=user, user=robot, name="mine")
    service_account_close(acting_user=here.admin, account=robot)
    assert access_key_check(token) is None


def everything_stored() -> str:
    """Every row of every table, as text."""
    models = [model for model in apps.get_models() if model._meta.managed]
    return "".join(serializers.serialize("json", model._base_manager.all()) for model in models)


def test_no_secret_is_found_in_a_row_a_log_an_address_or_an_error(
    here: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    signed_in = APIClient()
    signed_in.force_authenticate(here.editor)
    made = signed_in.post("/api/v1/workspaces/team-a/keys", {"name": "laptop"})
    token, prefix = made.json()["token"], made.json()["prefix"]
    secret = token.removeprefix(f"alt_{prefix}_")
    seen = [made["Location"]]
    bearer = APIClient()
    bearer.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    for path in ("me", "nowhere", "workspaces/team-b", "metrics/series", "workspaces/team-a/keys?colour=1"):
        answer = bearer.get(f"/api/v1/{path}")
        seen += [answer.content.decode(), str(dict(answer.headers))]
    wrong = APIClient()
    wrong.credentials(HTTP_AUTHORIZATION=f"Bearer {token[:-1]}")
    seen.append(wrong.get("/api/v1/me").content.decode())
    key = AccessKey.unscoped.get()
    rotated = access_key_rotate(acting_user=here.editor, key=key)[1]
    access_key_revoke(acting_user=here.editor, key=key)
    seen.append(bearer.get("/api/v1/me").content.decode())
    password_change(acting_user=here.editor, old_password=PASSWORD, new_password="quite another 22")
    try:
        password_change(
            acting_user=here.editor, old_password="wrong one 123", new_password="quite another 23"
        )
    except Invalid as error:
        seen.append(json.dumps([error.detail, error.numbers, [str(e) for e in error.errors]]))

    kept = everything_stored() + caplog.text + "".join(capfd.readouterr()) + "".join(seen)
    assert prefix in kept, "the prefix may be shown"
    for hidden in (
        secret,
        secret[:-1],
        rotated.split("_", 2)[2],  # a secret may hold the mark that parts it from its prefix
        "quite another 22",
        "quite another 23",
        "wrong one 123",
    ):
        assert hidden not in kept
