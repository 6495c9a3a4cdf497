"""Each recommendation of the console is carried out: the engine gives it, a user follows the link and sends
the form that it opens, and the next cycle starts the job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from re import findall
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.db.models import F
from django.test import Client

from clusters.models import Cell, Device, GpuMode, Node
from foundation.core import clock
from foundation.core.quantities import Resource
from frontend.pages.jobs.pending import advice
from frontend.texts.recommendations import OF_AMOUNTS, find_recommendations
from quotas.models import QueueFlavor, Quota, QuotaRequest
from quotas.services.requests.quota_request import quota_request_approve
from scheduling.engine.model import HelpCode
from scheduling.models import GpuRequestMode, Job, JobRole, JobState
from scheduling.services.cycle import cycle_run
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import address_of, fields_of

pytestmark = pytest.mark.django_db

JOBS = "/w/team-a/jobs"
NO_FORM = {
    HelpCode.OPEN_QUEUE: "an admin releases the queue on its own page",
    HelpCode.RESUME: "the button Resume stands in the head of the page",
    HelpCode.WAIT_UNTIL: "there is nothing to do but to wait",
}
"""Recommendations that change neither the job nor a quota."""


@pytest.fixture
def moment() -> Iterator[time_machine.Traveller]:
    with time_machine.travel("2026-03-02T08:00:00Z", tick=False) as traveller:
        yield traveller


@pytest.fixture
def w(moment: time_machine.Traveller) -> World:
    return world()


def waits(w: World, *roles: jobs.RoleOf, **fields: Any) -> Job:
    return jobs.job(w.queue, w.editor, "waits", roles=roles, **fields)


def decide(job: Job) -> Job:
    """Return the job after the next cycle, at the usual interval between cycles."""
    at = Cell.unscoped.get(pk=job.queue.cell_id).last_cycle_at or clock.now()
    with time_machine.travel(at + timedelta(seconds=5), tick=False):
        cycle_run(cell_id=job.queue.cell_id)
    job.refresh_from_db()
    return job


def hold(w: World, cards: int) -> None:
    """Let a job that can't be evicted hold so many cards of the team's own quota."""
    held = jobs.job(w.queue, w.editor, "holds", roles=[jobs.RoleOf(cards=cards)], preemptible=False)
    assert decide(held).state == JobState.ADMITTED


def too_many_cards(w: World) -> Job:
    hold(w, 3)
    Quota.unscoped.filter(node=w.queue.node).update(borrowing_limit=0)
    return waits(w, jobs.RoleOf(cards=8))


def too_many_tasks(w: World) -> Job:
    hold(w, 3)
    Quota.unscoped.filter(node=w.queue.node).update(borrowing_limit=0)
    return waits(w, jobs.RoleOf(cards=1, replicas=8))


def too_much_cpu(w: World) -> Job:
    rows = Quota.unscoped.filter(node=w.queue.node, resource=Resource.CPU)
    rows.update(own_nominal=8_000, borrowing_limit=0)
    return waits(w, jobs.RoleOf(cards=1, replicas=2, cpu=16_000))


def too_much_memory_for_any_node(w: World) -> Job:
    return waits(w, jobs.RoleOf(cards=1, memory=8 * 1024**2))


def too_much_gpu_memory(w: World) -> Job:
    slices = clusters.flavor(w.cluster, "l40s", card_model="L40S", mode=GpuMode.SLICE)
    clusters.node(slices, "slices-1")
    QueueFlavor.unscoped.create(queue=w.queue, flavor=slices, position=1)
    quotas.gpu_quota(w.queue.node, slices, 8)
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=50, gpu_memory=90_000, models=("L40S",))
    return waits(w, role)


def another_model(w: World) -> Job:
    """Return a job that asks for a model which the pool, with cards of two other models, does not have."""
    Device.unscoped.filter(node=w.nodes[0]).update(model="H100")
    return waits(w, jobs.RoleOf(models=("B200",)))


def another_profile(w: World) -> Job:
    mig = clusters.flavor(w.cluster, "mig", card_model="H200", mode=GpuMode.MIG)
    clusters.node(mig, "mig-1")
    for profile in ("1g.10gb", "3g.40gb"):
        devices = Device.unscoped.filter(node__flavor=mig, index__gte=4 if profile[0] == "3" else 0)
        devices.update(profile=profile)
    QueueFlavor.unscoped.create(queue=w.queue, flavor=mig, position=1)
    quotas.gpu_quota(w.queue.node, mig, 8)
    job = waits(w, jobs.RoleOf(mode=GpuRequestMode.MIG, cores=0, models=("H200",)))
    JobRole.unscoped.filter(job=job).update(gpu_profile="7g.80gb")
    return job


def a_rule_that_no_node_meets(w: World) -> Job:
    return waits(w, jobs.RoleOf(), placement={"node_selector": {"zone": "mars"}})


def a_name_of_no_node(w: World) -> Job:
    return waits(w, jobs.RoleOf(), placement={"node_name": "mars-1"})


def a_taint(w: World) -> Job:
    Node.unscoped.update(taints=[{"key": "own", "value": "", "effect": "NoSchedule"}])
    return waits(w, jobs.RoleOf())


def several_changes_at_once(w: World) -> Job:
    """Return a job for which neither rule, nor model, nor size alone suffices: only all three together."""
    Device.unscoped.filter(node=w.nodes[0]).update(model="H100")
    placement = {"node_selector": {"zone": "mars"}}
    return waits(w, jobs.RoleOf(cards=16, models=("B200",)), placement=placement)


def protected_beyond_the_own_quota(w: World) -> Job:
    return waits(w, jobs.RoleOf(cards=8, replicas=2), preemptible=False)


COPIES: dict[Callable[[World], Job], HelpCode] = {
    too_many_cards: HelpCode.ASK_FEWER_CARDS,
    too_many_tasks: HelpCode.ASK_FEWER_TASKS,
    too_much_cpu: HelpCode.ASK_LESS,
    too_much_memory_for_any_node: HelpCode.ASK_LESS,
    too_much_gpu_memory: HelpCode.ASK_LESS,
    another_model: HelpCode.ASK_OTHER_MODEL,
    another_profile: HelpCode.ASK_OTHER_PROFILE,
    a_rule_that_no_node_meets: HelpCode.LOOSEN_PLACEMENT,
    a_name_of_no_node: HelpCode.LOOSEN_PLACEMENT,
    a_taint: HelpCode.LOOSEN_PLACEMENT,
    several_changes_at_once: HelpCode.LOOSEN_PLACEMENT,
    protected_beyond_the_own_quota: HelpCode.MAKE_PREEMPTIBLE,
}


def test_every_recommendation_has_a_way_or_is_said_to_have_none() -> None:
    assert set(advice.CHANGES) == {code.value for code in COPIES.values()}
    assert {*COPIES.values(), HelpCode.RAISE_QUOTA, HelpCode.WAIT_FOR_RELEASE, *NO_FORM} == set(HelpCode)


def links(client: Client, job: Job) -> list[str]:
    """Return the links of the recommendations on a job's page."""
    page = client.get(f"{JOBS}/{job.pk}").content.decode()
    return [unescape(link) for link in findall(r'<a class="button small[^"]*" href="([^"]+)"', page)]


def changes_in(link: str) -> list[str]:
    return [item["code"] for item in json.loads(parse_qs(urlsplit(link).query).get("change", ["[]"])[0])]


@pytest.mark.parametrize("situation", COPIES, ids=lambda made: made.__name__)
def test_the_copy_that_the_link_opens_starts(
    client: Client, w: World, situation: Callable[[World], Job]
) -> None:
    job = decide(situation(w))
    assert job.state == JobState.QUEUED, job.reason
    client.force_login(w.editor)
    code = COPIES[situation]
    link = next((each for each in links(client, job) if changes_in(each)[:1] == [code.value]), None)
    assert link is not None, (job.reason, job.reason_help)
    sent = fields_of(client.get(link).content.decode(), "job-form")
    answer = client.post(f"{JOBS}/new", {**sent, "do": "submit"})
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    copy = Job.unscoped.exclude(pk=job.pk).latest("submitted_at")
    assert decide(copy).state == JobState.ADMITTED, (copy.reason, copy.reason_numbers, job.reason_help)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_what_helps_only_together_is_one_link_with_all_of_it(client: Client, w: World) -> None:
    job = decide(several_changes_at_once(w))
    client.force_login(w.editor)
    together = {"LOOSEN_PLACEMENT", "ASK_OTHER_MODEL", "ASK_FEWER_CARDS"}
    assert [set(changes_in(link)) for link in links(client, job)] == [together]


def queue_without_borrowing(w: World) -> Job:
    """Return a job in a workspace with 8 GPUs more than its queue, which may not borrow them."""
    Quota.unscoped.filter(node=w.queue.node).update(borrowing_limit=0)
    quotas.gpu_quota(quotas.quota_node(w.cell, w.workspace), w.flavor, 8)
    hold(w, 3)
    return waits(w, jobs.RoleOf(cards=8))


def workspace_without_borrowing(w: World) -> Job:
    """Return a job whose queue may borrow, but whose workspace has no more and may borrow nothing."""
    quotas.gpu_quota(quotas.quota_node(w.cell, w.workspace), w.flavor, 0, borrowing_limit=0)
    Quota.unscoped.filter(node=quotas.quota_node(w.cell, tenancy.root())).update(
        own_nominal=F("own_nominal") + 10**6
    )
    hold(w, 3)
    return waits(w, jobs.RoleOf(cards=8))


def neither_has_more(w: World) -> Job:
    """Return a job whose queue may not borrow, and whose workspace has nothing left to distribute."""
    Quota.unscoped.filter(node=w.queue.node).update(borrowing_limit=0)
    hold(w, 3)
    return waits(w, jobs.RoleOf(cards=8))


def asked_of(client: Client, job: Job) -> tuple[str, dict[str, str]]:
    """Return the address and the form that the link of a recommendation to raise quota opens."""
    (link,) = (each for each in links(client, job) if "/requests" in each)
    page = client.get(link).content.decode()
    return page, fields_of(page, "ask-form")


@pytest.mark.parametrize("situation", [queue_without_borrowing, workspace_without_borrowing])
def test_a_request_that_the_link_opens_starts_the_job_once_it_is_approved(
    client: Client, w: World, situation: Callable[[World], Job]
) -> None:
    job = decide(situation(w))
    client.force_login(w.editor)
    page, sent = asked_of(client, job)
    assert "Filled in for job waits" in page
    of_queue = situation is queue_without_borrowing
    name = f"{w.workspace.name} / default" if of_queue else w.workspace.name
    assert f'aria-current="true">{name}</a>' in page
    # The workspace and its queue have eight, five are free, eight are asked for: three more, with the other
    # resources of whole GPUs.
    assert [sent[f"gpu.{each}.nominal"] for each in ("cards", "cores", "memory")] == [
        "11",
        "1100",
        f"{11 * 40}",
    ]
    answer = client.post(address_of(page, "ask-form"), {**sent, "reason": "a paper"})
    assert answer.status_code == 302, answer.content.decode()[-2000:]
    made = QuotaRequest.unscoped.get()
    assert made.node == (w.queue.node if of_queue else w.queue.node.parent)
    quota_request_approve(acting_user=w.platform_admin, request=made)
    assert decide(job).state == JobState.ADMITTED, (job.reason, job.reason_numbers)


def test_who_waits_for_borrowed_quota_can_request_it_if_they_submit_jobs(client: Client, w: World) -> None:
    hold(w, 3)
    theirs = jobs.job(w.other_queue, w.outsider, "theirs", roles=[jobs.RoleOf(cards=8)], preemptible=False)
    assert decide(theirs).state == JobState.ADMITTED
    job = decide(waits(w, jobs.RoleOf(cards=8)))
    found = find_recommendations(job.reason_help)
    assert [each.code for each in found if each.code in OF_AMOUNTS] == ["WAIT_FOR_RELEASE"]
    client.force_login(w.editor)
    page, sent = asked_of(client, job)
    assert "Filled in for job waits" in page
    assert sent["gpu.cards.nominal"] == "11"
    client.force_login(w.viewer)
    assert not links(client, job)


def test_what_the_workspace_cannot_pay_is_said_before_the_request_is_sent(client: Client, w: World) -> None:
    job = decide(neither_has_more(w))
    client.force_login(w.editor)
    page, sent = asked_of(client, job)
    assert f"{w.workspace.name} has only 0 GPUs" in page
    assert sent["gpu.cards.nominal"] == "11"


@pytest.mark.parametrize(
    "query", ["job=nonsense", "job={other}&pool=a100", "job={job}&pool=none", "job={job}"]
)
def test_an_address_that_names_no_lack_shows_the_quota_as_it_is(client: Client, w: World, query: str) -> None:
    job = decide(queue_without_borrowing(w))
    other = jobs.job(w.other_queue, w.outsider, "theirs")
    client.force_login(w.editor)
    page = client.get(f"/w/team-a/requests?{query.format(job=job.pk, other=other.pk)}").content.decode()
    assert "Filled in for job" not in page
    assert fields_of(page, "ask-form")["gpu.cards.nominal"] == "16"
