"""The timeline of a queue: run times so far, expected ends from earlier runs, expected starts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
import time_machine
from django.test import Client

from foundation.core import clock
from frontend.pages.policies.queue_timeline import QueueTimeline, describe_timeline
from scheduling.models import Attempt, Job, JobState
from scheduling.services.start_prediction.queue_times import queue_times
from tests.builders import jobs
from tests.builders.predictions import prediction
from tests.builders.world import World, world

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
def w(db: None) -> World:
    with time_machine.travel(NOW, tick=False):
        return world()


def ran(w: World, seconds: int, name: str) -> None:
    """A job of one GPU that came to its own end yesterday, after so many seconds."""
    job = jobs.job(w.queue, w.editor, name, state=JobState.SUCCEEDED)
    begun = NOW - timedelta(days=1)
    Attempt.unscoped.create(
        job=job, number=1, epoch=1, admitted_at=begun, started_at=begun,
        ended_at=begun + timedelta(seconds=seconds), end_reason="",
    )  # fmt: skip


def runs(w: World, since_s: int, name: str = "runs", node: int = 0) -> Job:
    job = jobs.job(w.queue, w.editor, name)
    jobs.allocate(job, w.nodes[node])
    Job.unscoped.filter(pk=job.pk).update(
        started_at=NOW - timedelta(seconds=since_s), admitted_at=NOW - timedelta(seconds=since_s + 5)
    )
    return job


def timeline(w: World) -> QueueTimeline:
    with time_machine.travel(NOW, tick=False):
        found = describe_timeline(w.viewer, w.queue)
    assert found is not None
    return found


def test_an_end_is_expected_from_what_such_jobs_took(w: World) -> None:
    for number in range(30):
        ran(w, 600, f"past-{number}")
    runs(w, 200)
    [row] = timeline(w).running
    assert row.ran == timedelta(seconds=200)
    end = NOW + timedelta(seconds=400)
    assert row.likely == row.wide == (end, end), "all of them took ten minutes"


def test_ranges_are_those_of_the_past_and_never_before_now(w: World) -> None:
    """Of 40 runs of 10, 20 … 400 minutes half of those that last longer end within the middle half."""
    for number in range(1, 41):
        ran(w, 600 * number, f"past-{number}")
    runs(w, 0)
    runs(w, 600 * 20 + 1, "old", node=1)
    old, new = timeline(w).running
    assert new.likely and new.wide and old.likely and old.wide
    minutes = [((moment or NOW) - NOW).total_seconds() / 60 for moment in (*new.wide, *new.likely)]
    assert minutes == pytest.approx([20, 380, 100, 300], abs=25)
    assert min(old.wide[0], old.likely[0]) >= NOW
    # What has run for 200 minutes ends between 210 and 400: half of such runs between 255 and 355.
    assert [((moment or NOW) - NOW).total_seconds() / 60 for moment in old.likely] == pytest.approx(
        [55, 155], abs=25
    )


def test_without_history_no_end_is_told(w: World) -> None:
    for number in range(5):
        ran(w, 600, f"past-{number}")
    runs(w, 60)
    [row] = timeline(w).running
    assert (row.likely, row.wide) == (None, None)
    assert row.unknown == "Too few finished runs in this queue"
    assert [bar.kind for bar in row.bars] == ["ran"]


def test_a_job_whose_tasks_have_not_begun_has_no_run_time(client: Client, w: World) -> None:
    Job.unscoped.filter(pk=runs(w, 60).pk).update(started_at=None, state=JobState.ADMITTED)
    [row] = timeline(w).running
    assert (row.began_at, row.ran, row.bars) == (None, None, [])
    client.force_login(w.viewer)
    with time_machine.travel(NOW, tick=False):
        html = client.get("/ops/queues/team-a/default").content.decode()
    table = html.partition('id="timeline-table"')[2].partition("</table>")[0]
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", table.partition("<tbody>")[2])).split())
    assert words.startswith("runs Starting 1 × GPU – – Too few finished runs"), words


def test_waiting_jobs_have_the_range_of_their_prediction(w: World) -> None:
    with time_machine.travel(NOW, tick=False):
        known, unknown = jobs.job(w.queue, w.editor, "known"), jobs.job(w.queue, w.editor, "unknown")
        made = prediction(known, clock.now())
    first, second = timeline(w).pending
    assert (first.name, second.name) == (known.name, unknown.name)
    assert made.low_s and made.high_s and made.likely_low_s and made.likely_high_s
    assert first.wide == tuple(NOW + timedelta(seconds=bound) for bound in (made.low_s, made.high_s))
    assert first.likely == tuple(
        NOW + timedelta(seconds=bound) for bound in (made.likely_low_s, made.likely_high_s)
    )
    assert (second.wide, second.unknown, second.bars) == (None, "No estimate yet", [])


def test_bars_begin_and_end_where_their_moments_are(w: World) -> None:
    runs(w, 1200)
    shown = timeline(w)
    [bar] = shown.running[0].bars
    assert bar.kind == "ran"
    assert bar.start + bar.width == pytest.approx(shown.now, abs=0.01)
    # Twenty minutes of past, and a sixth of it, which is less than five minutes, of future.
    assert (bar.start, shown.now) == (0.0, pytest.approx(100 * 1200 / (1200 + 300), abs=0.01))


def test_the_page_has_the_same_numbers_as_a_table(client: Client, w: World) -> None:
    runs(w, 1200)
    client.force_login(w.viewer)
    with time_machine.travel(NOW, tick=False):
        for address in ("/ops/queues/team-a/default", "/ops/queues/team-a/default/live"):
            html = client.get(address).content.decode()
            table = html.partition('id="timeline-table"')[2].partition("</table>")[0]
            words = " ".join(unescape(re.sub(r"<[^>]+>", " ", table.partition("<tbody>")[2])).split())
            assert words.startswith("runs Running 1 × GPU 11:40:00 20 min Too few finished runs"), words


def test_jobs_beyond_the_limit_are_counted(w: World) -> None:
    with time_machine.travel(NOW, tick=False):
        for number in range(5):
            jobs.job(w.queue, w.editor, f"waits-{number}")
        found = queue_times(viewer=w.viewer, queue=w.queue, now=NOW, limit=3)
    assert (len(found.pending), found.pending_count, found.running_count) == (3, 5, 0)
