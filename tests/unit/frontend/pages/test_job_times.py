"""The times on the page of a job, by its transitions and by earlier runs, and its priority."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from random import Random
from typing import Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from foundation.core.reason_row import Gate
from foundation.core.reasons import Reason
from frontend.texts import formats
from scheduling.models import Decision, DecisionKind, Job, JobEvent, JobState
from scheduling.selectors.jobs.job_stages import JobStage, job_stages
from tests.builders import jobs
from tests.builders.run_histories import finished_runs
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

LABELS: Final = {
    JobStage.QUEUED: "Queued",
    JobStage.QUOTA: "Waiting for quota",
    JobStage.NODES: "Waiting for nodes",
    JobStage.STARTING: "Image pull and start",
    JobStage.RUNNING: "Running",
}
QUOTA: Final = ("EXCEEDS_MAX_QUOTA", "WAITING_FOR_QUOTA", "WAITING_FOR_BORROWED")
NODES: Final = (
    *("NEVER_FITS", "NO_ROOM", "RESERVED_FOR_LARGER", "WAITING_FOR_PREEMPTED", "PROTECTED"),
    *("VOLUME_NODE_CONFLICT", "VOLUME_NODES_TOO_SMALL", "VOLUME_CLAIM_NOT_BOUND", "VOLUME_CLAIM_UNREAD"),
)
CODES: Final = (*QUOTA, *NODES, "IN_LINE", "BACKOFF", "OF_AN_OLDER_VERSION")


@pytest.fixture
def w(db: None) -> World:
    return world()


def change(w: World, job: Job, code: str, at: datetime) -> None:
    """Record that the job has waited for something else since a moment."""
    made = Decision.unscoped.create(
        cell=w.queue.cell, job=job, cycle=1, epoch=1, kind=DecisionKind.PARK, code=code
    )
    Decision.unscoped.filter(pk=made.pk).update(created_at=at)


def stage_at(
    second: int, changes: list[tuple[int, str]], admitted: int | None, started: int | None
) -> JobStage:
    """The stage of a job at a second, by what happened last before it."""
    if started is not None and second >= started:
        return JobStage.RUNNING
    if admitted is not None and second >= admitted:
        return JobStage.STARTING
    last = max(((at, code) for at, code in changes if at <= second), default=(0, ""))[1]
    return JobStage.QUOTA if last in QUOTA else JobStage.NODES if last in NODES else JobStage.QUEUED


@pytest.mark.parametrize("seed", range(12))
def test_stages_are_those_of_the_recorded_transitions_second_by_second(
    client: Client, w: World, seed: int
) -> None:
    random = Random(seed)
    now = clock.now()
    length = random.randint(60, 2000)
    begin = now - timedelta(seconds=length)
    state = random.choice((JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED))
    admitted = None if state == JobState.QUEUED else random.randint(1, length - 2)
    started = random.randint(admitted + 1, length - 1) if admitted and state != JobState.STARTING else None
    ended = random.randint(started, length) if started and state == JobState.SUCCEEDED else None

    def moment(second: int | None) -> datetime | None:
        return None if second is None else begin + timedelta(seconds=second)

    job = jobs.job(
        w.queue, w.editor, state=state, submitted_at=begin - timedelta(hours=3), queued_at=begin,
        admitted_at=moment(admitted), started_at=moment(started), finished_at=moment(ended),
        attempt_number=2, reason="" if admitted else "NO_ROOM",
    )  # fmt: skip
    change(w, job, "WAITING_FOR_QUOTA", begin - timedelta(hours=2))  # of an earlier attempt
    seconds = sorted(
        random.sample(range(1, admitted or length), min(random.randint(0, 6), (admitted or length) - 1))
    )
    changes = [(second, random.choice(CODES)) for second in seconds]
    for second, code in changes:
        change(w, job, code, begin + timedelta(seconds=second))

    told = {one.stage: one.time for one in job_stages(viewer=w.viewer, job=job, now=now)}
    expected = dict.fromkeys(JobStage, 0)
    for second in range(ended if ended is not None else length):
        expected[stage_at(second, changes, admitted, started)] += 1
    assert told == {stage: timedelta(seconds=n) for stage, n in expected.items() if n}

    if ended is not None:  # of the others, time passes until the page is asked for
        client.force_login(w.viewer)
        text = page(client, f"/w/team-a/jobs/{job.pk}")
        card = text[text.index('id="stages"') :].partition("</section>")[0]
        shown = dict(re.findall(r"</svg>([^<]+) <b>([^<]+)</b>", card))
        assert shown == {LABELS[stage]: formats.format_duration(n) for stage, n in expected.items() if n}
        to_start = sum(n for stage, n in expected.items() if stage != JobStage.RUNNING)
        assert f"<b>{formats.format_duration(to_start)}</b> from the queue to the start" in card
        widths = [
            float(width) for width in re.findall(r'width="([\d.]+)%" height="100%"/>(?=<rect|</svg>)', card)
        ]
        assert sum(widths[: len(shown)]) == pytest.approx(100, abs=0.01)


def test_every_check_of_a_pending_job_has_its_stage() -> None:
    gates = {Gate.QUOTA: QUOTA, Gate.COHORT: QUOTA, Gate.FIT: NODES, Gate.ROOM: NODES, Gate.PREEMPTION: NODES}
    for reason in Reason:
        group = gates.get(reason.row.gate)
        assert (reason.value in (group or ())) == (group is not None), reason


def test_a_suspended_job_has_no_stages_and_a_page_costs_the_same_with_many_changes(
    client: Client, w: World
) -> None:
    client.force_login(w.viewer)
    resting = jobs.job(w.queue, w.editor, state=JobState.SUSPENDED)
    assert 'id="stages"' not in page(client, f"/w/team-a/jobs/{resting.pk}")
    times = {"submitted_at": clock.now() - timedelta(hours=2), "finished_at": clock.now()}
    ended = jobs.job(w.queue, w.editor, state=JobState.CANCELLED, **times)
    text = page(client, f"/w/team-a/jobs/{ended.pk}")
    assert "</b> without a start" in text and "so far" not in text
    waits = jobs.job(w.queue, w.editor, submitted_at=clock.now() - timedelta(hours=1))
    costs = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as asked:
            assert "so far" in page(client, f"/w/team-a/jobs/{waits.pk}")
        costs.append(len(asked))
        for second in range(30):
            change(w, waits, CODES[second % len(CODES)], clock.now() - timedelta(seconds=100 + second))
    assert costs[1] <= costs[0]


def runs(w: World, **fields: object) -> Job:
    job = jobs.job(w.queue, w.editor, "runs")
    jobs.allocate(job, w.nodes[0])
    began = clock.now() - timedelta(seconds=100)
    Job.unscoped.filter(pk=job.pk).update(state=JobState.RUNNING, started_at=began, **fields)
    job.refresh_from_db()
    return job


def end_card(client: Client, job: Job) -> str:
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    return text[text.index('id="expected-end"') :].partition("</section>")[0]


def test_the_end_of_a_run_is_estimated_from_earlier_ones(client: Client, w: World) -> None:
    finished_runs(w.queue, w.editor, [3600] * 30)
    job = runs(w)
    client.force_login(w.viewer)
    card = end_card(client, job)
    assert job.started_at is not None
    end = formats.clock_html(job.started_at + timedelta(seconds=3600))
    assert f"<b>{end} – {end}</b>" in card, "all earlier runs took an hour"
    assert "Based on 30 earlier runs of this user with the same image, type and size." in card
    assert "not a guarantee" in card and "maximum run time" not in card


def test_a_limit_bounds_the_end_with_and_without_an_estimate(client: Client, w: World) -> None:
    client.force_login(w.viewer)
    limit = clock.now() + timedelta(seconds=900)
    job = runs(w, max_run_s=1000, deadline_at=limit)
    assert f"<b>By {formats.clock_html(limit)}</b>" in end_card(client, job)
    Job.unscoped.filter(pk=job.pk).update(max_run_s=None, deadline_at=None)
    assert "Unknown: too few finished runs" in end_card(client, job)


def test_a_pending_job_gets_another_priority_on_its_page(client: Client, w: World) -> None:
    low = jobs.priority_class("low")
    jobs.priority_class("vip", 1000)  # needs a grant
    own = jobs.job(w.queue, w.editor, "own")
    foreign = jobs.job(w.queue, w.admin, "foreign")
    client.force_login(w.editor)
    text = page(client, f"/w/team-a/jobs/{own.pk}")
    dialog = text[text.index(f'id="priority-{own.pk}"') :].partition("</dialog>")[0]
    assert re.findall(r'<option value="(\w+)"( selected)?', dialog) == [("normal", " selected"), ("low", "")]
    assert f"priority-{foreign.pk}" not in page(client, f"/w/team-a/jobs/{foreign.pk}")
    assert f"priority-{runs(w).pk}" not in page(client, f"/w/team-a/jobs/{Job.unscoped.get(name='runs').pk}")

    answer = client.post(f"/w/team-a/jobs/{own.pk}/priority", {"priority": "low"}, follow=True)
    assert answer.redirect_chain == [(f"/w/team-a/jobs/{own.pk}", 302)]
    assert "Priority of own changed" in answer.content.decode()
    own.refresh_from_db()
    assert (own.priority_class, own.priority) == (low, low.value)
    event = JobEvent.unscoped.get(job=own, code="priority")
    assert event.numbers == {"from": "normal", "to": "low"}
    refused = client.post(f"/w/team-a/jobs/{own.pk}/priority", {"priority": "vip"}, follow=True)
    assert "no grant for priority class vip" in refused.content.decode()
    assert client.post(f"/w/team-a/jobs/{foreign.pk}/priority", {"priority": "low"}).status_code == 403


def test_a_pending_job_exchanges_its_place_on_its_page(client: Client, w: World) -> None:
    now = clock.now()
    own, other = (
        jobs.job(w.queue, w.editor, name, roles=roles, submitted_at=now - timedelta(minutes=ago))
        for name, ago, roles in (("own", 9, [jobs.RoleOf(cards=8)]), ("other", 5, [jobs.RoleOf(cards=2)]))
    )
    foreign = jobs.job(w.queue, w.admin, "foreign", submitted_at=now - timedelta(minutes=7))
    client.force_login(w.editor)
    text = page(client, f"/w/team-a/jobs/{own.pk}")
    assert "<b>1 of 3</b>" in text
    dialog = text[text.index(f'id="exchange-{own.pk}"') :].partition("</dialog>")[0]
    offered = [(str(other.pk), "other: position 3, GPUs: 2 × GPU")]
    assert re.findall(r'<option value="([^"]+)">([^<]+)', dialog) == offered
    assert "own: position 1 of 3, GPUs: 8 × GPU. After the exchange, own has the position" in dialog
    assert 'id="exchange-' not in page(client, f"/w/team-a/jobs/{foreign.pk}")

    address = f"/w/team-a/jobs/{own.pk}/exchange"
    told = client.post(address, {"other": str(other.pk)}, follow=True).content.decode()
    assert "Place of own exchanged" in told and "<b>3 of 3</b>" in told
    assert "ed exchanged its place in the queue with other" in told
    assert "<b>2 of 3</b>" in page(client, f"/w/team-a/jobs/{foreign.pk}")
    assert client.post(address, {"other": str(foreign.pk)}).status_code == 403
