"""The sources of rights, and that no user grants more than they have."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from foundation.core.actor import SYSTEM
from foundation.core.errors import Conflict, Invalid, NotFound, PermissionDenied
from foundation.models import AuditRecord
from tenants.access import grants, permissions
from tenants.access.permissions import Permission
from tenants.access.rights import EffectiveRights, effective_list
from tenants.models import CustomRole, Member, Role, Tenant, User
from tenants.services.account import user_set_active
from tenants.services.group import group_add, group_create, group_delete, group_remove, group_update
from tenants.services.member import member_remove, member_set
from tenants.services.role import role_create, role_delete, role_update
from tenants.services.service_account import service_account_close, service_account_create
from tests.builders import tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
P = Permission


@pytest.fixture
def here() -> World:
    return world()


def _rights_of(user: User, here: World) -> EffectiveRights:
    """Return the rights of a user in the workspace, as its admin sees them."""
    told = effective_list(viewer=here.admin, tenant=here.workspace)
    return next(each for each in told if each.user == user)


def test_a_group_gives_its_role_to_all_in_it_and_below(here: World) -> None:
    team = tenancy.group("ml", here.outsider)
    member_set(acting_user=here.platform_admin, group=team, tenant=tenancy.root(), role=Role.VIEWER)

    assert permissions.has_permission(here.outsider, P.JOB_VIEW, here.workspace)
    rights = _rights_of(here.outsider, here)
    assert [(r.role, r.group, str(r.tenant)) for r in rights.rights] == [("viewer", "ml", "Root")]
    group_remove(acting_user=here.platform_admin, group=team, user=here.outsider)
    assert not permissions.has_permission(here.outsider, P.JOB_VIEW, here.workspace)


def test_each_permission_names_where_it_comes_from(here: World) -> None:
    tenancy.member(here.viewer, tenancy.root(), Role.EDITOR)
    found = _rights_of(here.viewer, here)

    assert [right.role for right in found.points[P.JOB_VIEW]] == ["editor", "viewer"]
    assert [str(right.tenant) for right in found.points[P.JOB_SUBMIT]] == ["Root"]


def test_the_list_of_a_workspace_counts_who_came_by_a_group_or_from_above(
    here: World, django_assert_max_num_queries: Any
) -> None:
    tenancy.group_member(tenancy.group("ml", here.outsider), tenancy.root(), Role.VIEWER)
    with django_assert_max_num_queries(5):
        names = [e.user.username for e in effective_list(viewer=here.viewer, tenant=here.workspace)]
    assert names == ["adam", "ed", "otto", "vera"]
    seen_above = effective_list(viewer=here.platform_admin, tenant=here.workspace)
    assert "root" in {e.user.username for e in seen_above}


def test_no_user_grants_what_they_do_not_have(here: World) -> None:
    steward = tenancy.user("stew", here.workspace)
    keeper = tenancy.custom_role(
        here.workspace, "Keeper", P.TENANT_VIEW, P.MEMBER_EDIT, P.JOB_VIEW, P.QUOTA_VIEW
    )
    member_set(acting_user=here.admin, user=steward, tenant=here.workspace, role=keeper)
    newcomer = tenancy.user("newcomer")

    member_set(acting_user=steward, user=newcomer, tenant=here.workspace, role=Role.VIEWER)
    with pytest.raises(PermissionDenied) as refused:
        member_set(acting_user=steward, user=steward, tenant=here.workspace, role=Role.ADMIN)
    assert refused.value.code == "CANNOT_GRANT" and "job.submit" in refused.value.numbers["points"]
    with pytest.raises(PermissionDenied):
        member_remove(acting_user=steward, member=Member.unscoped.get(user=here.admin))
    with pytest.raises(PermissionDenied):
        member_set(acting_user=steward, user=here.admin, tenant=here.workspace, role=Role.VIEWER)
    with pytest.raises(PermissionDenied):
        role_create(acting_user=steward, tenant=here.workspace, name="Better", points=[P.JOB_SUBMIT])
    with pytest.raises(PermissionDenied):
        role_update(acting_user=steward, role=keeper, points=[*map(P, keeper.points), P.JOB_SUBMIT])


def test_an_admin_of_a_team_has_no_power_beside_it_or_above(here: World) -> None:
    with pytest.raises(NotFound):
        member_set(acting_user=here.admin, user=here.admin, tenant=here.other_workspace, role=Role.VIEWER)
    for tenant in (tenancy.root(), None):
        role = Role.ADMIN if tenant else Role.PLATFORM_ADMIN
        with pytest.raises((NotFound, PermissionDenied)):
            member_set(acting_user=here.admin, user=here.admin, tenant=tenant, role=role)


def test_a_custom_role_counts_in_its_own_subtree_only(here: World) -> None:
    role = role_create(
        acting_user=here.admin, tenant=here.workspace, name="Starter", points=[P.TENANT_VIEW, P.JOB_SUBMIT]
    )
    member_set(acting_user=here.admin, user=here.outsider, tenant=here.workspace, role=role)

    assert permissions.permissions_on(here.outsider, here.workspace) == {P.TENANT_VIEW, P.JOB_SUBMIT}
    for place in (here.other_workspace, tenancy.root(), None):
        with pytest.raises(Invalid):
            member_set(acting_user=SYSTEM, user=here.viewer, tenant=place, role=role)
    with pytest.raises(Conflict) as used:
        role_delete(acting_user=here.admin, role=role)
    assert (used.value.code, used.value.numbers) == ("ROLE_IN_USE", {"members": 1})
    role_update(acting_user=here.admin, role=role, points=[P.TENANT_VIEW])
    assert permissions.permissions_on(here.outsider, here.workspace) == {P.TENANT_VIEW}
    member_remove(
        acting_user=here.admin, member=Member.unscoped.get(user=here.outsider, tenant=here.workspace)
    )
    role_delete(acting_user=here.admin, role=role)
    assert not CustomRole.unscoped.exists()


@pytest.mark.parametrize(
    ("name", "points", "field"),
    [
        ("Empty", [], "points"),
        ("Cluster", [P.CLUSTER_EDIT], "points"),
        ("ADMIN", [P.JOB_VIEW], "name"),
        ("a/b", [P.JOB_VIEW], "name"),
        ("x" * 61, [P.JOB_VIEW], "name"),
    ],
)
def test_roles_that_make_no_sense_are_refused(here: World, name: str, points: list[P], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        role_create(acting_user=SYSTEM, tenant=here.workspace, name=name, points=points)
    assert refused.value.errors[0].field == field


def test_role_names_are_unique_where_they_count(here: World) -> None:
    role_create(acting_user=SYSTEM, tenant=here.workspace, name="Helper", points=[P.JOB_VIEW])
    role_create(acting_user=SYSTEM, tenant=here.other_workspace, name="Helper", points=[P.JOB_VIEW])
    role_create(acting_user=SYSTEM, tenant=None, name="Helper", points=[P.CLUSTER_VIEW])
    for tenant in (here.workspace, None):
        with pytest.raises(Conflict):
            role_create(acting_user=SYSTEM, tenant=tenant, name="HELPER", points=[P.JOB_VIEW])


def test_the_last_admin_of_the_platform_stays(here: World) -> None:
    def last() -> Member:
        return Member.unscoped.get(user=here.platform_admin)

    attempts = (
        lambda: member_remove(acting_user=here.platform_admin, member=last()),
        lambda: member_set(acting_user=SYSTEM, user=here.platform_admin, tenant=None, role=Role.AUDITOR),
        lambda: user_set_active(acting_user=SYSTEM, user=here.platform_admin, active=False),
    )
    for attempt in attempts:
        with pytest.raises(Conflict) as refused:
            attempt()
        assert refused.value.code == "LAST_PLATFORM_ADMIN"
    assert last().role == Role.PLATFORM_ADMIN

    crew = group_create(acting_user=here.platform_admin, name="Crew")
    group_add(acting_user=here.platform_admin, group=crew, user=here.editor)
    member_set(acting_user=here.platform_admin, group=crew, tenant=None, role=Role.PLATFORM_ADMIN)
    member_remove(acting_user=here.platform_admin, member=last())
    for attempt in (
        lambda: group_remove(acting_user=here.editor, group=crew, user=here.editor),
        lambda: group_delete(acting_user=here.editor, group=crew),
    ):
        with pytest.raises(Conflict):
            attempt()


def test_groups_of_the_identity_provider_are_filled_there_only(here: World) -> None:
    boss = here.platform_admin
    outside = group_create(acting_user=boss, name="ML", claim="ml-engineers")
    with pytest.raises(Conflict) as refused:
        group_add(acting_user=boss, group=outside, user=here.editor)
    assert refused.value.code == "GROUP_IS_EXTERNAL"
    with pytest.raises(Conflict):
        group_create(acting_user=boss, name="Other", claim="ml-engineers")
    assert group_update(acting_user=boss, group=outside, claim="").claim is None
    for user in (here.admin, here.editor):
        with pytest.raises(PermissionDenied):
            group_create(acting_user=user, name="Mine")


def test_a_service_account_gets_roles_at_home_only(here: World) -> None:
    robot = service_account_create(acting_user=here.admin, tenant=here.workspace, name="ci")
    assert robot.username == "ci@team-a" and not robot.has_usable_password()
    member_set(acting_user=here.admin, user=robot, tenant=here.workspace, role=Role.EDITOR)
    for place in (here.other_workspace, tenancy.root()):
        with pytest.raises(Invalid):
            member_set(acting_user=SYSTEM, user=robot, tenant=place, role=Role.EDITOR)
    with pytest.raises(Conflict):
        service_account_create(acting_user=here.admin, tenant=here.workspace, name="ci")
    with pytest.raises(NotFound):
        service_account_create(acting_user=here.outsider, tenant=here.workspace, name="spy")

    service_account_close(acting_user=here.admin, account=robot)
    robot.refresh_from_db()
    assert not robot.is_active and not Member.unscoped.filter(user=robot).exists()


def test_grants_are_read_once_per_request(here: World, django_assert_num_queries: Any) -> None:
    with grants.remember_grants():
        with django_assert_num_queries(1):
            for tenant in (here.workspace, here.other_workspace, None):
                for point in P:
                    permissions.has_permission(here.editor, point, tenant)
        tenancy.member(here.editor, here.other_workspace, Role.VIEWER)
        assert permissions.has_permission(here.editor, P.JOB_VIEW, here.other_workspace), (
            "a write is seen at once"
        )
    with django_assert_num_queries(2):
        permissions.has_permission(here.editor, P.JOB_VIEW, here.workspace)
        permissions.has_permission(here.editor, P.JOB_VIEW, here.workspace)


def test_what_an_undone_transaction_granted_is_not_remembered(here: World) -> None:
    with grants.remember_grants():
        assert not permissions.has_permission(here.editor, P.JOB_VIEW, here.other_workspace)
        with transaction.atomic():
            tenancy.member(here.editor, here.other_workspace, Role.VIEWER)
            assert permissions.has_permission(here.editor, P.JOB_VIEW, here.other_workspace)
            transaction.set_rollback(True)
        assert not permissions.has_permission(here.editor, P.JOB_VIEW, here.other_workspace)


def test_changes_of_members_are_noted(here: World) -> None:
    member_set(acting_user=here.admin, user=here.viewer, tenant=here.workspace, role=Role.EDITOR)
    note = AuditRecord.unscoped.get(action="member.set")
    assert (note.before, note.after) == (
        {"user": "vera", "role": "viewer"},
        {"user": "vera", "role": "editor"},
    )
    assert Tenant.unscoped.get(pk=note.tenant_id) == here.workspace
