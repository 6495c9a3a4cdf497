"""A new team is created as a whole or not at all, from the parent's quota, and with a preview."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from foundation.core import clock
from foundation.core.errors import AllotmentError, Invalid, NotFound, PermissionDenied, Refused
from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from quotas.models import Queue, Quota, QuotaNode
from quotas.selectors.tables.quota_table import QuotaTable
from quotas.services.queues.queue_preset import Preset
from quotas.services.queues.queue_settings import preset_of
from quotas.services.team import TeamMember, TeamPlan, TeamPool, team_create, team_preview
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.config import engine_config
from scheduling.snapshots import read_cell
from tenants.models import Member, Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db

TABLES = (Tenant, Queue, QuotaNode, Quota, Member, User, AuditRecord)


@pytest.fixture
def w() -> World:
    """Return a world whose root has sixteen GPUs left, with CPU and memory without limit."""
    made = world()
    Quota.unscoped.filter(node__tenant=tenancy.root()).delete()
    root = quotas.quota_node(made.cell, tenancy.root())
    for resource, amount in {
        Resource.GPU_CARDS: 16,
        Resource.GPU_CORES: 1600,
        Resource.GPU_MEMORY: 16 * 40960,
        Resource.CPU: None,
        Resource.MEMORY: None,
    }.items():
        quotas.quota(root, made.flavor, resource, amount)
    return made


def plan_of(w: World, **fields: Any) -> TeamPlan:
    given = {
        "parent": tenancy.root(),
        "name": "New Team",
        "members": [TeamMember("otto", "admin"), TeamMember("nora", email="nora@example.com")],
        "pools": [TeamPool(w.flavor, 4)],
        "invite": True,
        **fields,
    }
    return TeamPlan(**given)


def counts() -> list[int]:
    return [
        (model.objects if model is User else model.unscoped).count()
        for model in TABLES  # type: ignore[attr-defined]
    ]


def nominal_of(w: World, node: QuotaNode, resource: Resource) -> int | None:
    rows = QuotaTable(w.cell.pk).read_quotas([node.pk])[0].rows
    return next(row.nominal for row in rows if row.resource is resource)


def test_a_team_has_people_a_queue_and_quota_that_its_parent_had(w: World) -> None:
    pool = TeamPool(w.flavor, 4, borrowing_limit=2, lending_limit=0)
    team = team_create(acting_user=w.platform_admin, plan=plan_of(w, pools=[pool], preset=Preset.THROUGHPUT))
    assert (team.workspace.slug, team.queue.name) == ("new-team", "default")
    assert preset_of(team.queue) is Preset.THROUGHPUT
    roles = {one.user.username: one.role for one in team.members if one.user}
    assert roles == {"otto": Role.ADMIN, "nora": Role.EDITOR}
    assert [one.user.username for one in team.invitations] == ["nora"] and team.invitations[0].path
    node = QuotaNode.unscoped.get(tenant=team.workspace, is_queue=False)
    root = QuotaNode.unscoped.get(tenant=tenancy.root(), is_queue=False)
    for resource, amount in {
        Resource.GPU_CARDS: 4,
        Resource.GPU_CORES: 400,
        Resource.GPU_MEMORY: 4 * 40960,
        Resource.CPU: None,
    }.items():
        assert nominal_of(w, node, resource) == nominal_of(w, team.queue.node, resource) == amount
    own = Quota.unscoped.get(node=root, resource=Resource.GPU_CARDS)
    assert own.own_nominal == 12, "what the team has is the parent's no longer"
    limits = Quota.unscoped.get(node=node, resource=Resource.GPU_CORES)
    assert (limits.borrowing_limit, limits.lending_limit) == (200, 0)
    assert not team.pools[0].missing
    said = set(AuditRecord.unscoped.values_list("action", flat=True))
    assert {"tenant.create", "user.create", "member.set", "queue.create", "queue.preset", "quota.set"} <= said


def test_cpu_and_memory_follow_from_the_nodes_where_the_root_has_a_limit(w: World) -> None:
    root = QuotaNode.unscoped.get(tenant=tenancy.root(), is_queue=False)
    Quota.unscoped.filter(node=root, resource__in=["cpu", "memory"]).update(own_nominal=10_000_000)
    team = team_create(acting_user=w.platform_admin, plan=plan_of(w))
    assert team.pools[0].amounts[Resource.CPU] == 64_000, "a quarter of two nodes with 128 cores"
    own = TeamPool(w.flavor, 4, cpu=8_000)
    other = team_create(acting_user=w.platform_admin, plan=plan_of(w, name="Other", pools=[own], members=()))
    assert other.pools[0].amounts[Resource.CPU] == 8_000
    assert other.pools[0].amounts[Resource.MEMORY] == 524_288


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "team a"}, "name"),
        ({"slug": "kube-x"}, "slug"),
        ({"name": "研究"}, "slug"),
        ({"queue": "No Name"}, "queue"),
        ({"pools": []}, "pools"),
        ({"pools": "too many"}, "pools.0.gpus"),
        ({"pools": "twice"}, "pools.1.flavor"),
        ({"pools": "two cells"}, "pools.1.flavor"),
        ({"members": [TeamMember("otto"), TeamMember("otto")]}, "members.1.username"),
        ({"members": [TeamMember("nora", email="none")], "invite": True}, "members.0.email"),
        ({"members": [TeamMember("nora")], "invite": False}, "members.0.username"),
        ({"members": [TeamMember("otto", "king")]}, "members.0.role"),
        ({"members": [TeamMember("otto", "platform_admin")]}, "members.0.role"),
    ],
)
def test_a_mistake_is_named_by_its_field_and_leaves_nothing(w: World, change: Any, field: str) -> None:
    pools = {
        "too many": [TeamPool(w.flavor, 17)],
        "twice": [TeamPool(w.flavor, 1), TeamPool(w.flavor, 1)],
        "two cells": [TeamPool(w.flavor, 1), TeamPool(_elsewhere(), 1)],
    }
    change = {
        name: pools.get(value, value) if name == "pools" and value else value
        for name, value in change.items()
    }
    before = counts()
    for act in (team_create, team_preview):
        with pytest.raises(AllotmentError) as refused:
            act(acting_user=w.platform_admin, plan=plan_of(w, **change))
        assert field in [one.field for one in refused.value.errors]
        assert counts() == before


def _elsewhere() -> Any:
    return clusters.flavor(clusters.cluster(clusters.cell("second"), "far"), "far")


def test_all_mistakes_of_people_are_reported_at_once(w: World) -> None:
    people = [TeamMember("nobody"), TeamMember("otto", "king"), TeamMember("neither")]
    with pytest.raises(Invalid) as refused:
        team_create(acting_user=w.platform_admin, plan=plan_of(w, members=people, invite=False))
    assert [one.field for one in refused.value.errors] == [
        "members.0.username",
        "members.1.role",
        "members.2.username",
    ]


@pytest.mark.parametrize("preset", list(Preset))
@pytest.mark.parametrize(("gpus", "borrowing", "cpu", "starts"), [
    (1, 0, None, True), (0, 1, None, True), (0, 0, None, False), (4, None, 0, False), (0, None, None, True),
])  # fmt: skip
def test_a_team_that_can_start_no_job_is_refused_unless_it_is_meant(
    w: World, preset: Preset, gpus: int, borrowing: int | None, cpu: int | None, starts: bool
) -> None:
    root = QuotaNode.unscoped.get(tenant=tenancy.root(), is_queue=False)
    Quota.unscoped.filter(node=root, resource__in=["cpu", "memory"]).update(own_nominal=10_000_000)
    own = {} if cpu is None else {"cpu": cpu}
    pool = TeamPool(w.flavor, gpus, borrowing_limit=borrowing, **own)  # type: ignore[arg-type]
    plan = plan_of(w, pools=[pool], members=(), preset=preset)
    if cpu == 0:  # the team could borrow the CPU that it lacks
        Quota.unscoped.filter(resource="cpu").update(own_nominal=0)
    starts = starts and (preset is not Preset.DETERMINISTIC or gpus > 0)
    assert team_preview(acting_user=w.platform_admin, plan=plan).can_start is starts
    if starts:
        team_create(acting_user=w.platform_admin, plan=plan)
        return
    with pytest.raises(Refused) as refused:
        team_create(acting_user=w.platform_admin, plan=plan)
    assert refused.value.code == "NO_JOB_STARTS" and not Tenant.unscoped.filter(slug="new-team").exists()
    team_create(acting_user=w.platform_admin, plan=replace(plan, allow_idle=True))


def test_a_folder_admin_builds_below_the_folder_and_invites_no_user(w: World) -> None:
    labs = tenancy.folder("labs")
    lea = tenancy.user("lea", labs, Role.ADMIN)
    quotas.gpu_quota(quotas.quota_node(w.cell, labs), w.flavor, 8)
    plan = plan_of(w, parent=labs, members=[TeamMember("otto")])
    assert team_create(acting_user=lea, plan=plan).workspace.parent == labs
    with pytest.raises(NotFound):
        team_create(acting_user=lea, plan=plan_of(w, name="Above"))
    tenancy.member(lea, tenancy.root(), Role.VIEWER)
    with pytest.raises(PermissionDenied):
        team_create(acting_user=lea, plan=plan_of(w, name="Above"))
    with pytest.raises(Invalid) as refused:
        team_create(acting_user=lea, plan=replace(plan, name="Other", members=[TeamMember("nora")]))
    assert "Ask a platform admin" in refused.value.detail


def test_the_preview_reports_what_saving_does_and_writes_nothing(w: World) -> None:
    before = counts()
    preview = team_preview(acting_user=w.platform_admin, plan=plan_of(w))
    assert counts() == before
    assert preview.slug == "new-team" and preview.invited == ["nora"] and preview.can_start
    team = team_create(acting_user=w.platform_admin, plan=plan_of(w))
    assert [pool.amounts for pool in team.pools] == [pool.amounts for pool in preview.pools]


@pytest.mark.parametrize("lending", [None, 16, 8, 7, 0])
@pytest.mark.parametrize("gpus", [16, 8, 9])
def test_the_effect_is_what_the_next_cycle_does_with_the_team(
    w: World, gpus: int, lending: int | None
) -> None:
    """A job that borrows the root's GPUs starts, unless the new team keeps too many of them for itself."""
    Quota.unscoped.filter(node=w.other_queue.node).delete()
    jobs.job(w.queue, w.editor, "borrows", roles=[jobs.RoleOf(cards=8, replicas=2)])
    pool = TeamPool(w.flavor, gpus, lending_limit=lending)
    plan = plan_of(w, members=(), pools=[pool])
    effect = team_preview(acting_user=w.platform_admin, plan=plan).quota
    assert started(w) == {"borrows"}
    team_create(acting_user=w.platform_admin, plan=plan)
    lost = {"borrows"} - started(w)
    assert {job.name for job in effect.delayed.jobs} == lost
    assert not effect.started.jobs and not effect.timed_out
    assert bool(lost) == (lending is not None and 16 - gpus + lending < 8)


def started(w: World) -> set[str]:
    """Return the jobs that the next cycle starts."""
    reading = read_cell(w.cell.pk)
    taken = reading.build_snapshot()
    now = em.Instant(clock.now().timestamp())
    result = engine.run_cycle(taken.snapshot, engine_config(reading.sharing), now)
    kinds = {one.job for one in result.decisions if one.kind is em.DecisionKind.ADMIT}
    return {taken.jobs[pk].name for pk in kinds}
