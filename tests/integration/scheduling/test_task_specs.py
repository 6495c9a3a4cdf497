"""What a pod is told about its gang."""

from __future__ import annotations

import pytest
import time_machine

from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation
from tests.builders import jobs
from tests.builders.stage import Stage

pytestmark = pytest.mark.django_db


def test_an_elastic_gang_counts_the_tasks_that_were_started() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage(cards=4)
        stage.submit("elastic", jobs.RoleOf(name="worker", replicas=8, min_replicas=1, cards=2))
        stage.run(0)

        held = Allocation.unscoped.select_related("task__role", "attempt__job", "node").order_by("pod_name")
        specs = task_specs(list(held))
        assert [spec.environment["WORLD_SIZE"] for spec in specs] == ["2", "2"]
        assert [spec.environment["RANK"] for spec in specs] == ["0", "1"]
        assert specs[0].environment["HOSTS"] == ",".join(spec.ref.name for spec in specs)
