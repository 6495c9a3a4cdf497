"""Changing the memory of a running slice, from the user's request to the file on the node and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from scheduling.models import GpuRequestMode, JobState, MemoryResize, ResizeState, Task
from scheduling.services.resizing.resize import slice_memory_resize
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.agents import Agents
from tests.integration.scheduling.books import assert_books

pytestmark = [pytest.mark.server, pytest.mark.django_db]


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        made.cluster.live_resize = True
        made.cluster.save(update_fields=["live_resize"])
        yield made


@pytest.fixture
def agents(kube: ControlPlane) -> Agents:
    return Agents(kube)


def ask(stage: KubeStage, agents: Agents, mib: int) -> MemoryResize:
    """A running slice of 8 GiB is to have another size."""
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=8192)
    job = stage.start("a", role, run_s=9000)
    stage.run(12)
    assert state(job) == JobState.RUNNING
    agents.step()
    task = Task.unscoped.select_related("role", "job__queue", "job__workspace").get(job=job)
    return slice_memory_resize(acting_user=stage.user, task=task, memory_mib=mib)


@pytest.mark.parametrize("mib", [20_000, 2000])
def test_the_node_has_it_when_the_job_reports_it(stage: KubeStage, agents: Agents, mib: int) -> None:
    made = ask(stage, agents, mib)
    for _ in range(4):
        stage.run(0)
        agents.step()
        assert_books()
    made.refresh_from_db()
    assert made.state == ResizeState.DONE
    (name,) = stage.pods()
    assert agents.limits(name) == [mib]
    stage.assert_bound_as_decided()


def test_without_an_agent_it_is_taken_back_in_time(stage: KubeStage, agents: Agents) -> None:
    made = ask(stage, agents, 20_000)
    stage.run(130)
    made.refresh_from_db()
    assert (made.state, made.code) == (ResizeState.REFUSED, "NOT_CONFIRMED")
    stage.assert_bound_as_decided()
    agents.step()  # one that comes too late finds nothing to be done
    (name,) = stage.pods()
    assert agents.limits(name) == [8192]
    assert_books()
