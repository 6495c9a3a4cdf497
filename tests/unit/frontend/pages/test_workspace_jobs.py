"""The overview, the list of jobs and a job's page: their contents by viewer, and their cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import translation
from django.utils.html import conditional_escape

from clusters.models import GpuMode
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from frontend.pages.charts.definitions import JOB
from frontend.pages.jobs.events import event_rows
from frontend.pages.jobs.job_tabs import JobTab
from frontend.pages.jobs.pending.pending_reasons import list_checks
from frontend.pages.jobs.resources import job_cost, job_holding
from frontend.texts.reasons import reason_sentence
from quotas.models import Queue, QueueFlavor
from quotas.models.queue import PreemptOthers, Strategy
from scheduling.engine.model import EvictRule
from scheduling.models import (
    WAITING_STATES,
    Allocation,
    Attempt,
    Claim,
    GpuRequestMode,
    Job,
    JobEvent,
    JobState,
)
from scheduling.selectors.allocations.job_holds import sum_job_holds
from scheduling.selectors.jobs.task import job_tasks
from tenants.access.permissions import Permission
from tenants.models import Member, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

QUERIES = {"overview": 46, "jobs": 28, "job": 32, "live": 24}


@pytest.fixture
def w(db: None) -> World:
    return world()


def cost(act: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured)


def waiting(w: World, name: str = "waits", **fields: Any) -> Job:
    numbers = {"flavor": "a100", "resource": "gpu.cards", "asked": 9, "available": 2}
    fields.setdefault("reason_help", [{"code": "ASK_FEWER_CARDS", "numbers": {"cards": 2}}])
    return jobs.job(w.queue, w.editor, name, reason="WAITING_FOR_QUOTA", reason_numbers=numbers, **fields)


def running(w: World, name: str = "runs") -> Job:
    job = jobs.job(w.queue, w.editor, name)
    jobs.allocate(job, w.nodes[0])
    Job.unscoped.filter(pk=job.pk).update(started_at=clock.now())
    return job


def test_the_overview_counts_what_waits_and_runs(client: Client, w: World) -> None:
    waiting(w)
    running(w)
    jobs.job(w.queue, w.editor, "broke", state=JobState.FAILED, finished_at=clock.now())
    client.force_login(w.viewer)
    text = page(client, "/w/team-a/overview")
    for part in ("waits", "runs", "broke", "of 8"):
        assert part in text
    assert "Submit job" not in text, "a viewer may not submit"


def test_an_empty_workspace_says_what_to_do(client: Client, w: World) -> None:
    client.force_login(w.editor)
    assert "The form checks whether it can start" in page(client, "/w/team-a/jobs")
    client.force_login(w.viewer)
    assert "Editors can submit jobs" in page(client, "/w/team-a/jobs")


def test_the_list_is_narrowed_by_its_address(client: Client, w: World) -> None:
    waiting(w, "alpha")
    running(w, "beta")
    jobs.job(w.queue, w.admin, "gamma", state=JobState.SUCCEEDED, finished_at=clock.now())
    client.force_login(w.editor)
    cases = {
        "?who=": {"alpha", "beta", "gamma"},
        "?state=waiting": {"alpha"},
        "?state=running": {"beta"},
        "?who=mine": {"alpha", "beta"},
        "?q=amm": {"gamma"},
        "?queue=default&sort=name": {"alpha", "beta", "gamma"},
        "?queue=none": set(),
        "?sort=nonsense&page=99": {"alpha", "beta", "gamma"},
    }
    for query, names in cases.items():
        for address in (f"/w/team-a/jobs{query}", f"/w/team-a/jobs?part=rows&{query[1:]}"):
            text = page(client, address)
            assert {name for name in ("alpha", "beta", "gamma") if f">{name}</a>" in text} == names, query


def test_another_tenants_pages_do_not_exist(client: Client, w: World) -> None:
    job = waiting(w)
    client.force_login(w.outsider)
    for rest in (
        "overview",
        "overview/live",
        "jobs",
        "jobs?part=rows",
        "jobs/new",
        f"jobs/{job.pk}",
        *(f"jobs/{job.pk}{part}?tab={tab}" for tab in JobTab for part in ("", "/live")),
    ):
        page(client, f"/w/team-a/{rest}", 404)
    # The job exists, but not in the outsider's own workspace.
    page(client, f"/w/team-b/jobs/{job.pk}", 404)
    page(client, f"/w/team-b/jobs/{job.pk}/charts/utilisation", 404)
    for act in ("cancel", "suspend", "resume"):
        assert client.post(f"/w/team-a/jobs/{job.pk}/{act}").status_code == 404
        assert client.post(f"/w/team-b/jobs/{job.pk}/{act}").status_code == 404
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_metrics_of_gpus_are_those_of_jobs_with_whole_gpus(client: Client, w: World) -> None:
    whole = running(w)
    part = jobs.job(w.queue, w.editor, "part", roles=[jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30)])
    jobs.allocate(part, w.nodes[1])
    client.force_login(w.viewer)
    keys = [chart.key for chart in JOB if chart.measures]
    assert {
        "temperature",
        "power",
        "clocks",
        "engines",
        "activity",
        "pipes",
        "links",
        "reasons",
        "energy",
    } == set(keys)
    shown, other = (page(client, f"/w/team-a/jobs/{job.pk}?tab=metrics") for job in (whole, part))
    for key in keys:
        address = f"/w/team-a/jobs/{whole.pk}/charts/{key}"
        assert (address in shown, f"charts/{key}" in other) == (True, False)
        assert "no data" in client.get(address).json()["summary"].lower()


def test_a_viewer_looks_but_does_not_touch(client: Client, w: World) -> None:
    job = waiting(w)
    client.force_login(w.viewer)
    assert f'data-dialog-open="cancel-{job.pk}"' not in page(client, f"/w/team-a/jobs/{job.pk}")
    assert client.post(f"/w/team-a/jobs/{job.pk}/cancel").status_code == 403
    page(client, "/w/team-a/jobs/new", 403)


def test_an_editor_ends_own_jobs_only(client: Client, w: World) -> None:
    own, others = waiting(w, "own"), jobs.job(w.queue, w.admin, "others")
    client.force_login(w.editor)
    answer = client.post(f"/w/team-a/jobs/{own.pk}/cancel", {"next": "/w/team-a/jobs?who=mine"})
    assert answer["Location"] == "/w/team-a/jobs?who=mine"
    assert client.post(f"/w/team-a/jobs/{others.pk}/cancel").status_code == 403
    own.refresh_from_db()
    assert own.state == JobState.CANCELLED

    # A second press: the job has ended meanwhile, which the page reports in place.
    answer = client.post(f"/w/team-a/jobs/{own.pk}/cancel", {"next": "https://elsewhere.example/"})
    assert answer["Location"] == f"/w/team-a/jobs/{own.pk}"
    assert "has already finished" in page(client, f"/w/team-a/jobs/{own.pk}")


def test_suspend_and_resume(client: Client, w: World) -> None:
    job = waiting(w)
    client.force_login(w.editor)
    client.post(f"/w/team-a/jobs/{job.pk}/suspend")
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    assert "Status details" in text
    assert f'data-dialog-open="resume-{job.pk}"' in text
    client.post(f"/w/team-a/jobs/{job.pk}/resume")
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_a_waiting_job_says_why_and_what_would_help(client: Client, w: World) -> None:
    job = waiting(w)
    client.force_login(w.editor)
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    assert "Pending reason" in text
    assert "Quota of default" in text
    assert "Requests <b>9 GPUs</b> of <b>a100</b>; <b>2 GPUs</b> available." in text
    assert "Reduce GPUs per task to at most <b>2</b>." in text
    assert f"/w/team-a/jobs/new?from={job.pk}" in text


def _reader_of_jobs(w: World) -> User:
    role = tenancy.custom_role(tenancy.root(), "reader", Permission.TENANT_VIEW, Permission.JOB_VIEW)
    reader = tenancy.user("rita")
    Member.unscoped.create(user=reader, tenant=w.workspace, role="", custom_role=role)
    return reader


def test_jobs_without_quota_are_there_for_who_may_view_jobs_alone(client: Client, w: World) -> None:
    job = waiting(w, reason_help=[{"code": "ASK_FEWER_CARDS", "numbers": {"cards": 2}}])
    client.force_login(_reader_of_jobs(w))
    for address in ("jobs", "jobs?part=rows", "overview"):
        assert f"/w/team-a/jobs/{job.pk}" in page(client, f"/w/team-a/{address}")
    overview = page(client, "/w/team-a/overview")
    assert "Quota usage" not in overview and "Nominal GPUs" not in overview
    Job.unscoped.filter(pk=job.pk).update(reason=Reason.WAITING_FOR_BORROWED, reason_numbers={})
    assert "nominal used" not in page(client, f"/w/team-a/jobs/{job.pk}")
    client.force_login(w.viewer)
    assert "nominal used" in page(client, f"/w/team-a/jobs/{job.pk}")


def test_recommendations_have_buttons_for_who_may_submit_jobs(client: Client, w: World) -> None:
    job = waiting(w)
    for reader, shown in ((w.editor, True), (w.viewer, False), (_reader_of_jobs(w), False)):
        client.force_login(reader)
        text = page(client, f"/w/team-a/jobs/{job.pk}")
        assert "Reduce GPUs per task" in text
        assert ("Try this change" in text) is shown


def test_quota_of_pools_that_the_queue_does_not_use_is_no_part_of_the_reason(w: World) -> None:
    other = clusters.flavor(w.cluster, "h100", card_model="H100")
    quotas.gpu_quota(quotas.quota_node(w.cell, tenancy.root()), other, 16)
    job = jobs.job(w.queue, w.editor, reason=Reason.WAITING_FOR_BORROWED)
    texts = " ".join(check.text for check in list_checks(w.editor, job))
    assert "a100: " in texts and "h100" not in texts


def test_unlimited_quota_beside_a_reason_has_no_sum_and_pools_are_joined_as_the_language_does(
    w: World,
) -> None:
    other = clusters.flavor(w.cluster, "h100", card_model="H100")
    for node in (quotas.quota_node(w.cell, tenancy.root()), w.queue.node.parent, w.queue.node):
        for resource in (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY):
            quotas.quota(node, other, resource, None)
    QueueFlavor.unscoped.create(queue=w.queue, flavor=other, position=1)
    job = jobs.job(w.queue, w.editor, reason=Reason.WAITING_FOR_BORROWED)
    for language, text, between in (
        ("en", "h100: 0 GPUs used; nominal quota unlimited (now)", "; "),
        ("zh-hans", "h100：已用 0 张 GPU；保障配额不限（当前）", "；"),
    ):
        with translation.override(language):
            texts = " ".join(check.text for check in list_checks(w.editor, job))
        assert text in texts and f"{between}h100" in texts


def test_the_quota_beside_a_reason_is_that_of_its_scheduling_cycle(w: World) -> None:
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(cards=8)], reason=Reason.WAITING_FOR_BORROWED)
    job.reason_numbers = {
        "flavor": "a100", "resource": "gpu.cards", "asked": 8, "used": 5, "nominal": 8, "own_free": 3,
        "borrowable": 2, "available": 5,
    }  # fmt: skip
    texts = [check.text for check in list_checks(w.editor, job)]
    assert (
        "a100: 5 GPUs of 8 GPUs nominal used; available: 3 GPUs nominal + 2 GPUs to borrow = 5 GPUs" in texts
    )
    # Without a nominal amount no sum is shown, however little a node above leaves.
    unlimited = jobs.job(w.queue, w.editor, "unlimited", reason=Reason.WAITING_FOR_BORROWED)
    unlimited.reason_numbers = job.reason_numbers | {"nominal": None, "own_free": None, "available": 3}
    for borrowable in (0, 3):
        unlimited.reason_numbers["borrowable"] = borrowable
        texts = [check.text for check in list_checks(w.editor, unlimited)]
        assert "a100: 5 GPUs used; nominal quota unlimited; available: 3 GPUs" in texts
    # Numbers of another pool or resource say nothing about this one.
    for other in ({"flavor": "h100"}, {"resource": "gpu.memory"}):
        seen = jobs.job(w.queue, w.editor, f"of-{next(iter(other))[:4]}", reason=Reason.WAITING_FOR_BORROWED)
        seen.reason_numbers = job.reason_numbers | other
        texts = [check.text for check in list_checks(w.editor, seen)]
        assert any(text.startswith("a100: 0 GPUs of 8 GPUs nominal used") for text in texts)


def test_quota_that_is_lent_is_named_so_that_the_sum_adds_up(client: Client, w: World) -> None:
    for resource, each in ((Resource.GPU_CARDS, 1), (Resource.GPU_CORES, 100)):
        quotas.reserve(w.queue, w.flavor, resource, 2 * each)
        quotas.reserve(w.other_queue, w.flavor, resource, 13 * each)
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(cards=8)], reason=Reason.WAITING_FOR_BORROWED)
    quota = "2 GPUs of 8 GPUs nominal used, 5 GPUs lent to other queues and reclaimable; available: 1 GPU"
    assert any(f"a100: {quota} nominal" in check.text for check in list_checks(w.editor, job))
    client.force_login(w.editor)
    answer = client.post("/w/team-a/jobs/new/check", {"yaml": "roles: [{resources: {gpu: {cards: 1}}}]"})
    assert quota in answer.content.decode()
    job.queue.reclaim = PreemptOthers.NEVER
    assert any("5 GPUs lent to other queues; available" in check.text for check in list_checks(w.editor, job))


@pytest.mark.parametrize(
    ("after", "room", "preemption"),
    [
        ({"also": "NO_ROOM"}, (False, "With enough quota: Insufficient"), (None, "Evaluated after")),
        ({"starts": 1}, (True, "With enough quota: Available"), (True, "With enough quota: Not required")),
        ({}, (None, "Evaluated after"), (None, "Evaluated after")),
    ],
)
def test_room_on_nodes_is_shown_for_a_job_that_lacks_quota(
    w: World, after: dict[str, Any], room: tuple[bool | None, str], preemption: tuple[bool | None, str]
) -> None:
    job = waiting(w, reason_at=datetime(2026, 3, 2, 8, 30, 5, tzinfo=UTC))
    numbers = {"flavor": "a100", "resource": "gpu.cards", "short": 7, **after}
    job.reason_help = [{"code": "RAISE_QUOTA", "numbers": numbers}]
    checks = {check.title: check for check in list_checks(w.editor, job)}
    for title, (passed, text) in (("Node resources", room), ("Preemption", preemption)):
        assert (checks[title].passed, checks[title].text.startswith(text)) == (passed, True)
        assert ("08:30:05" in checks[title].text) is (passed is not None)


def test_the_quota_beside_a_reason_says_when_it_was_so(w: World) -> None:
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(cards=8)], reason=Reason.WAITING_FOR_BORROWED)
    assert any(check.text.endswith("(now)") for check in list_checks(w.editor, job))
    job.reason_numbers = {
        "flavor": "a100", "resource": "gpu.cards", "asked": 8, "used": 5, "nominal": 8, "own_free": 3,
        "borrowable": 2, "available": 5,
    }  # fmt: skip
    job.reason_at = datetime(2026, 3, 2, 8, 30, 5, tzinfo=UTC)
    texts = [conditional_escape(check.text) for check in list_checks(w.editor, job)]
    assert any("= 5 GPUs (at <time" in text and "08:30:05</time>)" in text for text in texts)


def test_compute_of_one_gpu_is_singular(w: World) -> None:
    slices = [jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=25)]
    job = jobs.job(w.queue, w.editor, roles=slices, reason=Reason.WAITING_FOR_BORROWED)
    job.reason_numbers = {
        "flavor": "a100", "resource": "gpu.cores", "asked": 25, "used": 100, "nominal": 100, "own_free": 0,
        "borrowable": 50, "available": 50,
    }  # fmt: skip
    w.flavor.gpu_mode = GpuMode.SLICE
    w.flavor.save()
    texts = [check.text for check in list_checks(w.editor, job)]
    assert (
        "a100: 1 GPU of 1 GPU nominal used; available: 0 GPUs nominal + 0.50 GPUs to borrow = 0.50 GPUs"
    ) in texts


@pytest.mark.parametrize("reason", list(Reason))
def test_the_sentence_of_every_reason_is_on_the_page_of_a_waiting_job(w: World, reason: Reason) -> None:
    job = jobs.job(w.queue, w.editor)
    job.reason = reason
    texts = [check.text for check in list_checks(w.editor, job)]
    assert reason_sentence(reason, {}) in texts


def test_a_cluster_that_does_not_decide_is_named_on_the_page_of_its_job(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor)
    numbers = {"cluster": "kueue-1", "scheduler_error": "timed out"}
    job.reason, job.reason_numbers = Reason.PENDING_EVALUATION, numbers
    job.save()
    client.force_login(w.editor)
    page = re.sub(r"</?b>", "", unescape(client.get(f"/w/{w.workspace.slug}/jobs/{job.pk}").content.decode()))
    assert "Scheduled by kueue-1, which isn't responding: timed out" in page


def test_the_place_in_line_says_whether_others_may_come_first(client: Client, w: World) -> None:
    first, high = jobs.job(w.queue, w.editor, "first"), jobs.priority_class("high", 10)
    job = waiting(w, submitted_at=first.submitted_at + timedelta(seconds=5))
    jobs.job(w.queue, w.editor, "urgent", priority=high, roles=[jobs.RoleOf(cards=4)])
    jobs.job(w.queue, w.editor, "later", submitted_at=job.submitted_at + timedelta(seconds=5))
    client.force_login(w.viewer)
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    # The job with the higher priority and the earlier job are ahead, with 4 GPUs and 1.
    assert "<b>3 of 4</b> in default" in text
    assert "GPUs requested ahead of this job: 5." in text
    assert "Jobs behind can start first" in text
    Queue.unscoped.filter(pk=w.queue.pk).update(strategy=Strategy.STRICT)
    strict = page(client, f"/w/team-a/jobs/{job.pk}")
    assert "<b>3 of 4</b> in default" in strict and "Jobs behind can start first" not in strict


def test_tasks_of_an_evicted_job_show_no_node_until_they_have_one_again(client: Client, w: World) -> None:
    job = running(w, "evicted")
    client.force_login(w.platform_admin)
    address = f"/w/team-a/jobs/{job.pk}?tab=tasks"
    assert "node-1" in page(client, address)
    for state in WAITING_STATES:
        Job.unscoped.filter(pk=job.pk).update(state=state)
        text = page(client, address)
        assert "node-1" not in text and "GPU 0" not in text, state
        assert "1 × GPU" in text, state
    Attempt.unscoped.filter(job=job).update(ended_at=clock.now())
    Allocation.unscoped.filter(attempt__job=job).update(released_at=clock.now())
    jobs.allocate(job, w.nodes[1])
    again = page(client, address)
    assert "node-2" in again and "node-1" not in again


def test_a_running_job_says_what_it_holds_and_what_ends_with_it(client: Client, w: World) -> None:
    job = running(w)
    client.force_login(w.editor)
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    for part in ("Allocated resources", w.nodes[0].name, "(ed)"):
        assert part in text
    assert "chart-utilisation" in page(client, f"/w/team-a/jobs/{job.pk}?tab=metrics")
    text = page(client, f"/w/team-a/jobs/{job.pk}?tab=tasks")
    assert "/ops/nodes/" not in text, "nodes are links for operators only"
    assert "/ops/gpus/" not in text, "GPUs are links for operators only"
    client.force_login(w.platform_admin)
    text = page(client, f"/w/team-a/jobs/{job.pk}?tab=tasks")
    assert f"/ops/nodes/{w.nodes[0].name}" in text
    held = w.nodes[0].devices.filter(holders__gt=0)
    assert held and all(f"/ops/gpus/{device.uuid}" in text for device in held)


def test_the_page_of_an_ended_job_stops_asking(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, state=JobState.SUCCEEDED, finished_at=clock.now())
    client.force_login(w.editor)
    assert client.get(f"/w/team-a/jobs/{job.pk}/live").status_code == 286
    assert client.get(f"/w/team-a/jobs/{waiting(w).pk}/live").status_code == 200


@pytest.mark.parametrize("measure", ["utilisation", "memory"])
@pytest.mark.parametrize("span", ["", "run", "1h", "7d", "nonsense"])
def test_charts_answer_figures(client: Client, w: World, measure: str, span: str) -> None:
    job = running(w)
    client.force_login(w.viewer)
    answer = client.get(f"/w/team-a/jobs/{job.pk}/charts/{measure}?range={span}")
    assert answer.status_code == 200
    assert set(answer.json()) == {"figure", "summary", "csv"}
    assert answer.json()["csv"].startswith(f"/api/v1/metrics/series/export?level=job&id={job.pk}&")


def test_an_unknown_chart_does_not_exist(client: Client, w: World) -> None:
    client.force_login(w.viewer)
    assert client.get(f"/w/team-a/jobs/{running(w).pk}/charts/nonsense").status_code == 404


def test_every_event_has_its_sentence(w: World) -> None:
    job = waiting(w)
    codes = ["submitted", "admitted", "starting", "running", "evicting", "shrunk", "requeued", "succeeded",
             "failed", "stopping", "cancelled", "suspended", "resumed"]  # fmt: skip
    for actor in ("", "ed"):
        for numbers in (
            {},
            {"rule": "RECLAIM_NOMINAL", "attempt": 2, "cards": 9, "nodes": 2, "borrowed_cards": 5},
            *({"rule": rule.value, "tasks": 2, "beneficiary": "urgent"} for rule in EvictRule),
        ):
            events = [
                JobEvent(job=job, at=clock.now(), code=code, actor=actor, numbers=numbers) for code in codes
            ]
            rows = event_rows.job_event_rows(events)
            assert [row.text for row in rows if not row.text[0].isupper() or "%" in row.text] == []
            assert [row.text for row in rows if row.tag and row.text.startswith(row.tag)] == []


@pytest.mark.parametrize(("borrowed", "shown"), [(0.25, "0.25"), (0.5, "0.5"), (1.0, "1"), (10, "10")])
def test_an_admission_says_how_much_was_borrowed(w: World, borrowed: float, shown: str) -> None:
    numbers = {"attempt": 1, "cards": 10, "nodes": 2, "borrowed_cards": borrowed}
    event = JobEvent(job=waiting(w), at=clock.now(), code="admitted", numbers=numbers)
    text = event_rows.job_event_rows([event])[0].text
    assert text == f"Admitted (attempt 1). GPUs: 10 ({shown} borrowed), nodes: 2"


def test_the_admission_of_a_slice_says_its_share_of_a_gpu(w: World) -> None:
    numbers = {"attempt": 1, "cards": 0.3, "nodes": 1, "borrowed_cards": 0}
    event = JobEvent(job=waiting(w), at=clock.now(), code="admitted", numbers=numbers)
    text = event_rows.job_event_rows([event])[0].text
    assert text == "Admitted (attempt 1). GPUs from nominal quota: 0.3, nodes: 1"


@pytest.mark.parametrize(
    ("borrowed", "shown"),
    [({}, "None"), ({"gpu.cores": 25, "gpu.cards": 1}, "0.25"), ({"gpu.cards": 1}, "0.25")],
)
def test_a_job_says_how_much_of_its_slice_is_borrowed(w: World, borrowed: dict[str, int], shown: str) -> None:
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=25)])
    attempt = jobs.allocate(job, w.nodes[0])
    attempt.borrowed = {f"{w.flavor.pk}/{resource}": amount for resource, amount in borrowed.items()}
    attempt.save()
    Allocation.unscoped.filter(attempt=attempt).update(charge={"gpu.cards": 1, "gpu.cores": 25})
    facts = allocated(w, job)
    assert facts["Borrowed at admission"] == shown


def allocated(w: World, job: Job) -> dict[str, object]:
    rows, holds = job_tasks(viewer=w.viewer, job=job).items, sum_job_holds(viewer=w.viewer, job=job)
    return dict(job_holding.allocation_facts(job, rows, holds, clock.now()))


@pytest.mark.parametrize(("cards", "gpus"), [(0, None), (2, "4")])
def test_a_job_shows_the_cpu_and_memory_that_it_holds_and_gpus_if_it_has_any(
    client: Client, w: World, cards: int, gpus: str | None
) -> None:
    role = jobs.RoleOf(cards=cards, cpu=2500, memory=3072, replicas=2)
    job = jobs.job(w.queue, w.editor, roles=[role])
    jobs.allocate(job, w.nodes[0])
    facts = allocated(w, job)
    assert (facts["CPU cores"], facts["Memory"]) == ("5", "6 GiB")
    assert facts.get("GPUs") == gpus
    assert ("GPU memory" in facts, "Borrowed at admission" in facts) == (cards > 0, cards > 0)
    cost = dict(job_cost.describe_cost(w.viewer, job, clock.now()))
    assert ("GPU-hours" in cost, "Cost so far (estimate)" in cost) == (cards > 0, cards > 0)


@pytest.mark.parametrize("rule", list(EvictRule))
def test_an_eviction_is_explained_in_words_and_names_own_jobs_only(w: World, rule: EvictRule) -> None:
    def eviction_text(**numbers: Any) -> str:
        event = JobEvent(job=job, at=clock.now(), code="evicting", numbers={"rule": rule.value, **numbers})
        return str(event_rows.job_event_rows([event])[0].text)

    job = waiting(w)
    assert ": " in eviction_text()
    assert rule.value not in eviction_text()
    assert "urgent-one" in eviction_text(beneficiary="urgent-one")
    english = eviction_text()
    with translation.override("zh-hans"):
        # The word GPU is the same in both languages.
        assert not any(
            word in eviction_text()
            for word in english.split()
            if word.isalpha() and word not in {"GPU", "PID"}
        )


def test_a_claimed_place_is_shown_with_its_end(client: Client, w: World) -> None:
    job = waiting(w)
    job.reason, job.reason_numbers = "WAITING_FOR_PREEMPTED", {"tasks": 3, "jobs": 2}
    job.save()
    client.force_login(w.viewer)
    address = f"/w/team-a/jobs/{job.pk}"
    assert "Nodes reserved until" not in client.get(address).content.decode()

    Claim.unscoped.create(job=job, content={}, expires_at=clock.now() + timedelta(minutes=5))
    page = client.get(address).content.decode()
    assert "Nodes reserved until" in page
    assert "(jobs: <b>2</b>, tasks: <b>3</b>)" in page


def test_pages_stay_within_their_query_budget(client: Client, w: World) -> None:
    for number in range(12):
        waiting(w, f"w-{number}")
    first = running(w, "r-0")
    client.force_login(w.editor)
    addresses = {
        "overview": "/w/team-a/overview",
        "jobs": "/w/team-a/jobs",
        "job": f"/w/team-a/jobs/{first.pk}",
        "live": "/w/team-a/jobs?part=rows",
    }
    for address in addresses.values():
        client.get(address)  # the session is written once
    spent = {key: cost(lambda address=address: client.get(address)) for key, address in addresses.items()}
    for number in range(1, 6):
        running(w, f"r-{number}")
    again = {key: cost(lambda address=address: client.get(address)) for key, address in addresses.items()}
    assert again == spent, "more jobs must not cost more queries"
    assert {key: count for key, count in spent.items() if count > QUERIES[key]} == {}


@pytest.mark.parametrize(
    ("state", "title"), [("starting", "Start blocked"), ("stopping", "Termination blocked")]
)
def test_what_keeps_an_admitted_job_is_shown_and_cannot_bring_markup(
    client: Client, w: World, state: str, title: str
) -> None:
    job = running(w)
    numbers = {"pod": "train-0", "pods": 2, "cause": "ImagePullBackOff", "message": "<b>no</b> such image"}
    Job.unscoped.filter(pk=job.pk).update(
        state=state, reason="IMAGE_PULL_FAILED", reason_numbers=numbers, reason_at=clock.now()
    )
    JobEvent.unscoped.create(
        job=job, at=clock.now(), code="held_up", numbers={"reason": "IMAGE_PULL_FAILED", **numbers}
    )
    client.force_login(w.viewer)
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    assert title in text
    assert text.count("&lt;b&gt;no&lt;/b&gt; such image") == 2, "in the answer and in the story"
    assert "<b>no</b> such image" not in text
    assert "Check the image" in text


def test_a_job_that_ran_out_of_memory_says_so_where_it_ended(client: Client, w: World) -> None:
    job = jobs.job(
        w.queue, w.editor, "fat", state=JobState.FAILED, finished_at=clock.now(), end_reason="TASK_FAILED"
    )
    numbers = {"rule": "TASK_FAILED", "pod": "fat-0", "exit_code": 137, "reason": "OOMKilled", "message": ""}
    JobEvent.unscoped.create(job=job, at=clock.now(), code="evicting", numbers=numbers)
    client.force_login(w.viewer)
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    assert text.count("Exit code 137 · Out of memory (OOMKilled)") == 2
