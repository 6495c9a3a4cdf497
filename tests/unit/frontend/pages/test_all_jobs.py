"""The list of jobs of all workspaces: contents by viewer, filters, pages, actions and links to it."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.models import Node
from foundation.core import clock
from quotas.models import Queue
from scheduling.models import Allocation, Attempt, Job, JobState
from scheduling.selectors.jobs.job import job_by_keys
from tenants.models import Member, Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

ALL: Final = "/ops/jobs"
BATCH: Final = f"{ALL}/batch"
QUERIES: Final = 30
"""The most queries of any page of the list."""
UNCOUNTED: Final = dict.fromkeys(("All", "Succeeded", "Failed", "Canceled", "Deleted"))
"""States whose jobs of one cluster or pool are not counted."""


@dataclass(frozen=True, slots=True)
class Folders:
    """A folder with a folder and a workspace below it, and another folder beside it with its workspace."""

    vision: Tenant
    deep: Tenant
    team: Tenant
    other: Tenant
    other_team: Tenant
    queue: Queue
    other_queue: Queue
    lead: User
    """An admin of `vision`."""


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def f(w: World) -> Folders:
    vision, other = tenancy.folder("vision"), tenancy.folder("speech")
    deep = tenancy.folder("vision-deep", vision)
    team, other_team = tenancy.workspace("segment", deep), tenancy.workspace("asr", other)
    return Folders(
        vision=vision,
        deep=deep,
        team=team,
        other=other,
        other_team=other_team,
        queue=quotas.queue(w.cell, team, [w.flavor], cards=4),
        other_queue=quotas.queue(w.cell, other_team, [w.flavor], cards=4),
        lead=tenancy.user("lea", vision, Role.ADMIN),
    )


def names(text: str) -> list[str]:
    """Return the names of the jobs in the table, in its order."""
    return re.findall(r'data-column="name"[^>]*><a href="/w/[\w-]+/jobs/[0-9a-f-]+">([^<]+)</a>', text)


def chips(text: str) -> dict[str, int | None]:
    """Return the states to choose from, and the number of jobs in each; None where the page has no number."""
    (row,) = re.findall(r'<nav class="chips" aria-label="Status">(.*?)</nav>', text, re.DOTALL)
    found = re.findall(r">\s*([A-Z][a-z]+)\s*(?:<span class=\"count\">(\d+)</span>)?\s*</a>", row)
    return {label: int(count) if count else None for label, count in found}


def listed(client: Client, query: str = "") -> list[str]:
    """Return the names of jobs, which the page, its rows alone and the file must agree on."""
    found = names(page(client, f"{ALL}?{query}"))
    assert names(page(client, f"{ALL}?part=rows&{query}")) == found
    file = client.get(f"{ALL}?format=csv&{query}").content.decode("utf-8-sig")
    assert [row["Name"] for row in csv.DictReader(io.StringIO(file))] == found
    return found


def ended(queue: Queue, user: User, name: str) -> Job:
    return jobs.job(queue, user, name, state=JobState.SUCCEEDED, finished_at=clock.now())


def run_to_end(job: Job, node: Node) -> None:
    attempt = jobs.allocate(job, node)
    Attempt.unscoped.filter(pk=attempt.pk).update(ended_at=clock.now())
    Allocation.unscoped.filter(attempt=attempt).update(released_at=clock.now())


def test_pending_and_running_jobs_of_all_users_come_first_the_newest_on_top(client: Client, w: World) -> None:
    now = clock.now()
    jobs.job(w.queue, w.editor, "older", submitted_at=now - timedelta(hours=2))
    jobs.allocate(jobs.job(w.other_queue, w.outsider, "runs", submitted_at=now), w.nodes[0])
    jobs.job(w.queue, w.editor, "parked", state=JobState.SUSPENDED)
    ended(w.queue, w.editor, "done")
    client.force_login(w.platform_admin)
    assert listed(client) == ["runs", "older"]
    assert set(listed(client, "state=all")) == {"older", "runs", "parked", "done"}
    assert listed(client, "state=waiting") == ["older"]
    assert listed(client, "state=nonsense") == ["runs", "older"]
    assert listed(client, "state=deleted") == []
    text = page(client, ALL)
    counts = chips(text)
    assert (counts["Active"], counts["All"], counts["Pending"], counts["Running"]) == (2, 4, 1, 1)
    assert "Clear filters" not in text and "Show all jobs" not in text
    assert "Show all jobs" in page(client, f"{ALL}?state=waiting")
    assert '/w/team-b/jobs"' in text and "Team A" in text, "each row names its workspace"


def test_a_list_of_a_platform_without_jobs_names_the_next_step(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    text = page(client, ALL)
    assert "No jobs yet" in text and 'class="button primary" href="/ops/tenants"' in text
    Queue.unscoped.update(closed_at=clock.now())
    text = page(client, ALL)
    assert "Create a team" in text and 'class="button primary" href="/ops/teams/new"' in text


@pytest.mark.django_db
def test_a_list_of_a_platform_without_a_cluster_leads_to_adding_one(client: Client) -> None:
    client.force_login(tenancy.platform_admin())
    assert 'class="button primary" href="/ops/clusters/new"' in page(client, ALL)
    auditor = tenancy.user("reader")
    role = tenancy.custom_role(None, "reads jobs", "job.view", "cluster.view", "tenant.view")
    Member.unscoped.create(user=auditor, tenant=None, custom_role=role)
    client.force_login(auditor)
    assert "/ops/clusters/new" not in page(client, ALL)


def test_a_list_without_active_jobs_leads_to_the_others(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    ended(w.queue, w.editor, "done")
    text = page(client, ALL)
    assert "No pending or running jobs" in text and 'href="/ops/jobs?state=all"' in text
    assert "done" in page(client, f"{ALL}?state=all")
    assert "No matching jobs" in page(client, f"{ALL}?q=x")


def test_a_folder_admin_sees_the_jobs_of_that_folder_alone(client: Client, w: World, f: Folders) -> None:
    jobs.job(f.queue, w.editor, "mine")
    theirs = jobs.job(f.other_queue, w.outsider, "whisper", submitted_at=clock.now() - timedelta(days=1))
    jobs.allocate(jobs.job(w.queue, w.editor, "secret", tags=["covert"]), w.nodes[0])
    ended(f.other_queue, w.outsider, "elapsed")
    client.force_login(f.lead)
    for query in ("", "state=all", "q=", f"show={theirs.pk}", "sort=name", "tenant=vision"):
        assert listed(client, query) == ["mine"], query
    text = page(client, f"{ALL}?state=all&show={theirs.pk}")
    assert 'id="list-panel"' not in text
    assert set(re.findall(r'<span class="count">(\d+)</span>', text)) <= {"0", "1"}
    for hidden in ("whisper", "secret", "covert", "elapsed", "asr", "Asr", "team-a", w.outsider.username):
        assert hidden not in text, hidden
    # The answer is the same for an invisible tenant, one above the own folder and one that does not exist.
    for slug in ("speech", "asr", "root", "team-a", "nonsense"):
        assert listed(client, f"state=all&tenant={slug}") == [], slug
    for query in (
        "q=whisper",
        "filterBy=workspace==asr",
        "filterBy=submitted_by==otto",
        "filterBy=name=@cret",
    ):
        assert listed(client, f"state=all&{query}") == [], query


def test_jobs_are_read_by_key_for_users_who_may_see_them(w: World, f: Folders) -> None:
    inside, outside = jobs.job(f.queue, w.editor, "inside"), jobs.job(f.other_queue, w.editor, "outside")
    found = job_by_keys(viewer=f.lead, keys=[inside.pk, outside.pk])
    assert [job.name for job in found] == ["inside"]
    assert [role.job for role in found[0].roles.all()] == found
    assert len(job_by_keys(viewer=w.platform_admin, keys=[inside.pk, outside.pk])) == 2
    assert job_by_keys(viewer=w.platform_admin, keys=[]) == []


def test_members_of_workspaces_alone_are_refused(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "waits")
    auditor = tenancy.user("audrey", None, Role.AUDITOR)
    for user in (w.viewer, w.editor, w.admin, w.outsider, auditor, tenancy.user("nobody")):
        client.force_login(user)
        for query in ("", "?part=rows", "?format=csv", f"?show={job.pk}"):
            assert "waits" not in page(client, f"{ALL}{query}", 403)
        asked = {"do": "cancel", "item": str(job.pk), "confirmed": "1"}
        assert client.post(BATCH, asked).status_code == 403
        assert 'href="/ops/jobs"' not in page(client, "/ops/tenants")
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_a_viewer_of_a_folder_has_a_way_to_the_list_and_no_actions(
    client: Client, w: World, f: Folders
) -> None:
    job = jobs.job(f.queue, w.editor, "waits")
    client.force_login(tenancy.user("vic", f.vision, Role.VIEWER))
    assert 'href="/ops/jobs"' in page(client, f"/w/{f.team.slug}/jobs?who=all"), "the operators' side"
    text = page(client, ALL)
    assert names(text) == ["waits"] and 'id="batch-jobs"' not in text
    assert f"cancel-{job.pk}" not in text and 'name="item"' not in text
    assert 'aria-current="page"' in text and 'href="/ops/clusters"' not in text


def test_the_list_is_narrowed_by_tenant_with_all_below_it(client: Client, w: World, f: Folders) -> None:
    for queue, name in ((f.queue, "deep"), (f.other_queue, "beside"), (w.queue, "top")):
        jobs.job(queue, w.editor, name)
    client.force_login(w.platform_admin)
    cases = {
        "vision": {"deep"},
        "vision-deep": {"deep"},
        "segment": {"deep"},
        "speech": {"beside"},
        "root": {"deep", "beside", "top"},
        "nonsense": set(),
        "visio": set(),
    }
    for slug, found in cases.items():
        assert set(listed(client, f"tenant={slug}")) == found, slug
    assert listed(client, "filterBy=workspace==asr") == ["beside"]
    assert set(listed(client, "filterBy=workspace!=asr")) == {"deep", "top"}
    assert listed(client, "filterBy=queue==default&tenant=speech") == ["beside"]
    assert listed(client, "filterBy=submitted_by==nobody") == []
    assert 'value="vision"' in page(client, f"{ALL}?tenant=vision")


def test_clusters_and_pools_are_those_of_the_latest_attempt_or_of_the_queue(
    client: Client, w: World, f: Folders
) -> None:
    far = clusters.cluster(w.cell, "far")
    pool = clusters.flavor(far, "h100")
    (node,) = clusters.nodes(pool, 1, prefix="far")
    queue = quotas.queue(w.cell, f.other_team, [pool], name="big", cards=4)
    jobs.job(queue, w.editor, "pends-far")
    jobs.job(f.queue, w.editor, "pends-near")
    jobs.allocate(jobs.job(queue, w.editor, "runs-far"), node)
    left = jobs.job(f.queue, w.editor, "left-near")
    jobs.allocate(left, w.nodes[0])
    Job.unscoped.filter(pk=left.pk).update(state=JobState.FAILED, finished_at=clock.now())
    client.force_login(w.platform_admin)
    assert set(listed(client, "state=all&cluster=far")) == {"pends-far", "runs-far"}
    assert set(listed(client, "state=all&cluster=sim")) == {"pends-near", "left-near"}
    assert set(listed(client, "state=all&pool=h100")) == {"pends-far", "runs-far"}
    assert listed(client, "state=all&pool=h100&cluster=sim") == listed(client, "cluster=none") == []
    assert chips(page(client, f"{ALL}?cluster=far")) == {"Active": 2, "Pending": 1, "Running": 1, **UNCOUNTED}
    assert chips(page(client, f"{ALL}?pool=a100")) == {"Active": 1, "Pending": 1, "Running": 0, **UNCOUNTED}
    assert listed(client, "state=failed&cluster=sim") == ["left-near"]
    assert listed(client, "state=failed&cluster=far") == []
    text = page(client, f"{ALL}?state=all&sort=name")
    shown = [re.sub(r"<.*?>", "", cell) for cell in re.findall(r'<td [^>]*"cluster"[^>]*>(.*?)</td>', text)]
    assert dict(zip(names(text), shown, strict=True)) == {
        "left-near": "sim",
        "pends-far": "–",
        "pends-near": "–",
        "runs-far": "far",
    }
    assert "<option>far</option>" in text and "<option>h100</option>" in text
    client.force_login(f.lead)
    assert "far" not in page(client, f"{ALL}?state=all"), "no queue in sight uses that pool"


def test_pages_from_both_ends_hold_every_job_once(client: Client, w: World, f: Folders) -> None:
    now = clock.now()
    made = [
        jobs.job(queue, w.editor, f"job-{n:02}", submitted_at=now - timedelta(minutes=n // 2))
        for n, queue in enumerate([w.queue, w.other_queue, f.queue, f.other_queue] * 12)
    ]
    client.force_login(w.platform_admin)
    expected = sorted(made, key=lambda job: (job.submitted_at, job.pk), reverse=True)
    found = [
        name for number in range(1, 6) for name in names(page(client, f"{ALL}?pageSize=10&page={number}"))
    ]
    assert found == [job.name for job in expected] and len(found) == 48
    assert names(page(client, f"{ALL}?pageSize=10&page=99")) == found[40:]
    assert "page 5 of 5" in page(client, f"{ALL}?pageSize=10&page=99")
    rising = [
        n for number in (1, 2, 3) for n in names(page(client, f"{ALL}?pageSize=20&sort=name&page={number}"))
    ]
    assert rising == sorted(found)


def test_actions_on_several_jobs_follow_the_rights_in_the_workspace_of_each(
    client: Client, w: World, f: Folders
) -> None:
    tenancy.member(f.lead, f.other, Role.VIEWER)
    own, theirs = jobs.job(f.queue, w.editor, "own"), jobs.job(f.other_queue, w.outsider, "theirs")
    hidden = jobs.job(w.queue, w.editor, "whisper")
    client.force_login(f.lead)
    text = page(client, ALL)
    assert names(text) == ["theirs", "own"]
    assert f'name="item" value="{own.pk}"' in text and f'name="item" value="{theirs.pk}"' not in text
    assert f'data-dialog-open="cancel-{own.pk}"' in text and f"cancel-{theirs.pk}" not in text
    asked = {
        "do": "cancel",
        "item": [str(job.pk) for job in (own, theirs, hidden)],
        "next": f"{ALL}?state=all",
    }
    question = client.post(BATCH, asked).content.decode()
    assert question.count('name="item"') == 2 and "whisper" not in question
    assert "segment/own" in question and "asr/theirs" in question, "names are the same in many workspaces"
    text = client.post(BATCH, asked | {"confirmed": "1"}).content.decode()
    assert "Done for 1 of 2" in text and "doesn&#x27;t allow this action" in text and "whisper" not in text
    states = dict(Job.unscoped.values_list("name", "state"))
    assert states == {"own": JobState.CANCELLED, "theirs": JobState.QUEUED, "whisper": JobState.QUEUED}
    done = client.post(BATCH, {"one": f"delete {own.pk}", "confirmed": "1", "next": f"{ALL}?state=all"})
    assert done["Location"] == f"{ALL}?state=all"
    assert listed(client, "state=all") == ["theirs"] and listed(client, "state=deleted") == ["own"]
    assert client.post(BATCH, {"do": "cancel", "next": "//evil.example"})["Location"] == ALL


def test_the_menu_of_a_row_acts_in_its_workspace_and_returns_to_the_list(client: Client, w: World) -> None:
    job = jobs.job(w.other_queue, w.outsider, "waits")
    client.force_login(w.platform_admin)
    text = page(client, f"{ALL}?q=wai")
    assert f'href="/w/team-b/jobs/new?from={job.pk}"' in text
    assert f'data-dialog-open="cancel-{job.pk}" data-row="{job.pk}"' in text
    dialogs = page(client, f"{ALL}?q=wai&part=dialogs&row={job.pk}")
    assert f'action="/w/team-b/jobs/{job.pk}/cancel"' in dialogs
    assert f'name="next" value="{ALL}?q=wai"' in dialogs
    panel = page(client, f"{ALL}?show={job.pk}").partition('id="list-panel"')[2]
    assert f"/w/team-b/jobs/{job.pk}" in panel and "Team B" in panel
    answer = client.post(f"/w/team-b/jobs/{job.pk}/cancel", {"next": f"{ALL}?q=wai"})
    assert answer["Location"] == f"{ALL}?q=wai"


def test_a_page_costs_the_same_whatever_the_number_of_jobs_and_workspaces(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)

    def fill(start: int, stop: int) -> int:
        for n in range(start, stop):
            queue = quotas.queue(w.cell, tenancy.workspace(f"space-{n}"), [w.flavor], cards=1)
            jobs.job(queue, w.editor)
            jobs.allocate(jobs.job(queue, w.editor), w.nodes[n % 2])
        page(client, ALL)
        with CaptureQueriesContext(connection) as captured:
            assert len(names(page(client, ALL))) == 2 * stop
        return len(captured)

    few = fill(0, 2)
    assert few <= QUERIES and fill(2, 8) == few


@pytest.mark.parametrize(
    ("query", "looked_up"),
    [
        ("gpu_model=A100-40G", r"^SELECT \S*job_id\S*.* FROM \S*scheduling_jobrole\S* .*gpu_models"),
        ("filterBy=submitted_by==ed", r"^SELECT .* FROM \S*tenants_user\S* .*username\S* = "),
        ("filterBy=tags=@night", r"^SELECT .* FROM \S*scheduling_jobtag\S* .*name"),
    ],
)
@pytest.mark.parametrize("in_workspace", [False, True])
def test_what_a_filter_names_is_looked_up_once(
    client: Client, w: World, query: str, looked_up: str, in_workspace: bool
) -> None:
    """The rows, their number and the chips of states need it."""
    jobs.job(w.queue, w.editor, "alpha")
    client.force_login(w.platform_admin)
    address = f"/w/{w.workspace.slug}/jobs?who=all&" if in_workspace else f"{ALL}?"
    with CaptureQueriesContext(connection) as asked:
        page(client, f"{address}{query}")
    found = [one["sql"] for one in asked if re.search(looked_up, one["sql"], re.DOTALL)]
    assert len([sql for sql in found if "GROUP BY" not in sql]) == 1, found


def test_pickers_offer_the_tenants_in_sight_alone(client: Client, w: World, f: Folders) -> None:
    def offered(text: str) -> dict[str, str]:
        answer = client.get("/tenant-names", {"q": text}).json()
        return {item["value"]: item["note"] for item in answer["items"]}

    client.force_login(f.lead)
    assert offered("s") == {"Segment": "segment", "Vision": "vision", "Vision Deep": "vision-deep"}
    assert offered("asr") == offered("root") == {} and offered("\x00") == {**offered("")}
    client.force_login(w.platform_admin)
    assert {"asr", "speech"} <= set(offered("").values())


def test_a_tenant_is_filtered_by_its_name_and_a_name_of_two_by_their_ids(
    client: Client, w: World, f: Folders
) -> None:
    jobs.job(f.queue, w.editor, "waits")
    client.force_login(w.platform_admin)
    for text in ("segment", "Segment", "sEGMENT"):
        shown = page(client, f"{ALL}?tenant={text}")
        assert names(shown) == ["waits"] and 'name="tenant" value="Segment"' in shown
    assert names(page(client, f"{ALL}?tenant=Asr")) == [] != names(page(client, f"{ALL}?tenant=Vision"))
    Tenant.unscoped.filter(slug="asr").update(name="Segment")
    assert 'name="tenant" value="segment"' in page(client, f"{ALL}?tenant=segment")
    answer = client.get("/tenant-names", {"q": "Segment"}).json()
    assert {item["value"] for item in answer["items"]} == {"segment", "asr"}


def test_pages_that_count_jobs_lead_to_them(client: Client, w: World, f: Folders) -> None:
    jobs.job(f.queue, w.editor, "waits", reason="WAITING_FOR_QUOTA")
    client.force_login(w.platform_admin)
    text = page(client, "/ops/overview")
    for address in (
        f"{ALL}?state=waiting",
        f"{ALL}?state=waiting&amp;tenant=segment",
        f"{ALL}?state=waiting&amp;filterBy=reason%3D%3DWAITING_FOR_QUOTA",
    ):
        assert f'href="{address}"' in text, address
        assert names(page(client, address.replace("&amp;", "&"))) == ["waits"]
    assert f'href="{ALL}?tenant=vision"' in page(client, f"/ops/tenants/{f.vision.pk}")
    assert f'href="{ALL}?state=all&amp;q=wait"' not in page(client, "/search?q=nothing")
    jobs.job(w.queue, w.editor, "waits-too")
    assert f'href="{ALL}?state=all&amp;q=wait"' in page(client, "/search?q=wait")
    # A user without a role above workspaces is led to the list of the workspace.
    client.force_login(w.admin)
    text = page(client, f"/ops/tenants/{w.workspace.pk}")
    assert f"{ALL}" not in text and 'href="/w/team-a/jobs"' in text


def test_hostile_texts_are_shown_as_they_are(client: Client, w: World) -> None:
    w.workspace.name = '<script>alert("x")</script>'
    w.workspace.save()
    jobs.job(w.queue, w.editor, "waits")
    client.force_login(w.platform_admin)
    text = page(client, ALL)
    assert '<script>alert("x")' not in text and "&lt;script&gt;alert" in text
    for value in ("%", "_", "'", '"><i>', "\\", "%00", "名", "a" * 300):
        for parameter in ("q", "tenant", "cluster", "pool", "gpu_model", "state", "sort", "page"):
            assert "><i>" not in page(client, f"{ALL}?{parameter}={value}")
    file = client.get(f"{ALL}?format=csv").content.decode("utf-8-sig")
    assert '"<script>alert(""x"")</script>"' in file
    w.workspace.name = "=1+1"
    w.workspace.save()
    assert ",=1+1" not in client.get(f"{ALL}?format=csv").content.decode("utf-8-sig")


@pytest.mark.parametrize("few", [0, 2_000])
def test_pages_of_uncounted_jobs_say_whether_another_follows(
    client: Client, w: World, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("scheduling.selectors.jobs.job_sight._FEW", few)
    now, near = clock.now(), clusters.nodes(w.flavor, 3, prefix="near")
    (far,) = clusters.nodes(clusters.flavor(clusters.cluster(w.cell, "far"), "h100"), 1, prefix="far")
    for number in range(21):
        one = jobs.job(w.queue, w.editor, f"ran-{number:02}", submitted_at=now - timedelta(hours=number))
        for node in (far, near[0]) if number == 20 else (near[number % 3],):
            run_to_end(one, node)
    moved = jobs.job(w.queue, w.editor, "moved")
    for node in (near[1], far):
        run_to_end(moved, node)
    Job.unscoped.update(state=JobState.SUCCEEDED, finished_at=now)
    client.force_login(w.platform_admin)
    address = f"{ALL}?state=succeeded&cluster=sim&pageSize=10"
    seen = []
    for number, turns in ((1, {"next"}), (2, {"prev", "next"}), (3, {"prev"})):
        text = page(client, f"{address}&page={number}")
        assert set(re.findall(r'rel="(next|prev)"', text)) == turns
        assert f"<span>Page {number}</span>" in text
        seen += names(text)
    assert seen == [f"ran-{number:02}" for number in range(21)]
    for beyond in ("4", "0", "-1", "x", "2.5"):
        assert names(page(client, f"{address}&page={beyond}")) == seen[:10], beyond
