"""The list of notebooks and services: what they run, how long they are idle, and when they stop."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.test import Client

from clusters.models import BackendKind, Cluster
from foundation.core import clock
from scheduling.models import (
    Allocation,
    IdleAction,
    IdleStretch,
    Job,
    JobKind,
    JobRole,
    JobState,
    Task,
    TaskState,
)
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
PAGE = "/w/team-a/notebooks"


@pytest.fixture
def w() -> World:
    return world()


def started(w: World, name: str, kind: JobKind, **fields: object) -> Job:
    """A running job of one GPU with an image."""
    job = jobs.job(w.queue, w.editor, name, kind=kind, **fields)
    JobRole.unscoped.filter(job=job).update(image="jupyter/<b>lab</b>:4")
    jobs.allocate(job, w.nodes[0])
    now = clock.now()
    Job.unscoped.filter(pk=job.pk).update(
        state=JobState.RUNNING, started_at=now - timedelta(hours=2), attempt_number=1
    )
    Task.unscoped.filter(job=job).update(state=TaskState.RUNNING)
    job.refresh_from_db()
    return job


def idle(job: Job, *, limit_s: int | None, action: IdleAction = IdleAction.SUSPEND) -> None:
    now = clock.now()
    IdleStretch.unscoped.create(
        job=job,
        attempt_number=job.attempt_number,
        since=now - timedelta(minutes=20),
        seen_at=now,
        limit_s=limit_s,
        action=action,
    )


def rows(client: Client, query: str = "") -> dict[str, dict[str, str]]:
    """The rows of the file, by name."""
    answer = client.get(f"{PAGE}?format=csv{query}")
    found = csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig")))
    return {row["Name"]: row for row in found}


def test_notebooks_and_services_that_have_not_ended_are_listed(client: Client, w: World) -> None:
    started(w, "lab", JobKind.NOTEBOOK)
    started(w, "server", JobKind.SERVICE)
    started(w, "training", JobKind.BATCH)
    jobs.job(w.queue, w.editor, "paused", kind=JobKind.NOTEBOOK, state=JobState.SUSPENDED)
    jobs.job(w.queue, w.editor, "old", kind=JobKind.NOTEBOOK, state=JobState.SUCCEEDED)
    client.force_login(w.editor)
    assert set(rows(client)) == {"lab", "server", "paused"}
    assert set(rows(client, "&state=all")) == {"lab", "server", "paused", "old"}
    assert set(rows(client, "&state=suspended")) == {"paused"}
    assert rows(client)["lab"]["Image"] == "jupyter/<b>lab</b>:4"
    text = client.get(PAGE).content.decode()
    assert "jupyter/&lt;b&gt;lab" in text and "<b>lab</b>" not in text
    assert "/w/team-a/jobs/new?kind=notebook" in text


def test_the_time_of_the_stop_is_the_earlier_one_of_limit_and_idle_policy(client: Client, w: World) -> None:
    now = clock.now()
    started(w, "free", JobKind.NOTEBOOK)
    limited = started(w, "limited", JobKind.NOTEBOOK, deadline_at=now + timedelta(minutes=5))
    later = started(w, "later", JobKind.NOTEBOOK, deadline_at=now + timedelta(hours=5))
    shrinks = started(w, "shrinks", JobKind.NOTEBOOK)
    idle(limited, limit_s=3600)
    idle(later, limit_s=3600)
    idle(shrinks, limit_s=3600, action=IdleAction.PREEMPTIBLE)
    client.force_login(w.editor)
    found = rows(client)
    assert (found["free"]["Idle for"], found["free"]["Stops"]) == ("", "")
    assert 1195 <= int(found["limited"]["Idle for"]) <= 1260
    assert found["limited"]["Stops"].startswith(f"{limited.deadline_at:%Y-%m-%d}")
    stretch = IdleStretch.unscoped.get(job=later)
    assert stretch.act_at is not None and later.deadline_at is not None and stretch.act_at < later.deadline_at
    assert f"{stretch.act_at:%H:%M}" in found["later"]["Stops"]
    assert found["shrinks"]["Stops"] == "" and found["shrinks"]["Idle for"] != ""


def test_a_running_task_says_how_to_connect_to_its_pod(client: Client, w: World) -> None:
    job = started(w, "lab", JobKind.NOTEBOOK)
    Allocation.unscoped.filter(task__job=job).update(namespace="team-a", pod_name="lab-1-main-0")
    client.force_login(w.viewer)
    address = f"/w/team-a/jobs/{job.pk}?tab=tasks"
    assert "Pods of a simulated cluster" in client.get(address).content.decode()
    Cluster.unscoped.filter(pk=w.cluster.pk).update(backend=BackendKind.KUBERNETES)
    text = client.get(address).content.decode()
    assert "kubectl exec -it -n team-a lab-1-main-0 -- sh" in text
    assert "kubectl port-forward -n team-a lab-1-main-0 8888:8888" in text
    Task.unscoped.filter(job=job).update(state=TaskState.STARTING)
    assert "kubectl" not in client.get(address).content.decode()


def test_the_form_takes_the_type_from_the_address(client: Client, w: World) -> None:
    client.force_login(w.editor)
    for kind, chosen in (("notebook", "notebook"), ("service", "service"), ("nonsense", "batch")):
        text = client.get(f"/w/team-a/jobs/new?kind={kind}").content.decode()
        assert f'<option value="{chosen}" selected>' in text


def test_another_workspace_has_notebooks_of_its_own(client: Client, w: World) -> None:
    started(w, "lab-of-a", JobKind.NOTEBOOK)
    client.force_login(w.outsider)
    assert client.get(PAGE).status_code == 404
    assert "lab-of-a" not in client.get("/w/team-b/notebooks").content.decode()
