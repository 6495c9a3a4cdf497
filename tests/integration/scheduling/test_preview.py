"""The preview of a submission is what the next cycle does, and it writes nothing."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F
from django.utils.html import strip_tags

from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.models import Hint
from frontend.pages.submission.job_rail import preview_job
from quotas.models import QueueFlavor, Quota
from quotas.selectors.pools.pool import pool_list
from scheduling.job_file import JobSpec, parse_job
from scheduling.models import Decision, Job, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_submit
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import preview_submission
from telemetry.models import Price
from tenants.models import Role
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def job_file(*cards: int, **gpu: Any) -> dict[str, Any]:
    roles = [
        {"name": f"role-{n}", "replicas": 1, "resources": {"cpu": 1, "gpu": {"cards": c, **gpu}}}
        for n, c in enumerate(cards)
    ]
    return {"name": "asked", "roles": roles}


def spec(*cards: int, **gpu: Any) -> JobSpec:
    return parse_job(job_file(*cards, **gpu))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ((8,), ""),
        ((8, 8), "WAITING_FOR_BORROWED"),  # the team's own eight, and the other team holds four of its own
        ((8, 4), "NO_ROOM"),  # twelve are allowed, but no node has eight beside the four
    ],
)
def test_the_answer_is_what_the_next_cycle_does(asked: tuple[int, ...], reason: str) -> None:
    here = world()
    here_and_there = (3, 1) if reason == "NO_ROOM" else (4,)
    for cards, node in zip(here_and_there, here.nodes, strict=False):
        roles = [jobs.RoleOf(cards=cards)]
        # Not preemptible, so that no job is moved to free a node.
        fixed = jobs.job(here.other_queue, here.outsider, roles=roles, preemptible=False)
        jobs.allocate(fixed, node)
    busy(here, 4)
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(*asked))

    told = preview_submission(submission)

    assert told.reason == reason
    assert not Decision.unscoped.exists()
    assert not Hint.unscoped.exists()
    job = job_submit(acting_user=here.editor, workspace=here.workspace, spec=submission.spec)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    assert told.starts == (job.state == JobState.ADMITTED)
    if reason:
        assert (job.reason, job.reason_numbers) == (told.reason, dict(told.numbers))
        assert job.reason_numbers["flavor"] == here.flavor.name


def busy(here: World, cards: int) -> None:
    """Charge the other team's holdings to the ledger."""
    quotas.reserve(here.other_queue, here.flavor, Resource.GPU_CARDS, cards)


def test_the_pool_that_a_job_starts_in_is_named() -> None:
    """The first pool of the queue is full; the job may run in either."""
    here = world()
    for node in here.nodes:
        full = jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=8)], preemptible=False)
        jobs.allocate(full, node)
    other = clusters.flavor(here.cluster, "h100", card_model="H100-80G", card_memory_mib=81_920)
    clusters.node(other, "h-1")
    QueueFlavor.unscoped.create(queue=here.queue, flavor=other, position=1)
    quotas.gpu_quota(here.queue.node, other, 8)
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(2))

    seen = preview_submission(submission)
    after = preview_job(here.editor, here.workspace, job_file(2), pool_list(here.editor, here.workspace))

    assert (seen.starts, seen.pools) == (True, {"h100": 200})
    assert [(pool.name, pool.asked) for pool in after.after] == [("h100", 2)]


def test_the_free_quota_of_a_pool_is_what_the_reason_states() -> None:
    """The other team borrows one GPU, which the quota table divides among those who lend it."""
    here = world()
    quotas.queue(here.cell, tenancy.workspace("team-c"), [here.flavor], cards=3)
    for resource, unit in ((Resource.GPU_CARDS, 1), (Resource.GPU_CORES, 100)):
        quotas.reserve(here.queue, here.flavor, resource, 4 * unit)
        quotas.reserve(here.other_queue, here.flavor, resource, 9 * unit)

    seen = preview_job(here.editor, here.workspace, job_file(3, 3, 3), pool_list(here.editor, here.workspace))

    said = re.search(r"Free: (.+?) nominal, (.+?) to borrow", strip_tags(seen.text))
    (pool,) = seen.after
    shown = re.search(r"available: (.+?) nominal \+ (.+?) to borrow = (.+)", pool.text)
    assert said and shown, (seen.text, pool.text)
    assert said.groups() == shown.groups()[:2]
    assert shown[3] == "6 GPUs"


def test_those_who_wait_come_first() -> None:
    here = world()
    # Both jobs together lie within the nominal: one that borrows would be passed by one that does not.
    Quota.unscoped.filter(node=here.queue.node, resource__startswith="gpu").update(
        own_nominal=F("own_nominal") * 3
    )
    first = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=8), jobs.RoleOf(name="b", cards=8)])
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(8))

    told = preview_submission(submission)

    assert not told.starts  # the sixteen cards go to the job that is already pending
    assert Job.unscoped.get() == first


def test_a_preview_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(8))
    assert preview_submission(submission).starts
    monkeypatch.setattr("scheduling.engine_input.preview_time.PREVIEW_S", -1.0)
    told = preview_submission(submission)
    assert told.timed_out and not told.starts


def test_the_job_that_capacity_is_reserved_for_is_named() -> None:
    """The engine knows jobs by their ids, which users can't read."""
    here = world()
    Quota.unscoped.filter(node=here.queue.node, resource__startswith="gpu").update(
        own_nominal=F("own_nominal") * 2
    )
    ours = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=4)], max_run_s=3600)
    jobs.allocate(ours, here.nodes[0])
    theirs = jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=8)])
    jobs.allocate(theirs, here.nodes[1])
    quotas.reserve(here.queue, here.flavor, Resource.GPU_CARDS, 4)
    busy(here, 8)
    jobs.job(here.queue, here.editor, "ahead", roles=[jobs.RoleOf(cards=8)])
    behind = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=4)])
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(4))

    told = preview_submission(submission)
    seen = preview_job(here.editor, here.workspace, job_file(4), pool_list(here.editor, here.workspace))
    cycle_run(cell_id=here.cell.pk)

    behind.refresh_from_db()
    for reason, numbers in ((told.reason, told.numbers), (behind.reason, behind.reason_numbers)):
        assert (reason, numbers.get("job")) == ("RESERVED_FOR_LARGER", "ahead")
    assert "for <b>ahead</b>" in seen.text


def test_borrowed_quota_is_said_of_a_job_that_starts() -> None:
    here = world()
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(8, 2))

    told = preview_submission(submission)
    seen = preview_job(here.editor, here.workspace, job_file(8, 2), pool_list(here.editor, here.workspace))
    within = preview_job(here.editor, here.workspace, job_file(8), pool_list(here.editor, here.workspace))

    assert (told.starts, told.borrowed) == (True, {here.flavor.name: 200})
    assert f"borrows 2 GPUs of {here.flavor.name}" in seen.text
    assert "reclaim" in seen.text
    assert "borrow" not in within.text


def lend(here: World) -> list[Job]:
    """Let the other team borrow: it holds twelve of sixteen GPUs in two jobs."""
    held = []
    for name, cards, node in (("big", 8, here.nodes[0]), ("small", 4, here.nodes[1])):
        held.append(jobs.job(here.other_queue, here.outsider, name, roles=[jobs.RoleOf(cards=cards)]))
        jobs.allocate(held[-1], node)
    busy(here, 12)
    return held


def test_a_preview_names_who_would_be_preempted_as_far_as_they_are_in_sight() -> None:
    here = world()
    held = lend(here)
    pools = pool_list(here.editor, here.workspace)

    told = preview_job(here.editor, here.workspace, job_file(8), pools)

    assert told.title == "Starts after preemption"
    assert told.text.startswith("Jobs that would be preempted: 1. The job would start when")
    assert "Nodes reserved" not in told.text
    assert "No action required" not in str(told.helps)
    assert told.preempted == ["Quota reclaimed: jobs of other tenants (1)"]
    tenancy.member(here.editor, here.other_workspace, Role.VIEWER)
    (line,) = preview_job(here.editor, here.workspace, job_file(8), pools).preempted
    assert line in {f"Quota reclaimed: {job.name}" for job in held}


def test_jobs_that_would_be_moved_are_not_said_to_be_preempted() -> None:
    """Seven GPUs are free on two nodes; the job of two that can move leaves four on one of them."""
    here = world()
    Quota.unscoped.filter(resource__startswith="gpu").update(own_nominal=F("own_nominal") * 2)
    for node, cards, preemptible in ((0, 5, False), (1, 4, False), (1, 2, True)):
        roles = [jobs.RoleOf(cards=cards)]
        held = jobs.job(here.other_queue, here.outsider, roles=roles, preemptible=preemptible)
        jobs.allocate(held, here.nodes[node])
        Job.unscoped.filter(pk=held.pk).update(started_at=clock.now() - timedelta(minutes=1))
    busy(here, 11)

    told = preview_job(here.editor, here.workspace, job_file(4), pool_list(here.editor, here.workspace))

    assert told.title == "Starts after others are moved"
    assert told.text.startswith("Jobs that would be moved to other nodes: 1. The job would start when")
    assert "would be preempted" not in told.text
    assert told.preempted == ["Defragmentation: jobs of other tenants (1)"]


def test_a_preview_says_where_the_job_is_placed_and_what_it_costs() -> None:
    here = world()
    price = {"gpu_hour": Decimal("2.5"), "effective_at": clock.now() - timedelta(days=1)}
    Price.unscoped.create(flavor=here.flavor, **price)
    pools = pool_list(here.editor, here.workspace)

    alone = dict(preview_job(here.editor, here.workspace, job_file(2), pools).facts)
    gang = dict(preview_job(here.editor, here.workspace, job_file(8, 4), pools).facts)
    waits = dict(preview_job(here.editor, here.workspace, job_file(8, 8, 8), pools).facts)

    names = [node.name for node in here.nodes]
    assert alone["Placement"] in {f"{name} (2 GPUs)" for name in names}
    assert alone["Estimated cost"] == "5.00 USD per hour"
    limited = dict(preview_job(here.editor, here.workspace, {**job_file(2), "max_run_s": 5400}, pools).facts)
    longest = "5.00 USD per hour, 7.50 USD for the maximum run time of 1 h 30 min"
    assert limited["Estimated cost"] == longest
    assert "Expected start" not in alone
    assert gang["Placement"].startswith("2 nodes: ")
    assert gang["Estimated cost"] == "30.00 USD per hour"
    assert "Placement" not in waits
    assert "Queue position" not in alone | gang
    assert waits["Queue position"] == "1 of 1 in default"


def test_a_recommendation_holds_beside_what_is_reserved_for_others() -> None:
    """Four GPUs are free, all of them reserved for a job ahead that needs eight."""
    here = world()
    Quota.unscoped.filter(node=here.queue.node, resource__startswith="gpu").update(
        own_nominal=F("own_nominal") * 2
    )
    ours = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=4)], max_run_s=3600)
    jobs.allocate(ours, here.nodes[0])
    jobs.allocate(jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=8)]), here.nodes[1])
    quotas.reserve(here.queue, here.flavor, Resource.GPU_CARDS, 4)
    busy(here, 8)
    jobs.job(here.queue, here.editor, "ahead", roles=[jobs.RoleOf(cards=8)])

    seen = {}
    for cards in (4, 8):
        submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec(cards))
        seen[cards] = preview_submission(submission)
    promised = [item for item in seen[8].help if item["numbers"].get("starts")]

    assert seen[4].reason == "RESERVED_FOR_LARGER"
    assert seen[8].help
    assert promised == []
    assert {item["numbers"]["also"] for item in seen[8].help if item["code"] == "ASK_FEWER_CARDS"} == {
        "RESERVED_FOR_LARGER"
    }
