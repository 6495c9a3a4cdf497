"""The preemptions of a month: counted once, with their cost and the preemptors that a reader may see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from re import findall, sub

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.models import Device
from foundation.core.months import CORE_MS_PER_GPU_HOUR
from quotas.models import Queue
from scheduling.metering.record_usage import record_usage
from scheduling.models import (
    Allocation,
    Attempt,
    Decision,
    DecisionKind,
    DeviceSlice,
    Job,
    JobEvent,
    UsageInterval,
)
from telemetry.usage.preemptions import PreemptedBy, preemption_report
from telemetry.usage.report import report_period
from tenants.access.permissions import Permission
from tenants.models import Member, User
from tests.builders import jobs, tenancy
from tests.builders.world import World, world
from tests.truth.pages.reading import PageText

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def preempt(
    made: World, job: Job, *, hours: float, rule: str, by: Job | None, at: datetime = NOW - timedelta(days=1)
) -> Attempt:
    """Record a run of two GPUs that ended early at a moment."""
    begun = at - timedelta(hours=hours)
    with time_machine.travel(begun, tick=False):
        attempt = jobs.allocate(job, made.nodes[0])
    attempt.started_at, attempt.ended_at, attempt.end_reason = begun, at, rule
    attempt.save()
    Allocation.unscoped.filter(attempt=attempt).update(released_at=at, removed_at=at)
    DeviceSlice.unscoped.filter(allocation__attempt=attempt).update(released=True)
    Device.unscoped.update(cores_granted=0, memory_granted=0, holders=0)
    with time_machine.travel(at, tick=False):
        Decision.unscoped.create(
            cell=made.cell, job=job, cycle=1, epoch=1, kind=DecisionKind.EVICT, code=rule, beneficiary=by
        )
    JobEvent.unscoped.create(job=job, at=at, code="evicting", numbers={"rule": rule})
    JobEvent.unscoped.create(job=job, at=at, code="requeued", numbers={"rule": rule})
    return attempt


def two_gpus(queue: Queue, user: User, name: str) -> Job:
    return jobs.job(queue, user, name, roles=[jobs.RoleOf(cards=2)])


@pytest.fixture
def made() -> World:
    """Return preemptions by the own workspace, another and a deleted job; one last month, one lost node."""
    found = world()
    victim = two_gpus(found.queue, found.editor, "victim")
    own = two_gpus(found.queue, found.editor, "own")
    other = two_gpus(found.other_queue, found.outsider, "other")
    preempt(found, victim, hours=5, rule="FAIR_SHARE", by=own, at=NOW - timedelta(days=30))
    preempt(found, victim, hours=5, rule="NODE_LOST", by=None, at=NOW - timedelta(days=6))
    preempt(found, victim, hours=2, rule="FAIR_SHARE", by=None, at=NOW - timedelta(days=5))
    preempt(found, victim, hours=1, rule="RECLAIM_NOMINAL", by=other, at=NOW - timedelta(days=4))
    preempt(found, victim, hours=1, rule="RECLAIM_NOMINAL", by=other, at=NOW - timedelta(days=3))
    preempt(found, victim, hours=3, rule="IN_QUEUE_PRIORITY", by=own)
    return found


def read(made: World, viewer: User) -> list[tuple[str, PreemptedBy, str, int, float]]:
    period = report_period("2026-11", "UTC", now=NOW)
    return [
        (row.rule, row.by, row.tenant.slug if row.tenant else "", row.count, row.lost / CORE_MS_PER_GPU_HOUR)
        for row in preemption_report(viewer, period, tenant=made.workspace).rows
    ]


def test_a_member_reads_what_was_lost_and_no_name_of_another_tenant(made: World) -> None:
    assert read(made, made.editor) == [
        ("IN_QUEUE_PRIORITY", PreemptedBy.OWN, "", 1, 6.0),
        ("RECLAIM_NOMINAL", PreemptedBy.OTHER, "", 2, 4.0),
        ("FAIR_SHARE", PreemptedBy.UNKNOWN, "", 1, 4.0),
    ]


def test_a_platform_admin_reads_who_it_was(made: World) -> None:
    slug = made.other_workspace.slug
    assert ("RECLAIM_NOMINAL", PreemptedBy.TENANT, slug, 2, 4.0) in read(made, made.platform_admin)
    period = report_period("2026-10", "UTC", now=NOW)
    (row,) = preemption_report(made.platform_admin, period).rows
    assert (row.workspace, row.count, row.lost) == (made.workspace, 1, 10 * CORE_MS_PER_GPU_HOUR)


def test_work_before_the_last_checkpoint_is_not_lost(made: World) -> None:
    Job.unscoped.update(checkpoint_interval_s=2 * 3600)
    lost = {rule: hours for rule, _, _, _, hours in read(made, made.editor)}
    assert lost == {"IN_QUEUE_PRIORITY": 2.0, "RECLAIM_NOMINAL": 4.0, "FAIR_SHARE": 0.0}


def test_runs_that_are_written_down_cost_what_was_written(made: World) -> None:
    """Later changes of a job do not change the report."""
    before = read(made, made.editor)
    unwritten = Attempt.unscoped.filter(end_reason="IN_QUEUE_PRIORITY")
    assert record_usage(now=NOW) == 6
    unwritten.update(metered_at=None)
    UsageInterval.unscoped.filter(attempt_id__in=unwritten.values("pk")).delete()
    Job.unscoped.update(checkpoint_interval_s=2 * 3600)
    after = read(made, made.editor)
    assert before[0] == ("IN_QUEUE_PRIORITY", PreemptedBy.OWN, "", 1, 6.0)
    assert [row for row in after if row[0] == "IN_QUEUE_PRIORITY"] == [(*before[0][:4], 2.0)]
    assert [row for row in after if row[0] != "IN_QUEUE_PRIORITY"] == before[1:]


def test_the_timeline_of_the_job_says_what_each_preemption_cost(made: World, client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        client.force_login(made.editor)
        victim = Job.unscoped.get(name="victim")
        address = f"/w/{made.workspace.slug}/jobs/{victim.pk}?tab=timeline"
        page = client.get(address).content.decode()
    # Newest first; a lost node is no preemption, whatever it cost.
    assert findall("GPU-hours lost: ([0-9.]+)", page) == ["6.0", "2.0", "2.0", "4.0", "10.0"]


def test_pages_and_answers_say_the_same_and_the_job_leads_there(made: World, client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        client.force_login(made.editor)
        ws = made.workspace.slug
        html = client.get(f"/w/{ws}/usage/preemptions").content.decode()
        assert "Another tenant" in html
        assert made.other_workspace.name not in html
        found = client.get(f"/api/v1/workspaces/{ws}/usage/preemptions").json()
        assert (found["preemptions"], found["lost_gpu_hours"]) == (4, 14.0)
        assert {row["by_tenant"] for row in found["rows"]} == {None}
        victim = Job.unscoped.get(name="victim")
        assert f"/w/{ws}/usage/preemptions" in client.get(f"/w/{ws}/jobs/{victim.pk}").content.decode()
        client.force_login(made.platform_admin)
        everywhere = client.get("/ops/reports/preemptions").content.decode()
        assert made.other_workspace.name in everywhere
        assert client.get("/api/v1/admin/usage/preemptions").json()["preemptions"] == 4


def read_timeline(made: World, viewer: User, client: Client) -> str:
    victim = Job.unscoped.get(name="victim")
    with time_machine.travel(NOW, tick=False):
        client.force_login(viewer)
        answer = client.get(f"/w/{made.workspace.slug}/jobs/{victim.pk}?tab=timeline")
    return sub(r"<[^>]+>", "", answer.content.decode())


def test_the_timeline_names_who_preempted_as_far_as_its_reader_may_see(made: World, client: Client) -> None:
    reclaimed, queued = "that its owner reclaimed", "Preempted by a job ahead of it in the same queue"
    shown = read_timeline(made, made.editor, client)
    assert shown.count(f"{reclaimed} (for another tenant)") == 2
    assert f"{queued} (for own of Team A)" in shown
    assert made.other_workspace.name not in shown
    assert f"{reclaimed} (for other of Team B)" in read_timeline(made, made.platform_admin, client)
    # A reader who sees the other workspace without its jobs reads its name.
    role = tenancy.custom_role(tenancy.root(), "neighbor", Permission.TENANT_VIEW)
    Member.unscoped.create(user=made.editor, tenant=made.other_workspace, role="", custom_role=role)
    assert f"{reclaimed} (for Team B)" in read_timeline(made, made.editor, client)


def test_the_timeline_says_since_when_work_is_lost(made: World, client: Client) -> None:
    assert "lost: 2.0 since the start (11-16 11:00); no checkpoint" in read_timeline(
        made, made.editor, client
    )
    Job.unscoped.update(checkpoint_interval_s=2 * 3600)
    shown = read_timeline(made, made.editor, client)
    assert "lost: 2.0 since the last checkpoint (11-19 11:00, by the declared interval)" in shown


def test_losses_are_summed_by_user(made: World, client: Client) -> None:
    mate = two_gpus(made.queue, made.admin, "mate")
    preempt(made, mate, hours=1, rule="RECLAIM_NOMINAL", by=None)
    with time_machine.travel(NOW, tick=False):
        client.force_login(made.editor)
        ws = made.workspace.slug
        found = client.get(f"/api/v1/workspaces/{ws}/usage/preemptions").json()
        html = client.get(f"/w/{ws}/usage/preemptions").content.decode()
    assert found["users"] == [
        {"user": "ed", "preemptions": 4, "lost_gpu_hours": 14.0},
        {"user": "adam", "preemptions": 1, "lost_gpu_hours": 2.0},
    ]
    assert sum(row["lost_gpu_hours"] for row in found["users"]) == found["lost_gpu_hours"]
    lines = PageText(html).lines("User", "GPU-hours lost")
    assert [tuple(line.cells.values()) for line in lines] == [("ed", "4", "14.0"), ("adam", "1", "2.0")]


def test_the_runs_of_a_few_workspaces_are_asked_for_by_their_ids(made: World) -> None:
    """PostgreSQL can estimate the jobs of a workspace from its id, and not from a subquery."""
    with CaptureQueriesContext(connection) as asked:
        preemption_report(made.viewer, report_period("", "", now=NOW), tenant=made.workspace)
    (runs,) = [one["sql"] for one in asked if "end_reason" in one["sql"] and "username" in one["sql"]]
    assert "tenants_tenant" not in runs
