"""The scopes of an access key limit its owner's rights in the whole of a request."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final

import pytest
from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.test import APIClient

from foundation.core.actor import SYSTEM
from foundation.core.errors import PermissionDenied
from tenants.access import grants, permissions
from tenants.access.permissions import Permission
from tenants.api.requests.authentication import AccessKeyAuthentication
from tenants.api.responses.live_stream import LiveStream
from tenants.api.responses.streams import signed_in_still
from tenants.models import AccessKey, Member, Role, User
from tenants.services.access_key import access_key_create
from tests.builders import jobs, tenancy
from tests.builders.world import World

SCOPE: Final = "SCOPE_MISSING"
PASSWORD: Final = "quite another 22"


def key(of: User, *scopes: str) -> tuple[APIClient, AccessKey]:
    """Return a client with a new key of the user, and the key."""
    made, token = access_key_create(acting_user=SYSTEM, user=of, name="test", scopes=scopes)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client, made


def outcome(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "") if answer.content else ""


def test_a_key_for_members_does_not_take_over_an_account(w: World) -> None:
    other = tenancy.platform_admin("second")
    client, made = key(w.platform_admin, "member.edit")
    before = list(User.objects.order_by("pk").values())

    for user in (w.platform_admin, other, w.viewer):
        at = f"/api/v1/admin/users/{user.pk}"
        for query in ("", "?dry_run=true"):
            for answer in (
                client.post(f"{at}/password{query}", {"password": PASSWORD}),
                client.post(f"{at}/unlock{query}"),
                client.patch(f"{at}{query}", {"is_active": False}, headers={"If-Match": "*"}),
            ):
                assert outcome(answer) == (403, SCOPE), user
    for route in ("me/keys", "workspaces/team-a/keys", f"me/keys/{made.prefix}/rotate"):
        assert outcome(client.post(f"/api/v1/{route}", {"name": "better"})) == (403, SCOPE)
    assert outcome(client.post("/api/v1/me/password", {"old": "x", "new": PASSWORD}))[0] == 403
    assert list(User.objects.order_by("pk").values()) == before
    assert AccessKey.unscoped.count() == 1


@pytest.mark.parametrize("role", ["viewer", "editor", "admin"])
def test_a_key_for_members_gives_no_role_beyond_its_scopes(w: World, role: str) -> None:
    client, _ = key(w.admin, "member.edit")
    stranger = tenancy.user("nobody1")
    members = f"/api/v1/tenants/{w.workspace.pk}/members"

    assert outcome(client.post(members, {"user": "nobody1", "role": role})) == (403, SCOPE)
    assert outcome(client.post(f"{members}?dry_run=true", {"user": "nobody1", "role": role})) == (403, SCOPE)
    group = tenancy.group("ml", stranger)
    assert outcome(client.post(members, {"group": group.name, "role": role})) == (403, SCOPE)
    held = Member.unscoped.get(user=w.viewer)
    assert outcome(client.delete(f"{members}/{held.pk}", headers={"If-Match": "*"})) == (403, SCOPE)
    roles = f"/api/v1/tenants/{w.workspace.pk}/roles"
    made = client.post(roles, {"name": "Helper", "points": ["member.edit", "job.submit"]})
    assert outcome(made) == (403, SCOPE)
    assert not Member.unscoped.filter(user=stranger).exists()


def test_a_key_gives_what_its_scopes_name(w: World) -> None:
    client, _ = key(w.admin, "member.edit", "job.view", "tenant.view")
    tenancy.custom_role(w.workspace, "Reader", "tenant.view", "job.view")
    members = f"/api/v1/tenants/{w.workspace.pk}/members"
    assert client.post(members, {"user": tenancy.user("nina").username, "role": "Reader"}).status_code == 201


def test_a_key_for_members_makes_no_key_of_a_service_account_beyond_it(w: World) -> None:
    robot = tenancy.service_account("ci", w.workspace)
    tenancy.member(robot, w.workspace, Role.EDITOR)
    client, _ = key(w.admin, "member.edit")
    at = f"/api/v1/tenants/{w.workspace.pk}/service-accounts/{robot.username}"
    assert outcome(client.delete(at)) == (403, SCOPE)
    robot.refresh_from_db()
    assert robot.is_active


def test_a_scope_does_what_it_says_without_further_ones(w: World) -> None:
    known = jobs.job(w.queue, w.admin, "known")
    for scopes, method, path, body, status in (
        (("job.submit",), "post", "jobs", {"name": "fresh", "roles": [{}]}, 202),
        (("job.stop-own",), "post", f"jobs/{known.pk}/suspend", {}, 202),
        (("job.stop-any",), "get", "jobs", None, 403),
        (("job.view",), "get", "jobs", None, 200),
        (("quota.view",), "get", "quota", None, 200),
        (("audit.view",), "get", "audit", None, 200),
    ):
        client, _ = key(w.admin, *scopes)
        answer = getattr(client, method)(f"/api/v1/workspaces/team-a/{path}", body)
        assert answer.status_code == status, (scopes, path, answer.content)


def test_one_request_by_a_key_leaves_no_bound_behind(w: World) -> None:
    bounded, _ = key(w.platform_admin, "member.edit")
    whole, _ = key(w.platform_admin)

    assert set(bounded.get("/api/v1/admin/users").json()) >= {"items"}
    assert grants.bound_of(w.platform_admin) is None
    assert whole.get("/api/v1/me").json()["platform_permissions"] == sorted(Permission)
    narrow, _ = key(w.platform_admin, "tenant.view")
    assert narrow.get("/api/v1/me").json()["platform_permissions"] == ["tenant.view"]


def test_rights_are_a_subset_of_the_reach_and_others_are_not_bounded(w: World) -> None:
    for point in Permission:
        with grants.remember_grants():
            grants.bind_to_scopes(w.platform_admin.pk, [point.value])
            for tenant in (None, w.workspace, w.other_workspace):
                held = permissions.permissions_on(w.platform_admin, tenant)
                assert point in held and held <= grants.reach_of(frozenset({point}))
            with pytest.raises(PermissionDenied) as refused:
                permissions.require_cover(w.platform_admin, set(Permission), w.workspace)
            assert refused.value.code == SCOPE
            # The scopes don't limit the rights of another user that the same request checks.
            assert permissions.permissions_on(w.admin, w.workspace) > {Permission.MEMBER_EDIT}
    with grants.remember_grants():
        grants.bind_to_scopes(w.platform_admin.pk, ["no.longer-a-point"])
        assert permissions.permissions_on(w.platform_admin) == frozenset()


class Look(LiveStream):
    """A stream that binds a user to scopes, or reports whether one is bound; all polls use one thread."""

    look_every_s = 0.0
    threads = ThreadPoolExecutor(1)

    def __init__(self, user: User, *, binds: bool) -> None:
        super().__init__(user.pk)
        self._user, self._binds = user, binds

    def poll_text(self) -> tuple[str, bool]:
        if self._binds:
            grants.bind_to_scopes(self._user.pk, ["job.view"])
        return str(grants.bound_of(self._user) is not None), True


async def first_look(stream: LiveStream) -> str:
    return await anext(stream._pieces())


def test_a_look_of_a_stream_bounds_no_other_look() -> None:
    user = User(username="ada")
    assert asyncio.run(first_look(Look(user, binds=True))) == "True"
    assert asyncio.run(first_look(Look(user, binds=False))) == "False"


@pytest.mark.parametrize("scopes", [("job.view",), ()])
def test_each_look_of_a_stream_is_bounded_by_its_key(w: World, scopes: tuple[str, ...]) -> None:
    request = Request(HttpRequest())
    _, request.auth = key(w.platform_admin, *scopes)  # type: ignore[assignment]

    granted = copy_context().run(lambda: permissions.permissions_on(signed_in_still(request)))

    assert granted == ({Permission.JOB_VIEW, Permission.TENANT_VIEW} if scopes else set(Permission))


def test_the_bound_is_set_where_a_key_becomes_a_user(w: World) -> None:
    client, _ = key(w.platform_admin, "job.view")
    request = Request(HttpRequest())
    request._request.META = {"HTTP_AUTHORIZATION": client._credentials["HTTP_AUTHORIZATION"]}
    with grants.remember_grants():
        assert AccessKeyAuthentication().authenticate(request) is not None
        bound = grants.bound_of(w.platform_admin)
        assert bound is not None and bound.scopes == {Permission.JOB_VIEW}
