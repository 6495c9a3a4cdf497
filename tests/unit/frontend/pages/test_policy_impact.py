"""Pages of policies preview the impact of what is selected before it is saved."""

from __future__ import annotations

import html
import json
import re
import uuid
from datetime import timedelta
from random import Random
from typing import Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import strip_tags

from foundation.core import clock
from quotas.models import Queue
from quotas.services.queues.queue_settings import SETTINGS
from scheduling.models import (
    Allocation,
    IdleStretch,
    Job,
    JobState,
    StartEstimate,
    Task,
    TaskState,
    WorkspacePolicy,
)
from scheduling.policy.stating import PolicyStatement
from scheduling.services.policies.tenant_policy_effect import preview_tenant_policy
from tenants.models import Tenant
from tests.builders import jobs
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def typed(queue: Queue, **changes: str) -> dict[str, str]:
    """The form of a queue as a browser sends it."""
    values = {name: getattr(queue, name) for name in SETTINGS}
    boxes = {name: "on" if value is True else str(value) for name, value in values.items() if value}
    return boxes | {"version": str(queue.version), "flavors": "a100"} | changes


def test_the_page_of_a_queue_previews_settings_and_presets(client: Client, w: World) -> None:
    """A job of 16 GPUs borrows 8: it starts only where borrowing is enabled."""
    client.force_login(w.admin)
    roles = [jobs.RoleOf(cards=8, replicas=2)]
    jobs.job(w.queue, w.editor, "wide-job", roles=roles)
    address = f"/ops/queues/{w.workspace.slug}/{w.queue.name}"

    same = client.post(f"{address}/check", typed(w.queue)).content.decode()
    static = client.post(f"{address}/check", typed(w.queue, allocation_mode="static")).content.decode()
    preset = client.post(f"{address}/check", {"preset": "deterministic"}).content.decode()
    wrong = client.post(f"{address}/check", typed(w.queue, flavors="nowhere")).content.decode()

    assert "These are the current settings." in same
    for shown in (static, preset):
        assert "Jobs that no longer start in the next cycle" in shown and "wide-job" in shown
    assert "Pool not found" in wrong
    w.queue.refresh_from_db()
    assert w.queue.allocation_mode == "dynamic"
    page = client.get(address).content.decode()
    assert page.count(f"{address}/check") == 3  # For the form, and for the two presets that are not active.


def test_an_estimate_lists_jobs_with_times_as_far_as_its_user_may_see_them(client: Client, w: World) -> None:
    client.force_login(w.admin)
    own = jobs.job(w.queue, w.editor, "wide-job", roles=[jobs.RoleOf(cards=8, replicas=2)])
    foreign = jobs.job(w.other_queue, w.outsider, "foreign-job")
    address = f"/ops/queues/{w.workspace.slug}/{w.queue.name}/check"
    form = typed(w.queue, allocation_mode="static")
    shown = html.unescape(client.post(address, form).content.decode())
    assert "Estimate starts" in shown and "Difference to the next scheduling cycle" in shown
    (values,) = re.findall(r"hx-vals=\"({.*?})\" ", shown)
    echoed = json.loads(values)

    asked = client.post(address, echoed).content.decode()

    made = StartEstimate.unscoped.get()
    live = f"/change-estimate?of={made.pk}"
    assert (made.user, made.subject, made.asked["settings"]["allocation_mode"]) == (
        w.admin,
        "change",
        "static",
    )
    assert f'data-live="{live}"' in asked and "Pending: one simulation" in asked
    now = clock.now()
    result = {
        "made_at": now.isoformat(), "futures": 16, "horizon_s": 86_400, "runs": 40, "evaluated": 2,
        "left_out": 3, "earlier": [{"job": str(foreign.pk), "before": 7_200, "after": 3_600}],
        "later": [{"job": str(own.pk), "before": 3_600, "after": None}],
        "preempted": [{"job": str(uuid.uuid4()), "after": 60}],
    }  # fmt: skip
    StartEstimate.unscoped.update(state="done", result=result, finished_at=now)
    answer = client.get(live)
    text = strip_tags(html.unescape(answer.content.decode()))
    assert answer.status_code == 286
    assert "foreign-job" not in text and "1 job that is deleted or that you can't see" in text
    assert re.search(r"wide-job: \d\d:\d\d → not within 1 d", text), text
    assert "16 simulations with and without the change" in text
    assert "3 pending jobs weren't evaluated." in text and "Last updated" in text
    assert text.count("1 job that is deleted or that you can't see") == 2
    StartEstimate.unscoped.update(finished_at=now - timedelta(minutes=11))
    assert "has expired" in client.get(live).content.decode()

    client.force_login(w.platform_admin)
    assert "canceled" in client.get(live).content.decode(), "it is another user's"
    client.post("/change-estimate", {"do": "cancel"})
    client.force_login(w.admin)
    StartEstimate.unscoped.update(state="running")
    client.post("/change-estimate", {"do": "cancel"})
    assert "canceled" in client.get(live).content.decode()
    assert client.post(address, echoed | {"while_borrowing": "any"}).status_code == 403


def test_the_page_of_domains_previews_another_sharing(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    checked = client.post("/ops/cells/check", {"cell": w.cell.name, "sharing": "classical"}).content.decode()
    assert "Impact of this change" in checked and "Jobs that can start" in checked
    same = client.post("/ops/cells/check", {"cell": w.cell.name, "sharing": "fair"}).content.decode()
    assert "These are the current settings." in same
    assert (
        "Select a kind of sharing." in client.post("/ops/cells/check", {"cell": w.cell.name}).content.decode()
    )
    w.cell.refresh_from_db()
    assert w.cell.sharing == "fair"


LIMIT: Final = {"version": "0", "any_image": "on", "idle_action": "suspend"}


def names(client: Client, tenant: Tenant, **values: str) -> dict[str, list[str]]:
    """The jobs that the preview of a policy names, by head; other tenants' jobs as their number."""
    page = client.post(f"/ops/policies/{tenant.pk}/check", LIMIT | values).content.decode()
    parts = re.findall(r"<b>([^<]+)</b>(<ul.*?</ul>|<p class=\"faint\">None\.</p>)", page, re.S)
    assert len(parts) == 4, page
    return {head: re.findall(r"<li>(\S+(?: jobs? of)?)", listed) for head, listed in parts}


def test_a_policy_names_the_jobs_that_it_would_not_allow(client: Client, w: World) -> None:
    """Of jobs of random sizes below a folder, those above the new limit, and not above the present one."""
    random, folder = Random(5), w.workspace.parent
    assert folder is not None
    sizes: dict[str, int] = {}
    states = dict.fromkeys(("waits", "rests", "runs", "ended"), JobState.QUEUED) | {
        "rests": JobState.SUSPENDED,
        "runs": JobState.RUNNING,
        "ended": JobState.SUCCEEDED,
    }
    for number in range(40):
        kind, cards = random.choice(list(states)), random.randint(0, 8)
        name = f"{kind}-{number}"
        sizes[name] = cards
        jobs.job(w.queue, w.editor, name, state=states[kind], roles=[jobs.RoleOf(cards=cards)])
    client.force_login(w.platform_admin)

    def above(low: int, high: int, *kinds: str) -> set[str]:
        return {name for name, n in sizes.items() if low < n <= high and name.partition("-")[0] in kinds}

    shown = names(client, folder, **{"maximum.total.gpu.cards": "4"})
    assert set(shown["Pending jobs outside the new limits"]) <= above(4, 8, "waits", "rests")
    preview = preview_tenant_policy(
        acting_user=w.platform_admin, tenant=folder, statement=PolicyStatement(maximum={"total.gpu.cards": 4})
    )
    assert {job.name for job in preview.pending.jobs} == above(4, 8, "waits", "rests")
    assert {job.name for job in preview.running.jobs} == above(4, 8, "runs")
    assert {(job.name, job.cards) for job in preview.pending.jobs} <= set(sizes.items())
    assert (preview.left_out, preview.idle.jobs) == (0, [])

    # What the present policy does not allow either is no effect of the new one.
    WorkspacePolicy.unscoped.create(tenant=w.workspace, maximum={"total.gpu.cards": 6}, version=1)
    with CaptureQueriesContext(connection) as asked:
        preview = preview_tenant_policy(
            acting_user=w.platform_admin,
            tenant=w.workspace,
            statement=PolicyStatement(maximum={"total.gpu.cards": 2}),
        )
    assert {job.name for job in preview.running.jobs} == above(2, 6, "runs")
    assert len(asked) <= 13
    same = PolicyStatement(maximum={"total.gpu.cards": 6})
    assert not preview_tenant_policy(acting_user=w.admin, tenant=w.workspace, statement=same).changes


def test_a_policy_names_running_jobs_that_are_idle_too_long(client: Client, w: World) -> None:
    now = clock.now()
    for name, minutes in (("long", 90), ("short", 5)):
        job = jobs.job(w.queue, w.editor, name)
        jobs.allocate(job, w.nodes[0])
        job.refresh_from_db()
        since = now - timedelta(minutes=minutes)
        IdleStretch.unscoped.create(job=job, attempt_number=job.attempt_number, since=since, seen_at=now)
        Job.unscoped.filter(pk=job.pk).update(state=JobState.RUNNING)
    client.force_login(w.admin)
    head = "Running jobs idle for longer than the new timeout"
    assert names(client, w.workspace, idle_timeout_s="3600")[head] == ["long"]
    assert names(client, w.workspace, idle_timeout_s="7200")[head] == []


def test_a_policy_that_touches_jobs_is_saved_after_confirmation(client: Client, w: World) -> None:
    jobs.job(w.queue, w.editor, "wide", roles=[jobs.RoleOf(cards=8)])
    client.force_login(w.admin)
    address, typed = f"/ops/policies/{w.workspace.pk}", LIMIT | {"maximum.total.gpu.cards": "4"}
    asked = client.post(address, typed).content.decode()
    assert "saved yet" in asked and "wide" in asked and 'name="confirmed"' in asked
    assert 'value="4"' in asked and not WorkspacePolicy.unscoped.exists()
    assert client.post(address, typed | {"confirmed": "1"}).status_code == 302
    assert WorkspacePolicy.unscoped.get().maximum == {"total.gpu.cards": 4}
    assert "saved yet" not in client.get(address).content.decode()
    looser = LIMIT | {"version": "1", "maximum.total.gpu.cards": "8"}
    assert client.post(address, looser).status_code == 302, "nothing is touched, so nothing is asked"

    wrong = client.post(
        f"{address}/check", LIMIT | {"minimum.total.gpu.cards": "9", "maximum.total.gpu.cards": "4"}
    )
    assert "Conflicting limits" in wrong.content.decode()
    early = client.post(f"{address}/check", LIMIT | {"idle_timeout_s": "60"}).content.decode()
    assert "Idle timeout (seconds): Ensure this value is greater than or equal to 300." in early
    client.force_login(w.editor)
    assert client.post(f"{address}/check", LIMIT).status_code == 403


def test_a_policy_names_jobs_whose_pods_start_for_too_long(client: Client, w: World) -> None:
    """Of two jobs that start, the one beyond the new timeout; not one whose limit was the same before."""
    now = clock.now()
    for name, minutes in (("slow", 8), ("fresh", 2), ("late", 11)):
        job = jobs.job(w.queue, w.editor, name)
        attempt = jobs.allocate(job, w.nodes[0])
        began = now - timedelta(minutes=minutes)
        Allocation.unscoped.filter(attempt=attempt).update(ensured_at=began)
        Task.unscoped.filter(job=job).update(state=TaskState.STARTING)
        Job.unscoped.filter(pk=job.pk).update(state=JobState.STARTING)
    client.force_login(w.admin)
    head = "Starting jobs beyond the new pod start timeout"
    assert names(client, w.workspace, start_limit_s="300")[head] == ["slow"]
    assert names(client, w.workspace, start_limit_s="0")[head] == []
    address = f"/api/v1/tenants/{w.workspace.pk}/policy/check"
    found = client.post(address, {"start_limit_s": 300}, content_type="application/json").json()
    assert ([one["name"] for one in found["slow"]["jobs"]], found["pending"]["jobs"]) == (["slow"], [])
    asks = client.post(f"/ops/policies/{w.workspace.pk}", LIMIT | {"start_limit_s": "300"}).content.decode()
    assert head in asks and not WorkspacePolicy.unscoped.exists()


def test_a_preview_names_the_limit_that_is_wrong(client: Client, w: World) -> None:
    """Both limits of one field are wrong alike."""
    client.force_login(w.platform_admin)
    limits = {f"{side}.total.gpu.cards": "9" * 41 for side in ("minimum", "maximum")}
    address = f"/ops/policies/{w.workspace.pk}/check"
    for language, words in (("en", ("Minimum: ", "Maximum: ")), ("zh-hans", ("最小值：", "最大值："))):
        shown = client.post(address, limits, HTTP_ACCEPT_LANGUAGE=language).content.decode()
        assert [shown.count(word) for word in words] == [1, 1], shown
        assert "。 " not in shown
