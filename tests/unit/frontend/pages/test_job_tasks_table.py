"""The table of a job's tasks: their start, restarts and GPUs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.test import Client

from scheduling.models import Allocation, DeviceSlice, Job, JobState, Task
from tests.builders import jobs
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def test_tasks_show_their_start_and_restarts(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "restarted")
    jobs.allocate(job, w.nodes[0])
    address = f"/w/team-a/jobs/{job.pk}?tab=tasks"
    Task.unscoped.filter(job=job).update(started_at=datetime(2026, 5, 4, 3, 2, tzinfo=UTC))
    Allocation.unscoped.filter(attempt__job=job).update(restarts=7)
    client.force_login(w.editor)
    row = client.get(address).content.decode().partition('<tr id="task-')[2].partition("</tr>")[0]
    assert "2026-05-04T03:02" in row.partition('data-label="Started"')[2].partition("</td>")[0]
    assert 'data-label="Restarts">7<' in row
    Job.unscoped.filter(pk=job.pk).update(state=JobState.QUEUED)
    assert 'data-label="Restarts">–<' in client.get(address).content.decode()


def test_tasks_show_the_uuid_of_each_gpu(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "two", roles=[jobs.RoleOf(cards=2)])
    jobs.allocate(job, w.nodes[0])
    held = DeviceSlice.unscoped.filter(allocation__attempt__job=job).values_list("device__uuid", flat=True)
    client.force_login(w.viewer)
    page = client.get(f"/w/team-a/jobs/{job.pk}?tab=tasks").content.decode()
    assert len(held) == 2 and all(f"<code>{uuid}</code>" in page for uuid in held)
