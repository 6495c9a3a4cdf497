"""The page of a queue: pending jobs in the order of the engine, jobs that hold quota, and the quota."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
import time_machine
import yaml
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from quotas.models import Queue
from quotas.selectors.queues.queue_flavors import prefetch_flavors, queue_flavor_names
from quotas.services.queues.queue_settings import SETTINGS
from scheduling.models import Allocation, Attempt, Job, JobState, UserUsage
from tenants.models import Member
from tests.builders import clusters, jobs, tenancy
from tests.builders.predictions import prediction
from tests.builders.world import World, world

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
PLACE = "/ops/queues/team-a/default"
OWN_PLACE = "/w/team-a/queues/default"


@pytest.fixture
def w(db: None) -> World:
    with time_machine.travel(NOW, tick=False):
        return world()


def read_rows(client: Client, card: str, address: str = PLACE) -> list[list[str]]:
    """The cells of the table of a card, as text."""
    with time_machine.travel(NOW, tick=False):
        page = client.get(address)
    assert page.status_code == 200
    table = page.content.decode().partition(f'id="{card}"')[2].partition("</section>")[0]
    body = table.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[" ".join(unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in row] for row in rows]


@pytest.fixture
def viewer(client: Client, w: World) -> Client:
    client.force_login(w.viewer)
    return client


def test_pending_jobs_are_in_the_order_of_the_engine(viewer: Client, w: World) -> None:
    at = NOW - timedelta(minutes=30)
    with time_machine.travel(at, tick=False):
        busy = jobs.job(w.queue, w.editor, "of-busy-user", priority=jobs.priority_class("high", 100))
        idle = jobs.job(w.queue, w.admin, "of-idle-user", reason="NO_ROOM")
    UserUsage.unscoped.create(queue=w.queue, user=w.editor, at=NOW, consumed={"gpu.cores": 50.0})
    made = prediction(idle, NOW)
    assert made.low_s and made.high_s
    ends = [f"{NOW + timedelta(seconds=bound):%H:%M}" for bound in (made.low_s, made.high_s)]

    first, second = read_rows(viewer, "queue-pending")

    assert first[:6] == ["1", "of-idle-user", "adam", "normal", "1 × GPU", "11:30 30 min"]
    assert first[7] == " – ".join(ends)
    assert second[:4] == ["2", "of-busy-user", "ed", "high"]
    assert second[7] == "No estimate yet"
    Queue.unscoped.filter(pk=w.queue.pk).update(user_shares=False)
    assert [row[1] for row in read_rows(viewer, "queue-pending")] == [busy.name, idle.name]


def test_pages_of_pending_jobs_go_on_where_the_last_one_ended(viewer: Client, w: World) -> None:
    with time_machine.travel(NOW, tick=False):
        for number in range(12):
            jobs.job(
                w.queue, w.editor, f"waits-{number:02}", submitted_at=NOW + timedelta(seconds=number - 40)
            )
    rows = read_rows(viewer, "queue-pending", f"{PLACE}?page=2")
    assert [row[:2] for row in rows] == [["11", "waits-10"], ["12", "waits-11"]]
    page = viewer.get(f"{PLACE}?page=2").content.decode()
    assert f'data-live="{PLACE}/live?page=2"' in page, "the page that is shown refreshes itself"


def test_admitted_jobs_show_their_gpus_and_what_they_borrow(viewer: Client, w: World) -> None:
    with time_machine.travel(NOW, tick=False):
        made = jobs.job(w.queue, w.editor, "holds", roles=[jobs.RoleOf(replicas=2, cards=2)], min_run_s=3600)
        jobs.allocate(made, w.nodes[0])
    Job.unscoped.filter(pk=made.pk).update(started_at=NOW - timedelta(minutes=20))
    Allocation.unscoped.update(charge={"gpu.cores": 200, "gpu.cards": 2})
    Attempt.unscoped.update(borrowed={f"{w.flavor.pk}/gpu.cores": 100})

    [row] = read_rows(viewer, "queue-admitted")

    assert row == ["holds", "ed", "Running", "normal", "4", "1", "12:00", "20 min", "Yes", "12:40"]
    assert read_rows(viewer, "queue-pending") == []


def test_the_quota_is_that_of_the_quota_page(viewer: Client, w: World) -> None:
    row = next(row for row in read_rows(viewer, "queue-quota") if row[1] == "Compute GPUs")
    assert (row[0], row[3], row[6], row[7], row[8]) == (w.flavor.name, "8", "0", "0", "–")
    quotas = viewer.get("/w/team-a/quota").content.decode()
    of_queue = quotas.partition(f"quota-{w.flavor.pk}-{w.queue.node_id}")[2].partition("</tr>")[0]
    numbers = re.findall(r'<td class="num[^"]*" data-label="([^"]+)">([^<]*)</td>', of_queue)
    assert dict(numbers)["Nominal quota"] == row[3]
    assert dict(numbers)["Borrowing limit"] == row[4]


def test_who_may_not_see_jobs_sees_the_quota_alone(client: Client, w: World) -> None:
    jobs.job(w.queue, w.editor, "secret-name")
    role = tenancy.custom_role(w.workspace, "quota readers", "quota.view", "tenant.view")
    reader = tenancy.user("quinn")
    Member.unscoped.create(user=reader, tenant=w.workspace, custom_role=role)
    client.force_login(reader)
    for address in (PLACE, f"{PLACE}/live"):
        page = client.get(address).content.decode()
        assert 'id="queue-quota"' in page
        assert "secret-name" not in page
        assert 'id="queue-pending"' not in page


def test_the_page_asks_as_often_for_many_jobs_as_for_few(viewer: Client, w: World) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert viewer.get(f"{PLACE}/live").status_code == 200
        return len(seen)

    def add(number: int) -> None:
        jobs.job(w.queue, w.editor, f"waits-{number}")
        jobs.allocate(jobs.job(w.queue, w.editor, f"holds-{number}", state=JobState.QUEUED), w.nodes[0])

    UserUsage.unscoped.create(queue=w.queue, user=w.editor, at=clock.now(), consumed={"gpu.cores": 50.0})
    add(0)
    count_queries()
    few = count_queries()
    for number in range(1, 7):
        add(number)
    assert count_queries() == few
    assert few <= 45


def test_pools_are_chosen_in_their_order(client: Client, w: World) -> None:
    clusters.flavor(w.cluster, "h100")
    client.force_login(w.admin)
    form = {name: getattr(w.queue, name) or "" for name in SETTINGS} | {"version": w.queue.version}
    answer = client.post(PLACE, form | {"flavors": ["h100", "", "a100"]}, follow=True)
    assert "Settings saved" in answer.content.decode()
    found = Queue.unscoped.prefetch_related(prefetch_flavors()).get(pk=w.queue.pk)
    assert queue_flavor_names(found) == ["h100", "a100"]
    page = answer.content.decode()
    chosen = re.findall(r'<option value="([^"]*)" selected>', page.partition('class="ordered-selects"')[2])[
        :2
    ]
    assert chosen == ["h100", "a100"]
    none = client.post(PLACE, form | {"version": found.version, "flavors": ["", ""]})
    assert none.status_code == 400


def test_settings_are_written_as_yaml(viewer: Client, w: World) -> None:
    page = viewer.get(PLACE).content.decode()
    written = page.partition('id="queue-settings"')[2].partition(">")[2].partition("</pre>")[0]
    read = yaml.safe_load(unescape(written))
    assert read["flavors"] == ["a100"]
    assert {name: read[name] for name in SETTINGS} == {name: getattr(w.queue, name) for name in SETTINGS}


def test_a_queue_has_the_same_page_within_its_workspace(client: Client, w: World) -> None:
    with time_machine.travel(NOW, tick=False):
        jobs.job(w.queue, w.editor, "waits")
        running = jobs.job(w.queue, w.editor, "runs")
        jobs.allocate(running, w.nodes[0])
    client.force_login(w.viewer)
    overview = client.get("/w/team-a/overview").content.decode()
    assert f'href="{OWN_PLACE}"' in overview.partition('id="queues"')[2]
    assert f'href="{OWN_PLACE}"' in client.get(f"/w/team-a/jobs/{running.pk}").content.decode()
    for card in ("queue-pending", "queue-admitted", "queue-quota"):
        assert read_rows(client, card, OWN_PLACE) == read_rows(client, card) != []
    page = client.get(OWN_PLACE).content.decode()
    assert "/ops/queues" not in page, "a tenant stays within the workspace"
    assert f'data-live="{OWN_PLACE}/live"' in page and f"{OWN_PLACE}/charts/rates?" in page
    assert re.search(r'href="/w/team-a/queues"[^>]*aria-current="page"', page), "highlighted in the side bar"


def test_changes_within_the_workspace_lead_back_there(client: Client, w: World) -> None:
    client.force_login(w.admin)
    assert f'hx-post="{OWN_PLACE}/check"' in client.get(OWN_PLACE).content.decode()
    changed = client.post(OWN_PLACE, {"do": "rename", "name": "night", "version": w.queue.version})
    assert changed["Location"] == "/w/team-a/queues/night"
    w.queue.refresh_from_db()
    gone = client.post(changed["Location"], {"do": "delete", "version": w.queue.version})
    assert gone["Location"] == "/w/team-a/queues"
    form = {"name": "second", "flavors": "a100", "preset": "balanced"}
    opened = client.get("/w/team-a/queues?edit=new").content.decode()
    assert '<input type="hidden" name="workspace" value="team-a"' in opened
    elsewhere = client.post("/w/team-a/queues", form | {"workspace": "team-b"})
    assert elsewhere.status_code == 400 and not Queue.unscoped.filter(name="second").exists()
    made = client.post("/w/team-a/queues", form | {"workspace": "team-a"})
    assert made["Location"] == "/w/team-a/queues/second"


def test_the_list_of_a_workspace_has_its_own_queues_alone(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    page = client.get("/w/team-a/queues").content.decode()
    assert f'href="{OWN_PLACE}"' in page and "/w/team-b/" not in page.partition("<main")[2]
    assert "?edit=new" in page
    client.force_login(w.viewer)
    assert "?edit=new" not in client.get("/w/team-a/queues").content.decode()
    assert client.get("/w/team-a/queues?edit=new").status_code == 403
    for address in ("/w/team-b/queues", f"/w/team-b/queues/{w.other_queue.name}"):
        assert client.get(address).status_code == 404
