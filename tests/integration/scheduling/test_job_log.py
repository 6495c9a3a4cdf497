"""Every process that handles a job logs its id: one line for each step, none for an observation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from django.test import Client

from foundation.monitoring import counters
from scheduling.execution.observe import observe_cluster
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.models import JobState
from tests.builders import jobs
from tests.builders.stage import Stage, state
from tests.builders.world import world

pytestmark = pytest.mark.django_db


class Lines(list[dict[str, Any]]):
    """The lines that were logged, as mappings."""

    def of(self, job: object, what: str) -> list[str]:
        """Return the steps of one job, in order."""
        return [line["step"] for line in self if line["event"] == what and line["job"] == str(job)]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    found = Lines()

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.msg, dict):
                found.append(dict(record.msg))

    logger, handler = logging.getLogger("scheduling.lifecycle.journal"), Keep()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    counters._counted.clear()
    yield found
    logger.removeHandler(handler)
    counters._counted.clear()


def test_a_life_is_logged_from_submission_to_the_last_pod(
    lines: Lines, django_capture_on_commit_callbacks: Any
) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit("train", jobs.RoleOf(name="worker", replicas=2, cards=2))
        with django_capture_on_commit_callbacks(execute=True):
            stage.run(90)
        assert state(job) == JobState.SUCCEEDED

    steps = lines.of(job.pk, "job")
    assert steps[0] == "admitted"
    assert steps[-1] == "succeeded"
    assert len(steps) == len(set(steps))
    pods = lines.of(job.pk, "pod")
    assert pods.count("created and bound") == 2
    assert pods.count("gone") == 2
    made = [line for line in lines if line.get("step") == "created and bound"]
    assert all(line["node"].startswith("node-") and "/" in line["pod"] for line in made)
    counted = {(name, labels): count for (name, labels, _), (count, _) in counters._counted.items()}
    assert counted["allotment_job_events_total", ("admitted",)] == 1
    assert counted["allotment_admission_wait_seconds", ()] == 1
    for name in ("cycle", "cycle_snapshot", "cycle_decision", "cycle_commit"):
        assert any(found == f"allotment_{name}_seconds" for found, _ in counted)
    assert {labels for name, labels in counted if name == "allotment_execution_seconds"} == {
        ("sim", "ensure"), ("sim", "remove"), ("sim", "observe")
    }  # fmt: skip


def test_an_eviction_says_why(lines: Lines, django_capture_on_commit_callbacks: Any) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit("train", jobs.RoleOf(cards=1))
        stage.run(0)
        job.refresh_from_db()
        with django_capture_on_commit_callbacks(execute=True):
            begin_eviction(
                job=job, rule="NOT_READY", then=JobState.QUEUED, now=job.admitted_at,
                numbers={"code": "Forbidden", "message": "no"},
            )  # fmt: skip
    (line,) = [line for line in lines if line["event"] == "job"]
    assert (line["step"], line["rule"], line["cause"]) == ("evicting", "NOT_READY", "Forbidden")


def test_looking_again_logs_nothing_again(lines: Lines, django_capture_on_commit_callbacks: Any) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        stage.submit("train", jobs.RoleOf(cards=1))
        stage.run(6)
        with django_capture_on_commit_callbacks(execute=True):
            for _ in range(3):
                observe_cluster(cluster_id=stage.cluster.pk)
    assert lines == []


def test_steps_are_counted_where_their_lines_are_not_shown(
    lines: Lines, django_capture_on_commit_callbacks: Any
) -> None:
    logging.getLogger("scheduling.lifecycle.journal").setLevel(logging.WARNING)
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        for name in ("one", "two"):
            stage.submit(name, jobs.RoleOf(cards=1))
        with django_capture_on_commit_callbacks(execute=True):
            stage.run(0)
    assert lines == []
    totals = {(name, labels): total for (name, labels, _), (_, total) in counters._counted.items()}
    assert totals["allotment_job_events_total", ("admitted",)] == 2
    waits = [key for key in counters._counted if key[0] == "allotment_admission_wait_seconds"]
    assert sum(counters._counted[key][0] for key in waits) == 2


def test_what_is_rolled_back_is_not_logged(lines: Lines, django_capture_on_commit_callbacks: Any) -> None:
    stage = Stage()
    job = stage.submit("train", jobs.RoleOf(cards=1))
    with django_capture_on_commit_callbacks(execute=False):
        stage.run(0)
    assert state(job) != JobState.QUEUED
    assert lines == []


def test_a_submission_is_logged_with_the_id_of_its_request(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Within the request, as outside the test's own transaction.
    monkeypatch.setattr("django.db.transaction.on_commit", lambda work, **_: work())
    here, client = world(), Client()
    client.force_login(here.editor)
    body = {"name": "one", "roles": [{"resources": {"gpu": {"cards": 1}}}]}
    answer = client.post("/api/v1/workspaces/team-a/jobs", body, content_type="application/json")
    assert answer.status_code == 202, answer.content
    (line,) = [line for line in lines if line["event"] == "job"]
    assert (line["job"], line["step"], line["by"]) == (answer.json()["id"], "submitted", here.editor.username)
    assert line["request_id"] == answer["X-Request-ID"]
