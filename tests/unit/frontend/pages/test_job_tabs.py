"""The tabs of a job's page, its log as a file, and what differs between two attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from clusters.backends.base import TaskRef
from clusters.backends.registry import backend_for
from foundation.core import clock
from frontend.pages.jobs.events.attempts import compare_texts
from frontend.pages.jobs.job_tabs import JobTab
from scheduling.models import Allocation, Attempt, Job, JobState
from tests.builders import jobs
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def twice(w: World) -> Job:
    """A job that ran on the first node and runs on the second."""
    job = jobs.job(w.queue, w.editor, "moved")
    jobs.allocate(job, w.nodes[0])
    Attempt.unscoped.filter(job=job).update(
        started_at=clock.now() - timedelta(minutes=9), ended_at=clock.now(), end_reason="NODE_LOST"
    )
    Allocation.unscoped.filter(attempt__job=job).update(released_at=clock.now())
    jobs.allocate(job, w.nodes[1])
    job.refresh_from_db()
    return job


def text(client: Client, job: Job, query: str = "", part: str = "") -> str:
    answer = client.get(f"/w/team-a/jobs/{job.pk}{part}{query}")
    assert answer.status_code == 200, answer.content.decode()[-2000:]
    return answer.content.decode()


PARTS = {
    JobTab.OVERVIEW: 'id="holds"',
    JobTab.TIMELINE: 'id="pods"',
    JobTab.LOGS: 'id="job-log"',
    JobTab.METRICS: 'id="charts"',
    JobTab.TASKS: 'id="tasks"',
    JobTab.SPEC: 'id="spec-text"',
}


@pytest.mark.parametrize("tab", JobTab)
def test_each_tab_shows_its_part_alone_and_is_marked(
    client: Client, w: World, twice: Job, tab: JobTab
) -> None:
    client.force_login(w.viewer)
    html = text(client, twice, f"?tab={tab}")
    assert [of for of, mark in PARTS.items() if mark in html] == [tab]
    current = html.partition('aria-current="page">')  # the side bar has the first
    assert JobTab(tab).value in html
    assert html.count('aria-current="page"') == 2 and current[2]
    assert f"/live?tab={tab}" in html, "what is refreshed is of the same tab"


def test_an_unknown_tab_is_the_overview(client: Client, w: World, twice: Job) -> None:
    client.force_login(w.viewer)
    assert PARTS[JobTab.OVERVIEW] in text(client, twice, "?tab=nonsense")


def test_attempts_are_listed_and_compared(client: Client, w: World, twice: Job) -> None:
    client.force_login(w.viewer)
    html = text(client, twice, "?tab=spec")
    assert "Attempt 1" in html and "Attempt 2" in html and "Not ended" in html
    diff = html.partition('class="code diff"')[2].partition("</pre>")[0]
    assert '<span class="removed">−     node: node-1' in diff
    assert '<span class="added">+     node: node-2' in diff
    assert "main-0:" in diff
    turned = text(client, twice, "?tab=spec&from=2&to=1").partition('class="code diff"')[2]
    assert '<span class="removed">−     node: node-2' in turned
    assert "No differences" in text(client, twice, "?tab=spec&from=2&to=2")
    assert "No differences" not in html


def test_an_unknown_attempt_compares_the_last_two(client: Client, w: World, twice: Job) -> None:
    client.force_login(w.viewer)
    html = text(client, twice, "?tab=spec&from=9&to=x")
    assert '<option value="1" selected>' in html and '<option value="2" selected>' in html
    assert html.index('<option value="1" selected>') < html.index('<option value="2" selected>')


def test_a_job_without_attempts_has_nothing_to_compare(client: Client, w: World) -> None:
    client.force_login(w.viewer)
    html = text(client, jobs.job(w.queue, w.editor, "new"), "?tab=spec")
    assert "No attempts yet." in html and 'id="diff"' not in html


def test_lines_far_from_a_difference_are_left_out() -> None:
    same = [f"line {number}" for number in range(60)]
    left, right = "\n".join(same), "\n".join([*same[:1], "new", *same[1:58], "last"])
    lines = compare_texts(left, right)
    assert [line.text for line in lines if line.kind == "added"] == ["new", "last"]
    assert [line.text for line in lines if line.kind == "removed"] == ["line 58", "line 59"]
    assert sum(line.kind == "gap" for line in lines) == 1
    assert len(lines) < 40
    assert compare_texts(left, left) == []


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, twice: Job) -> list[dict[str, Any]]:
    """The cluster prints two lines; what it was asked for is kept."""
    asked: list[dict[str, Any]] = []
    now = clock.now()

    def read_logs(_self: object, ref: TaskRef, *, since: Any = None, last: Any = None) -> Any:
        asked.append({"pod": ref.name, "since": since, "last": last})
        lines = [(now - timedelta(hours=2), "old"), (now - timedelta(minutes=1), "recent")]
        return iter([f"{at.isoformat()} {line}" for at, line in lines if since is None or at > since])

    cluster = Allocation.unscoped.select_related("node__cluster")[0].node.cluster
    monkeypatch.setattr(type(backend_for(cluster)), "read_logs", read_logs)
    return asked


def test_a_log_is_narrowed_to_a_time_and_saved(
    client: Client, w: World, twice: Job, printed: list[dict[str, Any]]
) -> None:
    client.force_login(w.viewer)
    assert ">old<" in text(client, twice, part="/log") and ">recent<" in text(client, twice, part="/log")
    recent = text(client, twice, "?since=5m", "/log")
    assert ">recent<" in recent and ">old<" not in recent
    assert "since=5m&amp;format=text" in recent, "the file has the same lines"
    printed.clear()
    answer = client.get(f"/w/team-a/jobs/{twice.pk}/log?format=text&task=main-0&attempt=2")
    assert answer["Content-Disposition"] == 'attachment; filename="moved-attempt-2-main-0.log"'
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert [line.split(" ", 1)[1] for line in answer.content.decode().splitlines()] == [
        "main-0 old", "main-0 recent",
    ]  # fmt: skip
    assert printed[0]["last"] == 5000


def test_of_an_ended_job_time_counts_back_from_its_end(
    client: Client, w: World, twice: Job, printed: list[dict[str, Any]]
) -> None:
    ended = clock.now() - timedelta(days=3)
    Job.unscoped.filter(pk=twice.pk).update(state=JobState.FAILED, finished_at=ended)
    client.force_login(w.viewer)
    text(client, twice, "?since=1h", "/log")
    assert printed[0]["since"] == ended - timedelta(hours=1)
