"""The builders make a world that the database accepts."""

from __future__ import annotations

import pytest

from clusters.models import Device
from scheduling.models import Allocation, JobState, Task
from tests.builders import jobs
from tests.builders.world import world


@pytest.mark.django_db
def test_a_world_with_a_running_job_satisfies_every_check() -> None:
    w = world()
    job = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(replicas=2, cards=2)])

    jobs.allocate(job, w.nodes[0])

    assert job.state == JobState.RUNNING
    assert Allocation.unscoped.filter(attempt__job=job).count() == 2
    assert Device.unscoped.filter(holders=1).count() == 4
    assert Task.unscoped.filter(job=job, state="running").count() == 2
