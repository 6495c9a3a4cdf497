"""Sizes changed at the same moment as something else, on a database that really runs it side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from django.db import connection

from clusters.backends.base import PodObservation, PodOutcome, PodPhase, TaskRef
from clusters.models import Device, GpuMode, SimulatedPod
from foundation.core import clock
from foundation.core.errors import AllotmentError
from quotas.models import LedgerEntry
from scheduling.execution.progress import pods_apply
from scheduling.models import Allocation, GpuRequestMode, JobState, MemoryResize, ResizeState, Task
from scheduling.services.cycle import cycle_run
from scheduling.services.resizing.resize import slice_memory_resize
from scheduling.services.resizing.resize_settle import resize_settle
from tests.builders import jobs, pipeline
from tests.builders.stage import Stage, state
from tests.fixtures.postgres import PostgresServer
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.server
CARD: Final = 40_960
ROUNDS: Final = 5


@pytest.fixture
def stage(on_postgres: PostgresServer) -> Stage:
    """Two tasks that share the only card that is any good."""
    made = Stage(mode=GpuMode.SLICE)
    made.cluster.live_resize = True
    made.cluster.save(update_fields=["live_resize"])
    (card, *others) = Device.unscoped.order_by("pk")
    Device.unscoped.filter(pk__in=[other.pk for other in others]).update(healthy=False)
    for name in ("a", "b"):
        submit(made, name, 10_000)
    pipeline.run_for(made.cell, made.cluster, 24)
    Device.unscoped.exclude(pk=card.pk).update(healthy=False)
    assert Device.unscoped.get(holders=2).memory_granted == 20_000
    return made


def submit(stage: Stage, name: str, mib: int) -> Any:
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=20, gpu_memory=mib)
    return stage.submit(name, role, run_s=100_000)


def task(name: str) -> Task:
    return Task.unscoped.select_related("role", "job__queue", "job__workspace").get(job__name=name)


def at_once(*acts: Callable[[], object]) -> list[str]:
    """Return the result of each: "" or the code of its error."""
    barrier = threading.Barrier(len(acts))

    def one(act: Callable[[], object]) -> str:
        barrier.wait(20)
        try:
            act()
        except AllotmentError as error:
            return error.code
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


def ask(stage: Stage, name: str, mib: int) -> Callable[[], object]:
    wanted = task(name)
    return lambda: slice_memory_resize(acting_user=stage.user, task=wanted, memory_mib=mib)


def undo() -> None:
    """Apply refusals of the cluster to all requests."""
    for resize in MemoryResize.unscoped.filter(ended_at=None):
        outcome = PodOutcome.of_refusal("NO", "no")
        assert resize_settle(resize_id=resize.pk, asked=ResizeState.ASKED, outcome=outcome, now=clock.now())


def check() -> None:
    assert_books()
    assert_jobs()


def test_two_tasks_do_not_take_the_same_room(stage: Stage) -> None:
    for _ in range(ROUNDS):
        told = at_once(ask(stage, "a", 20_000), ask(stage, "b", 21_000))
        assert sorted(told) == ["", "CARD_FULL"]
        check()
        undo()
        assert Device.unscoped.get(holders=2).memory_granted == 20_000


def test_one_task_is_changed_once(stage: Stage) -> None:
    for _ in range(ROUNDS):
        told = at_once(ask(stage, "a", 12_000), ask(stage, "a", 13_000))
        assert sorted(told) == ["", "RESIZE_UNDER_WAY"]
        check()
        undo()


def test_an_admission_and_a_growth_do_not_take_the_same_room(stage: Stage) -> None:
    for number in range(ROUNDS):
        job = submit(stage, f"c-{number}", 15_000)
        (told, _) = at_once(ask(stage, "a", 20_000), lambda: cycle_run(cell_id=stage.cell.pk))
        check()
        taken = state(job) == JobState.ADMITTED
        assert (told == "") != taken, "the room was given to both, or to nobody"
        undo()
        if taken:
            pods_apply(cluster=stage.cluster, observations=[ended(f"c-{number}")], now=clock.now())
        else:
            type(job).unscoped.filter(pk=job.pk).update(state=JobState.SUSPENDED, reason="SUSPENDED")


def ended(name: str) -> PodObservation:
    allocation = Allocation.unscoped.get(task__job__name=name, released_at=None)
    SimulatedPod.unscoped.filter(name=allocation.pod_name).update(holds=False)
    ref = TaskRef(allocation.namespace, allocation.pod_name, allocation.known_uid)
    return PodObservation(ref, PodPhase.SUCCEEDED, clock.now(), exit_code=0)


def test_the_end_of_a_pod_and_its_growth(stage: Stage) -> None:
    seen = ended("a")
    told = at_once(
        ask(stage, "a", 20_000),
        lambda: pods_apply(cluster=stage.cluster, observations=[seen], now=clock.now()),
    )
    assert told[0] in ("", "NOT_RUNNING")
    assert not MemoryResize.unscoped.filter(ended_at=None).exists()
    assert Device.unscoped.get(holders=1).memory_granted == 10_000
    check()


@pytest.mark.parametrize("mib", [20_000, 5000])
def test_the_end_of_a_pod_and_the_answer_of_the_cluster(stage: Stage, mib: int) -> None:
    ask(stage, "a", mib)()
    (made,) = MemoryResize.unscoped.all()
    seen = ended("a")
    at_once(
        lambda: resize_settle(
            resize_id=made.pk, asked=ResizeState.ASKED, outcome=PodOutcome.of_success(), now=clock.now()
        ),
        lambda: pods_apply(cluster=stage.cluster, observations=[seen], now=clock.now()),
    )
    made.refresh_from_db()
    assert made.state in (ResizeState.DONE, ResizeState.ENDED)
    assert Device.unscoped.get(holders=1).memory_granted == 10_000
    assert (
        sum(LedgerEntry.unscoped.filter(resource="gpu.memory").values_list("reserved", flat=True)) == 10_000
    )
    check()
