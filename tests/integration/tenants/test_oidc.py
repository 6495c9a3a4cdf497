"""Signing in by a real OpenID Connect provider, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.db import DataError
from django.test import Client

from allotment.settings.oidc import provider_settings
from foundation.models import AuditRecord
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Member, Role, User
from tenants.sign_in.oidc import AccountAdapter
from tests.builders import tenancy
from tests.fixtures import oidc_provider

pytestmark = pytest.mark.django_db
SignIn = Callable[..., tuple[Client, Any]]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The address of the provider."""
    program = Path(oidc_provider.__file__)
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture
def sign_in(issuer: str, settings: Any) -> SignIn:
    """Go from the sign-in page to the provider and back as a persona; the client and the last answer."""
    settings.SOCIALACCOUNT_PROVIDERS = provider_settings(
        issuer, oidc_provider.CLIENT_ID, oidc_provider.CLIENT_SECRET, "Acme SSO"
    )

    def run(**persona: Any) -> tuple[Client, Any]:
        httpx.post(f"{issuer}/persona", json=persona)
        client = Client()
        assert "Sign in with Acme SSO" in client.get("/login").content.decode()
        away = client.post("/oidc/sso/login/")
        assert away["Location"].startswith(f"{issuer}/authorize?")
        back = urlsplit(httpx.get(away["Location"]).headers["Location"])
        return client, client.get(f"{back.path}?{back.query}")

    return run


def ada(*groups: str, **more: Any) -> dict[str, Any]:
    return {
        "sub": "1815",
        "preferred_username": "ada",
        "email": "ada@acme.test",
        "groups": list(groups),
        **more,
    }


def test_the_first_sign_in_makes_the_account_and_later_ones_find_it(sign_in: SignIn) -> None:
    client, answer = sign_in(**ada())
    assert answer.status_code == 302 and answer["Location"] == "/"
    me = client.get("/api/v1/me").json()
    assert (me["username"], me["memberships"]) == ("ada", [])
    user = User.objects.get(username="ada")
    assert user.email == "ada@acme.test" and not user.has_usable_password()
    assert AuditRecord.unscoped.get(action="user.create").after == {"username": "ada", "by": "oidc"}
    sign_in(**ada(preferred_username="ada.l"))
    assert User.objects.count() == 1, "the subject tells who it is, whatever the name"


def test_groups_come_and_go_with_the_claim(sign_in: SignIn) -> None:
    team = tenancy.workspace("team-a")
    tenancy.group_member(tenancy.group("ML", claim="ml-engineers"), team, Role.EDITOR)
    local = tenancy.group("Local")
    sign_in(**ada("ml-engineers", "unknown-here"))
    user = User.objects.get(username="ada")
    local.people.create(user=user)
    assert permissions.has_permission(user, Permission.JOB_SUBMIT, team)

    client, _ = sign_in(**ada("unknown-here"))
    assert not permissions.has_permission(user, Permission.TENANT_VIEW, team)
    assert client.get("/api/v1/workspaces/team-a").status_code == 404
    assert [row.group.name for row in user.in_groups.all()] == ["Local"], "groups of the platform stay"
    note = AuditRecord.unscoped.filter(action="user.groups").first()
    assert note is not None and note.before == {"lost": ["ML"]}


def test_the_admin_group_of_the_settings_lets_the_first_admin_in(sign_in: SignIn, settings: Any) -> None:
    settings.ALLOTMENT_OIDC_ADMIN_GROUPS = ["platform"]
    sign_in(**ada("platform"))
    user = User.objects.get(username="ada")
    assert permissions.permissions_on(user) == set(Permission)
    assert Member.unscoped.get().group.claim == "platform"
    sign_in(**ada())
    assert permissions.permissions_on(user) == frozenset()


def test_a_name_that_exists_here_is_not_taken_over(sign_in: SignIn) -> None:
    local = tenancy.user("ada", None, Role.PLATFORM_ADMIN)
    User.objects.filter(pk=local.pk).update(email="ada@acme.test")
    client, _ = sign_in(**ada())
    assert client.get("/api/v1/me").json()["platform_permissions"] == []
    assert User.objects.exclude(pk=local.pk).get().username != "ada"


def test_a_closed_account_and_a_refusal_lead_back_to_the_sign_in_page(sign_in: SignIn) -> None:
    sign_in(**ada())
    User.objects.update(is_active=False)
    client, answer = sign_in(**ada())
    assert answer["Location"] == "/login" and client.get("/api/v1/me").status_code in (401, 403)
    assert "This account is disabled" in client.get("/login").content.decode()
    client, answer = sign_in()
    assert answer["Location"] == "/login"
    assert "failed" in client.get("/login").content.decode()


def test_an_unrequested_answer_is_refused(sign_in: SignIn) -> None:
    stranger = Client()
    answer = stranger.get("/oidc/sso/login/callback/?code=x&state=y")
    assert answer["Location"] == "/login"
    assert stranger.get("/api/v1/me").status_code in (401, 403)


def test_without_a_provider_there_is_no_such_page(client: Client) -> None:
    assert "Sign in with" not in client.get("/login").content.decode()
    assert client.get("/oidc/sso/login/").status_code == 404


@pytest.mark.parametrize("taken", ["platform", "Platform", "PLATFORM "])
def test_a_group_made_here_does_not_become_the_admins_of_the_provider(
    sign_in: SignIn, settings: Any, taken: str
) -> None:
    settings.ALLOTMENT_OIDC_ADMIN_GROUPS = ["platform"]
    local = tenancy.group(taken.strip(), tenancy.user("lou"))
    tenancy.group(f"{taken.strip()} (SSO 2)")

    client, answer = sign_in(**ada("platform"))
    again, _ = sign_in(**ada("platform"))

    assert answer.status_code == 302
    for each in (client, again):
        assert each.get("/api/v1/me").json()["platform_permissions"] == sorted(Permission)
    assert permissions.permissions_on(User.objects.get(username="lou")) == frozenset()
    assert Member.unscoped.get().group.name.casefold() == "platform (sso 3)"
    assert [row.user.username for row in local.people.all()] == ["lou"]


def test_admin_groups_whose_names_are_cut_to_the_same_are_two(sign_in: SignIn, settings: Any) -> None:
    names = ["g" * 150 + "1", "g" * 150 + "2"]
    settings.ALLOTMENT_OIDC_ADMIN_GROUPS = names
    sign_in(**ada(*names))
    groups = [row.group for row in User.objects.get(username="ada").in_groups.all()]
    assert {group.claim for group in groups} == set(names)
    assert all(len(group.name) <= 120 for group in groups) and len({group.name for group in groups}) == 2


@pytest.mark.parametrize(
    "groups",
    ["platform", ["platform", "platform"], [["platform"], 7, None, "", "x" * 500, "a\x00b", "platform"]],
)
def test_a_claim_of_any_shape_is_read(sign_in: SignIn, settings: Any, groups: Any) -> None:
    settings.ALLOTMENT_OIDC_ADMIN_GROUPS = ["platform"]
    client, answer = sign_in(**ada() | {"groups": groups})
    assert answer["Location"] == "/"
    assert client.get("/api/v1/me").json()["memberships"][0]["group"] == "platform"


@pytest.mark.parametrize("groups", [7, True, {"platform": True}, None, "", [[["platform"]]]])
def test_a_claim_that_names_no_group_gives_none(sign_in: SignIn, settings: Any, groups: Any) -> None:
    settings.ALLOTMENT_OIDC_ADMIN_GROUPS = ["platform"]
    client, answer = sign_in(**ada() | {"groups": groups})
    assert answer["Location"] == "/" and client.get("/api/v1/me").json()["memberships"] == []


@pytest.mark.parametrize(
    "said",
    [
        {"preferred_username": "ADA"},
        {"preferred_username": "x" * 300},
        {"preferred_username": ""},
        {"preferred_username": "a\x00da", "name": "A\x00", "given_name": "x" * 400, "family_name": "y" * 400},
        {"preferred_username": "ci@team-a"},
        {"preferred_username": "李雷"},
        {"email": "not an address"},
        {"email": "x" * 300 + "@acme.test"},
        {"email": "lou@acme.test", "email_verified": True},
        {"email": None, "preferred_username": None},
    ],
    ids=str,
)
def test_whatever_is_said_of_a_person_makes_an_account_of_its_own(
    sign_in: SignIn, said: dict[str, Any]
) -> None:
    team = tenancy.workspace("team-a")
    others = [tenancy.user("ada"), tenancy.user("lou"), tenancy.service_account("ci", team)]
    User.objects.filter(username="lou").update(email="lou@acme.test")
    for subject in ("first", "second"):
        client, answer = sign_in(**ada() | {"sub": subject} | said)
        assert (answer.status_code, answer["Location"]) == (302, "/")
        me = client.get("/api/v1/me").json()
        assert me["username"] and me["username"] not in {user.username for user in others}
        again, _ = sign_in(**ada() | {"sub": subject} | said)
        assert again.get("/api/v1/me").json()["id"] == me["id"]
    assert User.objects.count() == 5


def test_a_name_that_is_taken_at_the_same_moment_is_made_up_anew(
    sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenancy.user("ada")
    # As if the other account were not there yet when the name is looked up.
    monkeypatch.setattr(AccountAdapter, "clean_username", lambda _adapter, name, shallow=False: name)
    client, answer = sign_in(**ada())
    assert answer["Location"] == "/"
    assert client.get("/api/v1/me").json()["username"] not in ("", "ada")


def test_an_account_that_cannot_be_made_leads_back_to_the_sign_in_page(
    sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DataError("too long")

    monkeypatch.setattr(DefaultSocialAccountAdapter, "save_user", fail)
    client, answer = sign_in(**ada())
    assert answer["Location"] == "/login"
    assert "create your account" in client.get("/login").content.decode()
    assert not User.objects.exists()
