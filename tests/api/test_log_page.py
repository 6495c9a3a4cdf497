"""The log on a job's page: read once, by task and attempt, with what a script needs to follow it."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from clusters.backends.simulated.faults import set_reachable
from clusters.models import Cluster
from scheduling.models import Job
from tenants.models import Role, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.jobs import RoleOf
from tests.builders.pipeline import run_for, simulated_cluster
from tests.builders.world import World

PAGE = "/w/team-a/jobs/{}/log"


@pytest.fixture
def ran(db: None) -> tuple[Cluster, User, Job]:
    """A job of two tasks that has run for a minute."""
    cell = clusters.cell()
    cluster, flavor = simulated_cluster(cell)
    place = tenancy.workspace("team-a")
    queue = quotas.queue(cell, place, [flavor], cards=8)
    user = tenancy.user("ed", place, Role.EDITOR)
    job = jobs.job(queue, user, "train", roles=[RoleOf(name="worker", replicas=2)], simulate={"run_s": 600})
    run_for(cell, cluster, 60)
    return cluster, user, job


def shown(client: Client, job: Job, **query: object) -> tuple[str, set[str]]:
    """The fragment, and the tasks of its lines."""
    answer = client.get(PAGE.format(job.pk), query)
    assert answer.status_code == 200
    text = answer.content.decode()
    return text, set(re.findall(r'<li data-task="([^"]+)"', text))


def test_lines_of_all_tasks_or_of_one(ran: tuple[Cluster, User, Job], client: Client) -> None:
    _cluster, user, job = ran
    client.force_login(user)
    text, tasks = shown(client, job)
    assert tasks == {"worker-0", "worker-1"}
    assert "found 1 GPU" in text
    assert 'data-log="/api/v1/workspaces/team-a/jobs/' in text
    assert 'data-attempt="1"' in text
    assert "data-log-follow" in text
    text, tasks = shown(client, job, task="worker-1")
    assert tasks == {"worker-1"}
    assert 'data-task="worker-1" data-attempt' in text
    assert "<option selected>worker-1</option>" in text


def test_what_is_over_is_read_and_not_followed(ran: tuple[Cluster, User, Job], client: Client) -> None:
    _cluster, user, job = ran
    client.force_login(user)
    Job.unscoped.filter(pk=job.pk).update(attempt_number=2)
    text, tasks = shown(client, job, attempt=1)
    assert tasks == {"worker-0", "worker-1"}
    assert "data-log-follow" not in text
    assert '<option value="1" selected>Attempt 1 (previous)</option>' in text
    text, tasks = shown(client, job, attempt="x")
    assert not tasks
    assert "No logs yet." in text


def test_what_cannot_be_read_is_said(ran: tuple[Cluster, User, Job], client: Client) -> None:
    cluster, user, job = ran
    client.force_login(user)
    text, _tasks = shown(client, job, task="worker-9")
    assert "Task worker-9 not found" in text
    set_reachable(cluster.pk, False)
    text, tasks = shown(client, job)
    assert "is unreachable" in text
    assert not tasks
    chinese = client.get(PAGE.format(job.pk), headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "跟随" in chinese


def test_a_large_job_is_asked_for_a_task_by_its_name(w: World, client: Client) -> None:
    job = jobs.job(w.queue, w.editor, "many", roles=[RoleOf(name="worker", replicas=101)])
    client.force_login(w.viewer)
    text, tasks = shown(client, job)
    assert 'placeholder="worker-0"' in text
    assert '<select name="task"' not in text
    assert not tasks
    client.force_login(w.outsider)
    assert client.get(PAGE.format(job.pk)).status_code == 404
