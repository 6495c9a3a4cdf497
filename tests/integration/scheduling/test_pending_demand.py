"""The demand of pending jobs is the same for any number of queues in one query, and for any size."""

from __future__ import annotations

import pytest

from foundation.core.quantities import Resource
from scheduling.models import Job, JobState
from scheduling.selectors.jobs.row import job_holding_compute
from scheduling.selectors.pending import pending
from tests.builders import jobs
from tests.builders.jobs import RoleOf
from tests.builders.world import world

pytestmark = pytest.mark.django_db


def test_many_queues_are_counted_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    for number, queue in enumerate((w.queue, w.queue, w.other_queue)):
        jobs.job(queue, w.editor, f"job-{number}", roles=[RoleOf(cards=number + 1)])
    jobs.job(w.queue, w.editor, "no-gpu", roles=[RoleOf(cards=0)])
    both = [w.queue.node_id, w.other_queue.node_id]
    named = [pending.pending_demand(nodes) for nodes in (both, both[:1], both[1:], [])]
    assert [(one.jobs, one.cards) for one in named[0].values()] == [(3, 3), (1, 3)]
    assert set(named[1]) == {w.queue.node_id}
    assert named[0][w.queue.node_id].flavor_cards == {w.flavor.pk: 3}

    monkeypatch.setattr(pending, "_NARROW", -1)
    assert [pending.pending_demand(nodes) for nodes in (both, both[:1], both[1:], [])] == named


def test_a_job_of_more_memory_than_32_bits_hold_is_counted() -> None:
    w = world()
    big = RoleOf(replicas=4096, memory=512 * 1024, cpu=1_000_000, cards=8)
    made = jobs.job(w.queue, w.editor, "big", roles=[big, RoleOf(name="rest")])
    found = pending.pending_demand([w.queue.node_id])[w.queue.node_id]
    assert found.cards == 4096 * 8 + 1
    assert found.flavor_amounts[w.flavor.pk, Resource.MEMORY] == 4096 * 512 * 1024 + 1024
    assert found.flavor_amounts[w.flavor.pk, Resource.GPU_CORES] == (4096 * 8 + 1) * 100
    assert found.flavor_amounts[w.flavor.pk, Resource.CPU] == 4096 * 1_000_000 + 1000

    assert job_holding_compute(viewer=w.platform_admin, workspace=w.queue.workspace) == {}
    made.roles.filter(name="main").update(gpu_cards=32_000)
    Job.unscoped.update(state=JobState.RUNNING)
    held = job_holding_compute(viewer=w.platform_admin, workspace=w.queue.workspace)
    assert held == {made.pk: 4096 * 32_000 * 100 + 100}
