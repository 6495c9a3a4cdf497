"""Pages of usage and prices: figures, drill-down, both languages, and nothing of other tenants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.test import Client

from scheduling.models import Allocation, Attempt, GpuRequestMode, Job, JobState
from telemetry.models import Price
from tenants.models import User
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 30, 20, 0, tzinfo=UTC)


@pytest.fixture
def here() -> Iterator[World]:
    with time_machine.travel(NOW, tick=False):
        made = world()
        for queue, user, name, hours in (
            (made.queue, made.editor, "train", 3),
            (made.queue, made.admin, "tune", 1),
            (made.other_queue, made.outsider, "elsewhere-run", 5),
        ):
            attempt = jobs.allocate(jobs.job(queue, user, name, roles=[jobs.RoleOf(cards=2)]), made.nodes[0])
            begun = {"admitted_at": NOW - timedelta(hours=hours), "ended_at": NOW}
            Attempt.unscoped.filter(pk=attempt.pk).update(**begun)
            charge = {"gpu.cards": 2, "gpu.cores": 200}
            Allocation.unscoped.filter(attempt=attempt).update(released_at=NOW, charge=charge)
        since = NOW - timedelta(days=5)
        Price.unscoped.create(flavor=made.flavor, effective_at=since, gpu_hour=Decimal("1.5"))
        yield made


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, address: str, language: str = "en") -> str:
    answer = client.get(address, HTTP_ACCEPT_LANGUAGE=language)
    assert answer.status_code == 200, answer.content[:300]
    return answer.content.decode()


def test_a_workspace_sees_its_hours_cost_and_days(here: World) -> None:
    page = text(client_of(here.viewer), "/w/team-a/usage")

    assert ">8.0 <" in page  # two GPUs for three hours and for one
    assert "12.00" in page
    assert page.count('data-label="Cost per GPU-hour">1.50<') == 3, "of each user and of all"
    Price.unscoped.update(effective_at=NOW - timedelta(hours=1))
    half = text(client_of(here.viewer), "/w/team-a/usage?by=job")
    assert half.count('data-label="Cost per GPU-hour">1.50<') == 3, "hours without a price don't lower it"
    assert "unmeasured" in page.lower()
    assert '"2026-03-30"' in page
    assert "/api/v1/workspaces/team-a/usage/export?month=2026-03" in page
    by_job = text(client_of(here.viewer), "/w/team-a/usage?by=job")
    assert ">otto<" not in page
    assert "elsewhere-run" not in by_job


def test_rows_lead_to_what_they_consist_of(here: World) -> None:
    client = client_of(here.viewer)
    page = text(client, "/w/team-a/usage")
    link = re.search(r'<a href="(\?[^"]*user=[^"]*)">ed</a>', page)
    assert link
    inner = text(client, "/w/team-a/usage" + link[1].replace("&amp;", "&"))
    assert ">train</a>" in inner
    assert "tune" not in inner
    assert "9.00" in inner
    assert "User: ed" in inner


def test_platform_admins_compare_tenants_and_tenants_see_their_own(here: World) -> None:
    page = text(client_of(here.platform_admin), "/ops/reports")
    assert here.workspace.name in page
    assert here.other_workspace.name in page
    own = text(client_of(here.viewer), "/ops/reports")
    assert f">{here.workspace.name}</a>" in own
    assert here.other_workspace.name not in own
    strange = text(client_of(here.viewer), f"/ops/reports?workspace={here.other_workspace.pk}&by=job")
    assert here.other_workspace.name not in strange
    assert "No usage in this month" in strange


def test_pages_speak_chinese(here: World) -> None:
    page = text(client_of(here.platform_admin), "/ops/reports", "zh-hans")
    assert "用量报表" in page
    assert "因抢占损失" in page
    prices = text(client_of(here.platform_admin), "/ops/prices", "zh-hans")
    assert "生效时间" in prices
    for english in ("Reserved", "Effective from", "Unmeasured"):
        assert english not in page + prices


def test_a_wrong_month_or_zone_says_so_and_shows_the_present_month(here: World) -> None:
    client = client_of(here.viewer)
    assert "Enter a month as YYYY-MM" in text(client, "/w/team-a/usage?month=2026-99")
    page = text(client, "/w/team-a/usage?time_zone=Nowhere")
    assert "Unknown time zone" in page
    assert "UTC" in page
    assert "Asia/Kathmandu" in text(client, "/w/team-a/usage?time_zone=Asia/Kathmandu")


def test_prices_are_created_and_upcoming_ones_deleted(here: World) -> None:
    client = client_of(here.platform_admin)
    later = {
        "do": "create",
        "flavor": str(here.flavor.pk),
        "gpu_hour": "2.25",
        "effective_at": "2026-04-01T00:00",
    }
    assert client.post("/ops/prices", later).status_code == 302
    page = text(client, "/ops/prices")
    assert "2.25" in page
    assert "Upcoming" in page
    past = client.post("/ops/prices", later | {"effective_at": "2026-03-01T00:00"})
    assert past.status_code == 400
    assert "Choose a time in the future" in past.content.decode()
    made = Price.unscoped.get(gpu_hour=Decimal("2.25"))
    upcoming = text(client, "/ops/prices?filterBy=state==upcoming")
    assert "2.25" in upcoming and f'value="delete {made.pk}"' in upcoming and upcoming.count("<tr id=") == 1
    asked = {"do": "delete", "item": str(made.pk), "confirmed": "1"}
    assert client.post("/ops/prices", asked).status_code == 302
    assert not Price.unscoped.filter(pk=made.pk).exists()
    old = Price.unscoped.get()
    client.post("/ops/prices", asked | {"item": str(old.pk)})
    assert Price.unscoped.filter(pk=old.pk).exists()


def test_the_page_of_an_ended_job_counts_slices_by_their_compute_and_every_run(here: World) -> None:
    role = jobs.RoleOf(cards=1, mode=GpuRequestMode.SLICE, cores=25, gpu_memory=1024)
    job = jobs.job(here.queue, here.editor, "two-runs", roles=[role])
    for hours in (2, 6):
        attempt = jobs.allocate(job, here.nodes[1])
        begun = {"admitted_at": NOW - timedelta(hours=hours), "ended_at": NOW}
        Attempt.unscoped.filter(pk=attempt.pk).update(**begun)
        charge = {"gpu.cards": 1, "gpu.cores": 25}
        Allocation.unscoped.filter(attempt=attempt).update(released_at=NOW, charge=charge)
    ended = {"state": JobState.SUCCEEDED, "started_at": NOW - timedelta(hours=2), "finished_at": NOW}
    Job.unscoped.filter(pk=job.pk).update(**ended)

    page = text(client_of(here.viewer), f"/w/team-a/jobs/{job.pk}")
    assert re.search(r"GPU-hours</\w+>\s*<\w+[^>]*>\s*2\.0", page), page[page.find("GPU-hours") :][:200]
