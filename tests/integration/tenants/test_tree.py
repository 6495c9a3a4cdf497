"""The tenant tree: names, places of tenants, and archiving."""

from __future__ import annotations

import pytest

from foundation.core.actor import SYSTEM
from foundation.core.errors import Conflict, Invalid, NotFound, PermissionDenied
from foundation.models import AuditRecord
from quotas.models import QuotaNode
from scheduling.job_file import parse_job
from scheduling.services.jobs.job import job_submit
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import CustomRole, Member, Role, Tenant, TenantKind
from tenants.selectors.tenant import tenant_archive_preview, tenant_list, workspace_get, workspace_list
from tenants.selectors.tenant_move import tenant_move_preview
from tenants.services.member import member_set
from tenants.services.role import role_update
from tenants.services.tenant import tenant_archive, tenant_create, tenant_rename, tenant_restore
from tenants.services.tenant_move import tenant_move
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def here() -> World:
    return world()


def make(parent: Tenant, name: str, kind: TenantKind = TenantKind.FOLDER, slug: str = "") -> Tenant:
    return tenant_create(acting_user=SYSTEM, parent=parent, kind=kind, slug=slug, name=name)


def test_a_slug_is_made_from_the_name_where_none_is_given(here: World) -> None:
    made = make(tenancy.root(), "  Speech   Lab 2 ")
    assert (made.name, made.slug) == ("Speech Lab 2", "speech-lab-2")
    assert made.path == f"{tenancy.root().path}{made.pk}/"
    assert AuditRecord.unscoped.get(action="tenant.create").after["parent"] == "root"


@pytest.mark.parametrize(
    "name", ["", "   ", "...", "a/b", "a\\b", "<b>", "a\x00b", "a\u202eb", "x" * 121, "a\u200bb"]
)
def test_unreadable_names_are_refused(here: World, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        make(tenancy.root(), name, slug="fine")
    assert refused.value.errors[0].field == "name"


@pytest.mark.parametrize(
    "slug", ["Upper", "-a", "a-", "a_b", "a.b", "x" * 64, "kube-system", "default", "研究"]
)
def test_slugs_that_cannot_name_a_namespace_are_refused(here: World, slug: str) -> None:
    with pytest.raises(Invalid) as refused:
        make(tenancy.root(), "Fine", slug=slug)
    assert refused.value.errors[0].field == "slug"


@pytest.mark.parametrize(
    ("one", "two"), [("Vision", "vISION"), ("Été", "éTÉ"), ("研究", "研究"), ("A1", "Ａ1")]
)
def test_siblings_differ_in_more_than_case(here: World, one: str, two: str) -> None:
    make(tenancy.root(), one, slug="first")
    with pytest.raises(Conflict) as refused:
        make(tenancy.root(), two, slug="second")
    assert refused.value.code == "NAME_TAKEN"
    below = make(Tenant.unscoped.get(slug="first"), two, slug="second")
    assert below.name == two, "elsewhere the same name is free"


def test_a_name_may_change_its_case_and_is_noted(here: World) -> None:
    renamed = tenant_rename(acting_user=here.admin, tenant=here.workspace, name="TEAM A")
    assert (renamed.name, renamed.slug, renamed.version) == ("TEAM A", "team-a", 1)
    note = AuditRecord.unscoped.get(action="tenant.rename")
    assert (note.before, note.after) == ({"name": "Team A"}, {"name": "TEAM A"})
    with pytest.raises(Conflict):
        tenant_rename(acting_user=here.admin, tenant=here.workspace, name="team b")


def test_who_may_change_the_tree(here: World) -> None:
    folder = tenancy.folder("research")
    for user, error in (
        (here.viewer, PermissionDenied),
        (here.editor, PermissionDenied),
        (here.outsider, NotFound),
    ):
        with pytest.raises(error):
            tenant_rename(acting_user=user, tenant=here.workspace, name="Mine now")
    for user in (here.admin, here.editor):
        with pytest.raises((PermissionDenied, NotFound)):
            tenant_archive(acting_user=user, tenant=here.workspace)
        with pytest.raises((PermissionDenied, NotFound)):
            tenant_move(acting_user=user, tenant=here.workspace, parent=folder)


def test_a_folder_does_not_move_below_itself(here: World) -> None:
    upper = tenancy.folder("upper")
    lower = tenancy.folder("lower", upper)
    for parent in (upper, lower):
        with pytest.raises(Invalid) as refused:
            tenant_move(acting_user=here.platform_admin, tenant=upper, parent=parent)
        assert refused.value.errors[0].code == "cycle"
    with pytest.raises(Conflict):
        tenant_move(acting_user=here.platform_admin, tenant=tenancy.root(), parent=lower)
    with pytest.raises(Invalid):
        tenant_move(acting_user=here.platform_admin, tenant=upper, parent=here.workspace)


def test_a_move_takes_paths_rights_and_quota_nodes_along(here: World) -> None:
    folder, inner = tenancy.folder("research"), tenancy.folder("inner")
    leader = tenancy.user("lea", folder, Role.ADMIN)
    tenant_move(acting_user=here.platform_admin, tenant=here.workspace, parent=inner)
    moved = tenant_move(acting_user=here.platform_admin, tenant=inner, parent=folder)

    team = Tenant.unscoped.get(pk=here.workspace.pk)
    assert moved.path == f"{folder.path}{inner.pk}/"
    assert team.path == f"{moved.path}{team.pk}/"
    assert permissions.has_permission(leader, Permission.JOB_STOP_ANY, team)
    assert permissions.has_permission(here.admin, Permission.JOB_STOP_ANY, team), (
        "its own members keep their roles"
    )
    node = QuotaNode.unscoped.get(tenant=team, is_queue=False)
    assert node.parent is not None and node.parent.tenant == moved
    here.cell.refresh_from_db()
    assert here.cell.quota_version > 1, "the next cycle sees the new tree"


def test_who_edits_the_roles_of_the_old_folder_decides_nothing_where_a_tenant_has_gone(here: World) -> None:
    uplands, lowlands = tenancy.folder("uplands"), tenancy.folder("lowlands")
    moved = tenancy.workspace("movers", uplands)
    kept = tenancy.workspace("keepers", uplands)
    chief, friend = tenancy.user("chief", uplands, Role.ADMIN), tenancy.user("friend")
    helper = tenancy.custom_role(uplands, "Helper", "tenant.view")
    shared = tenancy.custom_role(tenancy.root(), "Shared", "tenant.view")
    tenancy.custom_role(moved, "helper", "tenant.view")
    for place in (moved, kept):
        member_set(acting_user=SYSTEM, user=friend, tenant=place, role=helper)
        member_set(acting_user=SYSTEM, user=here.viewer, tenant=place, role=shared)

    tenant_move(acting_user=here.platform_admin, tenant=moved, parent=lowlands)
    role_update(acting_user=chief, role=helper, points=[Permission.MEMBER_EDIT, Permission.JOB_VIEW])

    moved.refresh_from_db()
    assert permissions.permissions_on(friend, moved) == {Permission.TENANT_VIEW}, "as it was when it moved"
    assert permissions.permissions_on(friend, kept) == {Permission.MEMBER_EDIT, Permission.JOB_VIEW}
    assert Member.unscoped.get(user=here.viewer, tenant=moved).custom_role == shared, "it counts there still"
    own = Member.unscoped.get(user=friend, tenant=moved).custom_role
    assert own is not None and (own.tenant, own.name) == (moved, "Helper 2")
    assert AuditRecord.unscoped.get(action="role.create").after["copy_of"] == str(helper.pk)
    for role in CustomRole.unscoped.exclude(tenant=None).prefetch_related("members__tenant"):
        assert role.tenant is not None
        assert all(role.tenant.contains_tenant(each.tenant) for each in role.members.all() if each.tenant)


def test_the_preview_of_a_move_says_who_gains_and_who_loses(here: World) -> None:
    old, new = tenancy.folder("old"), tenancy.folder("new")
    tenant_move(acting_user=here.platform_admin, tenant=here.workspace, parent=old)
    team = Tenant.unscoped.select_related("parent").get(pk=here.workspace.pk)
    tenancy.user("gains", new, Role.VIEWER)
    tenancy.user("loses", old, Role.ADMIN)
    tenancy.member(here.editor, new, Role.ADMIN)
    tenancy.user("same", tenancy.root(), Role.VIEWER)
    jobs.job(here.queue, here.editor, "waits")

    preview = tenant_move_preview(viewer=here.platform_admin, tenant=team, parent=new)

    assert {(c.username, c.verdict) for c in preview.access} == {
        ("gains", "gains"),
        ("loses", "loses"),
        ("ed", "changes"),
    }
    change = next(c for c in preview.access if c.username == "ed")
    assert Permission.JOB_STOP_ANY in change.gained and not change.lost
    found = {effect.code: effect.numbers for effect in preview.effects if effect.code == "JOBS_MOVE"}
    assert found == {"JOBS_MOVE": {"running": 0, "waiting": 1}}
    cards = next(e for e in preview.effects if e.numbers.get("resource") == "gpu.cards")
    assert cards.numbers["old_parent"] == [8, 0] and cards.numbers["new_parent"] == [0, 8]
    assert Tenant.unscoped.get(pk=team.pk).parent_id == old.pk, "nothing was written"


def test_an_archived_folder_closes_what_is_below_it_and_opens_the_same_again(here: World) -> None:
    folder = tenancy.folder("research")
    team, gone = tenancy.workspace("lab", folder), tenancy.workspace("gone", folder)
    boss, editor = here.platform_admin, tenancy.user("edda", team, Role.EDITOR)
    quotas.queue(here.cell, team, [here.flavor], cards=1)
    tenant_archive(acting_user=boss, tenant=gone)
    tenant_archive(acting_user=boss, tenant=folder)

    assert "lab" not in {t.slug for t in tenant_list(viewer=boss)}
    assert {"research", "lab", "gone"} <= {t.slug for t in tenant_list(viewer=boss, archived=True)}
    assert workspace_list(viewer=editor) == []
    closed = workspace_get(viewer=editor, slug="lab")
    with pytest.raises(Conflict) as refused:
        job_submit(acting_user=editor, workspace=closed, spec=parse_job({"name": "late", "roles": [{}]}))
    assert refused.value.code == "TENANT_ARCHIVED"
    with pytest.raises(Conflict):
        tenant_restore(acting_user=boss, tenant=closed)

    tenant_restore(acting_user=boss, tenant=Tenant.unscoped.get(pk=folder.pk))
    assert [t.slug for t in workspace_list(viewer=editor)] == ["lab"]
    gone.refresh_from_db()
    assert gone.is_archived, "it was closed by itself before"


def test_a_name_is_free_while_its_bearer_is_archived(here: World) -> None:
    tenant_archive(acting_user=here.platform_admin, tenant=here.workspace)
    make(tenancy.root(), "team a", TenantKind.WORKSPACE, slug="team-new")
    with pytest.raises(Conflict) as refused:
        tenant_restore(acting_user=here.platform_admin, tenant=here.workspace)
    assert refused.value.code == "NAME_TAKEN"


def test_archiving_says_what_goes_on(here: World) -> None:
    jobs.job(here.queue, here.editor, "waits")
    found = tenant_archive_preview(viewer=here.platform_admin, tenant=here.workspace)
    assert {effect.code for effect in found} == {"QUOTA_STAYS", "JOBS_GO_ON"}
    assert all(effect.text for effect in found)
