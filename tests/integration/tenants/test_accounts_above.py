"""No user changes an account with more rights than their own: one rule, checked by every service."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

import clusters.services
import quotas.services
import scheduling.services
import telemetry.services
import tenants.services
from foundation.core.errors import PermissionDenied
from tenants.models import AccessKey, Group, Role, User
from tenants.services import access_key, account, group, invitation, service_account
from tests.builders import tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
PASSWORD: Final = "quite another 22"
REFUSED: Final = "ACCOUNT_HAS_MORE_RIGHTS"


def key_of(user: User) -> AccessKey:
    tenancy.access_key(user)
    return AccessKey.unscoped.filter(user=user, revoked_at__isnull=True).latest("created_at")


def invited(user: User) -> User:
    user.set_unusable_password()
    user.must_change_password = True  # in memory: the renewal asks no more of it
    return user


RULED: Final[dict[str, Callable[[User, User], object]]] = {
    "account.user_set_active": lambda by, of: account.user_set_active(acting_user=by, user=of, active=False),
    "account.user_unlock": lambda by, of: account.user_unlock(acting_user=by, user=of),
    "account.password_set": lambda by, of: account.password_set(acting_user=by, user=of, password=PASSWORD),
    "account.user_end_access": lambda by, of: account.user_end_access(acting_user=by, user=of),
    "invitation.invitation_renew": lambda by, of: invitation.invitation_renew(
        acting_user=by, user=invited(of)
    ),
    "access_key.access_key_create": lambda by, of: access_key.access_key_create(
        acting_user=by, user=of, name="mine"
    ),
    "access_key.access_key_rotate": lambda by, of: access_key.access_key_rotate(
        acting_user=by, key=key_of(of)
    ),
    "access_key.access_key_revoke": lambda by, of: access_key.access_key_revoke(
        acting_user=by, key=key_of(of)
    ),
    "service_account.service_account_close": lambda by, of: service_account.service_account_close(
        acting_user=by, account=of
    ),
}
"""Each service that acts on another account, with a call of it."""

EXEMPT: Final = {
    "member.member_set": "covers the role that is given and the one that is replaced",
    "group.group_add": "covers every role of the group",
    "group.group_remove": "covers every role of the group",
    "sign_in.groups_follow": "done by the identity provider's answer to the person's own sign-in",
    "sign_in.person_noted": "writes the audit record of the person's own first sign-in",
    "password_attempt.counted_attempt": "counts guesses of the password of one's own session",
    "language.note_language": "stores the language in which the signed-in user reads",
    "language.use_language_of": "changes nothing of the account",
    "job_rows.rows_of": "writes the rows of jobs that the user submits",
}
"""Services that name another account and do something else, with what protects it instead."""


def modules() -> Iterator[ModuleType]:
    for package in (
        tenants.services,
        quotas.services,
        clusters.services,
        scheduling.services,
        telemetry.services,
    ):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield importlib.import_module(found.name)


def named_accounts(service: Callable[..., object]) -> list[str]:
    """Return the parameters by which a service gets another user's account, or an object of one."""
    return [
        name
        for name, parameter in inspect.signature(service).parameters.items()
        if re.search(r"\b(User|AccessKey|GroupMember)\b", str(parameter.annotation))
        and name not in ("acting_user", "viewer")
    ]


def test_every_service_that_takes_an_account_is_named_here() -> None:
    found = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules()
        for name, service in vars(module).items()
        if inspect.isfunction(service)
        and service.__module__ == module.__name__
        and not name.startswith("_")
        and named_accounts(service)
        and not name.startswith("require_")
    }
    assert found == {*RULED, *EXEMPT}


@pytest.fixture
def here() -> World:
    return world()


@pytest.fixture
def helpdesk(here: World) -> User:
    """Return a user who may edit members of the platform and nothing else."""
    return with_platform_points("helen", "tenant.view", "member.edit")


def with_platform_points(name: str, *points: str) -> User:
    user = tenancy.user(name)
    user.memberships.create(custom_role=tenancy.custom_role(None, f"Role of {name}", *points))
    return user


def by_group(here: World) -> User:
    user = tenancy.user("grace")
    tenancy.group_member(tenancy.group("admins", user), None, Role.PLATFORM_ADMIN)
    return user


def by_folder(here: World) -> User:
    return tenancy.user("fay", tenancy.folder("research"), Role.ADMIN)


def by_custom_role(here: World) -> User:
    user = tenancy.user("carl")
    user.memberships.create(
        tenant=here.workspace, custom_role=tenancy.custom_role(here.workspace, "Stopper", "job.stop-any")
    )
    return user


def closed(here: World) -> User:
    user = tenancy.platform_admin("clara")
    User.objects.filter(pk=user.pk).update(is_active=False)
    user.refresh_from_db()
    return user


ABOVE: Final[dict[str, Callable[[World], User]]] = {
    "platform admin": lambda here: here.platform_admin,
    "viewer of one workspace": lambda here: here.viewer,
    "by a group": by_group,
    "by a folder": by_folder,
    "by a custom role": by_custom_role,
    "closed": closed,
    "one point more on the platform": lambda here: with_platform_points("otis", "member.edit", "audit.view"),
}


def robot_above(here: World) -> User:
    robot = tenancy.service_account("ci", here.workspace)
    tenancy.member(robot, here.workspace, Role.ADMIN)
    return robot


@pytest.mark.parametrize("above", ABOVE)
def test_an_account_that_may_do_more_is_out_of_reach(here: World, helpdesk: User, above: str) -> None:
    target = ABOVE[above](here)
    before = User.objects.values().get(pk=target.pk)
    for service, call in RULED.items():
        if service.startswith("service_account"):
            continue
        with pytest.raises(PermissionDenied) as refused:
            call(helpdesk, target)
        assert refused.value.code == REFUSED, service
    assert User.objects.values().get(pk=target.pk) == before


def test_a_service_account_that_may_do_more_is_out_of_reach(here: World, helpdesk: User) -> None:
    robot = robot_above(here)
    for service, call in RULED.items():
        with pytest.raises(PermissionDenied) as refused:
            call(helpdesk, robot)
        assert refused.value.code == REFUSED, service


def test_an_account_that_may_do_no_more_is_within_reach(here: World, helpdesk: User) -> None:
    changed = set()
    for service, call in RULED.items():
        if service.startswith("service_account"):
            robot = tenancy.service_account("ci", here.workspace)
            tenancy.member(robot, here.workspace, Role.VIEWER)
            call(here.platform_admin, robot)
            changed.add(service)
        else:
            of = with_platform_points(f"equal-{service}", "tenant.view", "member.edit")
            for by, below in ((helpdesk, of), (here.platform_admin, helpdesk)):
                call(by, below)
                helpdesk.is_active, helpdesk.must_change_password = True, False
                helpdesk.save(update_fields=["is_active", "must_change_password"])
            changed.add(service)
    assert changed == set(RULED)


def test_keys_of_a_service_account_that_may_do_more_are_not_listed(here: World) -> None:
    keeper = tenancy.user("kim")
    role = tenancy.custom_role(here.workspace, "Keeper", "tenant.view", "member.edit")
    keeper.memberships.create(tenant=here.workspace, custom_role=role)
    above, below = robot_above(here), tenancy.service_account("small", here.workspace)
    shown, hidden = key_of(below).prefix, key_of(above).prefix
    client = APIClient()
    client.force_authenticate(keeper)

    listed = [key["prefix"] for key in client.get("/api/v1/workspaces/team-a/keys").json()["items"]]

    assert listed == [shown]
    assert client.delete(f"/api/v1/workspaces/team-a/keys/{hidden}").status_code == 404
    client.force_authenticate(here.admin)
    listed = [key["prefix"] for key in client.get("/api/v1/workspaces/team-a/keys").json()["items"]]
    assert {shown, hidden} == set(listed)


ROUTES: Final = {
    ("admin/users/{user}", "patch"): {"is_active": False},
    ("admin/users/{user}/unlock", "post"): {},
    ("admin/users/{user}/password", "post"): {"password": PASSWORD},
    ("admin/users/{user}/end-access", "post"): {},
    ("admin/users/{user}/invitation", "post"): {},
}
"""The routes that name another person's account, with a body of each."""
OTHER_ROUTES: Final = {
    ("admin/groups/{group}/people/{user}", "delete"): "covers every role of the group",
    ("tenants/{tenant}/service-accounts/{account}", "delete"): "service_account_close",
    ("workspaces/{ws}/keys/{prefix}", "delete"): "access_key_revoke",
    ("workspaces/{ws}/keys/{prefix}/rotate", "post"): "access_key_rotate",
    ("me/keys/{prefix}", "delete"): "one's own",
    ("me/keys/{prefix}/rotate", "post"): "one's own",
}


def walk(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in resolver.url_patterns:
        path = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLPattern):
            yield path, pattern.callback
        else:
            yield from walk(pattern, path)


def test_every_route_that_changes_an_account_is_named_here() -> None:
    found = {
        (path.removeprefix("api/v1/"), method)
        for path, view in walk(get_resolver())
        if path.startswith("api/v1/")
        and not path.startswith("api/v1/admin/agent-keys/")  # a node's key, no account's
        and re.search(r"\{(user|account|prefix|person|key)\}", path)
        for method in ("post", "put", "patch", "delete")
        if hasattr(view.cls, method)
    }
    assert found == {*ROUTES, *OTHER_ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_route_refuses_an_account_that_may_do_more(
    here: World, helpdesk: User, route: tuple[str, str]
) -> None:
    client = APIClient()
    client.force_authenticate(helpdesk)
    path = "/api/v1/" + route[0].format(user=here.platform_admin.pk)
    answer = getattr(client, route[1])(path, ROUTES[route], headers={"If-Match": "*"})
    assert (answer.status_code, answer.json()["code"]) == (403, REFUSED)
    previewed = getattr(client, route[1])(path + "?dry_run=true", ROUTES[route], headers={"If-Match": "*"})
    assert previewed.status_code == 403


def test_members_of_a_group_above_are_neither_added_nor_removed(here: World, helpdesk: User) -> None:
    by_group(here)
    admins = Group.unscoped.get(name="admins")
    client = APIClient()
    client.force_authenticate(helpdesk)
    people = f"/api/v1/admin/groups/{admins.pk}/people"
    assert client.post(people, {"username": "helen"}).json()["code"] == "CANNOT_GRANT"
    grace = User.objects.get(username="grace")
    assert client.delete(f"{people}/{grace.pk}").json()["code"] == "CANNOT_GRANT"


def test_the_claim_of_an_admin_group_is_given_by_platform_admins(
    here: World, helpdesk: User, settings: Any
) -> None:
    settings.ALLOTMENT_OIDC_ADMIN_GROUPS = ["platform"]
    own = group.group_create(acting_user=helpdesk, name="Helpers", claim="helpers")
    for attempt in (
        lambda: group.group_create(acting_user=helpdesk, name="Mine", claim=" platform "),
        lambda: group.group_update(acting_user=helpdesk, group=own, claim="platform"),
    ):
        with pytest.raises(PermissionDenied) as refused:
            attempt()
        assert refused.value.code == "CANNOT_GRANT"
    group.group_create(acting_user=here.platform_admin, name="Admins", claim="platform")
