"""A job that is reported to start now starts in the next cycle, and one task more does not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client

from clusters.models import Device, Node
from foundation.core import clock
from foundation.core.errors import Refused
from foundation.core.quantities import Resource
from quotas.models import Quota
from quotas.selectors.pools.pool import WorkspacePool
from quotas.selectors.queues.queue import queue_get
from scheduling.models import Decision, Job, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_submit
from scheduling.services.jobs.job_preview import JobPreview
from scheduling.services.jobs.job_read import job_read
from scheduling.services.jobs.startable import (
    TASKS_MAX,
    WHOLE_SIZES,
    StartableJob,
    TaskSize,
    find_most,
    find_startable,
)
from scheduling.services.start_prediction.free_blocks import EndingBlock, find_ending_block, list_free_nodes
from scheduling.services.start_prediction.queue_times import learn_run_times
from tests.builders import clusters, jobs, quotas
from tests.builders.run_histories import finished_runs
from tests.builders.world import World, world

ONE = TaskSize(1, 0, 1_000, 1_024)


@pytest.mark.parametrize("most", [0, 1, 2, 7, 8, 100, TASKS_MAX])
@pytest.mark.parametrize("guess", [0, 1, 7, 8, 9, 300, 10_000])
def test_the_most_is_found_from_any_guess(most: int, guess: int) -> None:
    tried: list[int] = []

    def preview(tasks: int) -> JobPreview:
        tried.append(tasks)
        return JobPreview("" if tasks <= most else "NO_ROOM", {}, [])

    found = find_most(ONE, preview, guess)

    assert found == StartableJob(ONE, most, "NO_ROOM" if most < TASKS_MAX else "")
    assert len(tried) <= 21
    assert len(tried) == len(set(tried))
    if guess == most > 0:
        assert len(tried) <= 2


@pytest.mark.parametrize("previewed", [0, 1, 2])
def test_what_was_previewed_in_time_is_a_lower_bound(previewed: int) -> None:
    left = iter(range(previewed))

    def preview(_tasks: int) -> JobPreview:
        return JobPreview("", {}, [], timed_out=next(left, None) is None)

    assert find_most(ONE, preview, 4) == StartableJob(ONE, (0, 4, 5)[previewed], "")


def run(here: World, shape: TaskSize, tasks: int) -> JobState:
    """The state of a job of so many tasks after the next cycle."""
    gpu = {"mode": "whole", "cards": shape.gpus}
    resources = {"cpu": f"{shape.cpu}m", "memory": f"{shape.memory_mib}Mi", "gpu": gpu}
    body = {"name": "asked", "roles": [{"name": "main", "replicas": tasks, "resources": resources}]}
    spec = job_read(acting_user=here.editor, workspace=here.workspace, body=body).spec
    job = job_submit(acting_user=here.editor, workspace=here.workspace, spec=spec)
    cycle_run(cell_id=here.cell.pk)
    job.refresh_from_db()
    return JobState(job.state)


@pytest.mark.django_db
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("gpus", WHOLE_SIZES)
@pytest.mark.parametrize("busy", [0, 3, 5])
def test_it_starts_and_one_task_more_does_not(gpus: int, busy: int, more: int) -> None:
    here = world()
    if busy:
        jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=busy)], preemptible=False)
        cycle_run(cell_id=here.cell.pk)
    queue = queue_get(here.editor, here.workspace, here.queue.name)

    (pool,) = find_startable(viewer=here.editor, queue=queue)

    assert not Job.unscoped.filter(workspace=here.workspace).exists()
    assert pool.pools[0].free == 8 * len(here.nodes) - busy
    (found,) = (found for found in pool.jobs if found.shape.gpus == gpus)
    assert found.reason
    if not found.tasks + more:
        return
    try:
        starts = run(here, found.shape, found.tasks + more) == JobState.ADMITTED
    except Refused as refused:
        assert refused.code == found.reason
        starts = False
    assert starts is not bool(more)


@pytest.mark.django_db
def test_cpu_counts_and_gpus_that_cannot_be_used_do_not() -> None:
    here = world()
    Node.unscoped.update(cpu_millicores=7_999)
    here.flavor.cpu_per_gpu = 2_000
    here.flavor.save(update_fields=["cpu_per_gpu"])
    Device.unscoped.filter(node=here.nodes[0], index__lt=4).update(healthy=False)
    Device.unscoped.filter(node=here.nodes[0], index__gte=4).update(foreign_holders=1)

    (pool,) = find_startable(
        viewer=here.editor, queue=queue_get(here.editor, here.workspace, here.queue.name)
    )

    assert pool.pools[0].free == 8 * (len(here.nodes) - 1)
    per_node = {found.shape.gpus: found.tasks for found in pool.jobs}
    assert per_node[8] == 0
    assert per_node[4] == 0
    assert per_node[1] == min(3 * (len(here.nodes) - 1), 8)


def hold(here: World, *held: tuple[int, int, bool]) -> list[Job]:
    """Jobs of the other team that have run for a minute: node, GPUs and whether each is preemptible."""
    found = []
    for node, cards, preemptible in held:
        roles = [jobs.RoleOf(cards=cards)]
        job = jobs.job(
            here.other_queue, here.outsider, f"holds-{cards}", roles=roles, preemptible=preemptible
        )
        jobs.allocate(job, here.nodes[node])
        Job.unscoped.filter(pk=job.pk).update(started_at=clock.now() - timedelta(seconds=60))
        found.append(job)
    for resource, each in ((Resource.GPU_CARDS, 1), (Resource.GPU_CORES, 100)):
        quotas.reserve(here.other_queue, here.flavor, resource, each * sum(cards for _, cards, _ in held))
    return found


@pytest.mark.django_db
def test_a_larger_block_is_expected_when_the_jobs_on_its_node_end(client: Client) -> None:
    """All earlier runs took 600 s; the jobs have run for 60 s."""
    here = world()
    hold(here, (0, 5, False), (1, 6, False))
    queue = queue_get(here.editor, here.workspace, here.queue.name)
    (pool,) = find_startable(viewer=here.editor, queue=queue)
    now = clock.now()
    assert find_ending_block(viewer=here.editor, pools=pool.pools, gpus=4, now=now) is None, (
        "nothing is known"
    )
    finished_runs(here.other_queue, here.outsider, [600] * 25, cards=5)
    learn_run_times.cache_clear()

    nodes = [(one.node, one.gpus) for one in list_free_nodes(pool.pools)]
    block = find_ending_block(viewer=here.editor, pools=pool.pools, gpus=4, now=now)

    assert nodes == [(here.nodes[0].name, 3), (here.nodes[1].name, 2)]
    assert block is not None
    assert block.node in {name for name, _free in nodes}
    assert abs((block.expected_at - now).total_seconds() - 540) < 2 and block.late_at >= block.expected_at
    assert (len(block.jobs.seen), block.jobs.rest) == (0, 1), "the job is of a tenant out of sight"
    client.force_login(here.editor)
    text = client.get(f"/w/team-a/jobs/new/sizes?queue={queue.name}").content.decode()
    assert "4 GPUs on one node: not free; 5 GPUs are free, at most 3 GPUs on one node." in text
    assert f"Expected free on {block.node} about" in text and "jobs of other tenants (1)" in text
    assert "holds-5" not in text and here.other_workspace.name not in text
    assert "3 GPUs free on each of 1 node: 3 GPUs" in text
    address = f"/api/v1/workspaces/team-a/startable-jobs?queue={queue.name}"
    (item,) = client.get(f"{address}&blocks=true").json()["items"]
    assert [(one["node"], one["gpus"]) for one in item["nodes"]] == nodes
    (joined,) = (one for one in item["blocks"] if one["gpus"] == 4)
    assert (joined["node"], joined["jobs"], joined["other_jobs"]) == (block.node, [], 1)
    assert joined["expected_at"] <= joined["late_at"] and joined["preempted_jobs"] == 0
    (without,) = client.get(address).json()["items"]
    assert (without["nodes"], without["blocks"]) == ([], [])


@pytest.mark.django_db
def test_nodes_of_two_clusters_with_one_name_are_no_larger_block() -> None:
    here = world()
    far = clusters.flavor(clusters.cluster(here.cell, "far"))
    clusters.node(far, here.nodes[0].name)
    pools = [WorkspacePool(flavor, 8, 8, {}) for flavor in (here.flavor, far)]

    def find(gpus: int) -> EndingBlock | None:
        return find_ending_block(viewer=here.editor, pools=pools, gpus=gpus, now=clock.now())

    block = find(8)
    assert block is not None and block.node == here.nodes[0].name
    assert find(9) is None


@pytest.mark.django_db
def test_moves_that_would_join_fragments_are_those_of_the_next_cycle() -> None:
    """A job of two GPUs is moved from one node to the other."""
    here = world()
    Quota.unscoped.filter(resource__startswith="gpu").update(own_nominal=F("own_nominal") * 2)
    *_fixed, job = hold(here, (0, 5, False), (1, 4, False), (1, 2, True))
    queue = queue_get(here.editor, here.workspace, here.queue.name)

    (pool,) = find_startable(viewer=here.editor, queue=queue)
    (found,) = (found for found in pool.jobs if found.shape.gpus == 4)

    assert found.tasks == 0 and found.refused is not None
    moved = [(each.job.pk, each.rule.value) for each in found.refused.preempted]
    assert moved == [(job.pk, "CONSOLIDATION")]
    run(here, found.shape, 1)
    assert list(Decision.unscoped.filter(job=job).values_list("code")) == [("CONSOLIDATION",)]
