"""The cost of a batch does not grow with its jobs, and jobs that changed meanwhile are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from clusters.backends.base import PodObservation, PodPhase, TaskRef
from clusters.models import Cell, Cluster, Device, SimulatedPod
from clusters.services.grants import DeviceAmount, NoLongerFree, devices_give_back, devices_take
from foundation.core import clock
from scheduling.execution.changes import NotLocked, RowChanges
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.execution.progress import pods_apply
from scheduling.lifecycle.transitions import IllegalTransition, StaleJob, StateMove, transition_all
from scheduling.models import Allocation, Attempt, Job, JobEvent, JobState, Task, TaskState
from scheduling.services.cycle import cycle_run
from tenants.models import Role
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.django_db
FEW, MANY = 5, 50


class Crowd:
    """A cluster full of jobs of one card each, without pods: their phases are applied as observations."""

    def __init__(self, count: int) -> None:
        self.cell: Cell = clusters.cell()
        self.cluster: Cluster
        self.cluster, flavor = pipeline.simulated_cluster(self.cell, nodes=7)
        place = tenancy.workspace("team-a")
        user = tenancy.user("ed", place, Role.EDITOR)
        queue = quotas.queue(self.cell, place, [flavor], cards=56)
        for number in range(count):
            jobs.job(queue, user, f"job-{number:02}")

    def admit(self) -> None:
        cycle_run(cell_id=self.cell.pk)

    def execute(self) -> None:
        execute_cluster(cluster_id=self.cluster.pk)
        SimulatedPod.unscoped.all().delete()

    def see(self, phase: PodPhase) -> None:
        """Apply an observation of all present pods in this phase."""
        pods = Allocation.unscoped.filter(removed_at__isnull=True).order_by("pod_name")
        code = {PodPhase.SUCCEEDED: 0, PodPhase.FAILED: 1}.get(phase)
        refs = [TaskRef(pod.namespace, pod.pod_name, pod.known_uid) for pod in pods]
        seen = [PodObservation(ref, phase, clock.now(), exit_code=code) for ref in refs]
        pods_apply(cluster=self.cluster, observations=seen, now=clock.now())


def costs(count: int, phases: Sequence[PodPhase]) -> list[int]:
    """Return the statements of admission, of execution and of each batch; check the sums after each."""
    counted = []
    with transaction.atomic():
        crowd = Crowd(count)
        steps: list[Callable[[], None]] = [crowd.admit, crowd.execute]
        steps += [partial(crowd.see, phase) for phase in phases]
        for step in steps:
            with CaptureQueriesContext(connection) as asked:
                step()
            counted.append(len(asked))
            assert_books()
            assert_jobs()
        assert Allocation.unscoped.filter(removed_at__isnull=False).count() == count
        transaction.set_rollback(True)
    return counted


@pytest.mark.parametrize(
    "phases",
    [
        (PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.REMOVED),
        (PodPhase.STARTING, PodPhase.FAILED, PodPhase.REMOVED),
        (PodPhase.RUNNING, PodPhase.REMOVED),
    ],
    ids=["succeed", "fail", "vanish"],
)
def test_fifty_jobs_cost_as_many_statements_as_five(phases: Sequence[PodPhase]) -> None:
    few, many = costs(FEW, phases), costs(MANY, phases)
    assert all(b <= a + 1 for a, b in zip(few, many, strict=True)), (few, many)
    assert max(many[2:]) <= 40, many


def test_of_a_whole_list_only_what_is_news_is_applied() -> None:
    crowd = Crowd(FEW)
    crowd.admit()
    pipeline.run_for(crowd.cell, crowd.cluster, 9)
    assert set(Task.unscoped.values_list("state", flat=True)) == {TaskState.RUNNING}

    def listed() -> list[str]:
        Cluster.unscoped.update(listed_at=None)
        with CaptureQueriesContext(connection) as asked:
            assert observe_cluster(cluster_id=crowd.cluster.pk) > FEW
        return [query["sql"] for query in asked]

    assert not [sql for sql in listed() if 'FROM "scheduling_job"' in sql]
    Task.unscoped.filter(pk=Task.unscoped.earliest("id").pk).update(state=TaskState.STARTING)
    assert [sql for sql in listed() if 'FROM "scheduling_job"' in sql]
    assert set(Task.unscoped.values_list("state", flat=True)) == {TaskState.RUNNING}


@pytest.fixture
def admitted() -> list[Job]:
    Crowd(3).admit()
    return list(Job.unscoped.order_by("name"))


def test_of_many_moves_one_that_comes_late_is_named_and_none_is_made(admitted: list[Job]) -> None:
    Job.unscoped.filter(pk=admitted[1].pk).update(version=F("version") + 1)
    moves = [StateMove(job=job, to=JobState.STARTING, code="starting") for job in admitted]
    with pytest.raises(StaleJob, match="job-01"), transaction.atomic():
        transition_all(moves, now=clock.now())
    assert set(Job.unscoped.values_list("state", flat=True)) == {JobState.ADMITTED}
    assert not JobEvent.unscoped.filter(code="starting").exists()
    assert {job.state for job in admitted} == {JobState.ADMITTED}


def test_of_many_moves_one_that_cannot_be_stops_all(admitted: list[Job]) -> None:
    Job.unscoped.filter(pk=admitted[2].pk).update(state=JobState.RUNNING)
    admitted[2].refresh_from_db()
    moves = [StateMove(job=job, to=JobState.STARTING, code="starting") for job in admitted]
    with pytest.raises(IllegalTransition):
        transition_all(moves, now=clock.now())
    assert Job.unscoped.filter(state=JobState.ADMITTED).count() == 2


def test_each_job_gets_its_own_fields_event_and_version(admitted: list[Job]) -> None:
    first, second, third = admitted
    now = clock.now()
    transition_all(
        [
            StateMove(
                job=first, to=JobState.RUNNING, code="running", fields={"started_at": now, "failures": 1}
            ),
            StateMove(job=second, to=JobState.STARTING, code="starting", numbers={"n": 2}),
            StateMove(
                job=third, to=JobState.RUNNING, code="running", fields={"started_at": now, "failures": 3}
            ),
        ],
        now=now,
    )
    found = Job.unscoped.order_by("name").values_list("state", "started_at", "failures", "version")
    kept = [(job.state, job.started_at, job.failures, job.version) for job in admitted]
    assert list(found) == kept
    assert [row[:3] for row in kept] == [("running", now, 1), ("starting", None, 0), ("running", now, 3)]
    events = JobEvent.unscoped.exclude(code="admitted").order_by("id").values_list("job", "code", "numbers")
    assert list(events) == [
        (first.pk, "running", {}),
        (second.pk, "starting", {"n": 2}),
        (third.pk, "running", {}),
    ]


def test_a_row_that_was_not_locked_after_all_stops_the_batch(admitted: list[Job]) -> None:
    tasks = list(Task.unscoped.filter(job__in=admitted).order_by("id"))
    changes = RowChanges()
    for task in tasks:
        changes.set_fields(task, state=TaskState.RUNNING)
    Task.unscoped.filter(pk=tasks[0].pk).update(state=TaskState.LEAVING)
    with pytest.raises(NotLocked, match="1 rows of Task"), transaction.atomic():
        changes.write_changes()
    assert not Task.unscoped.filter(state=TaskState.RUNNING).exists()


def test_what_is_taken_is_taken_from_all_cards_or_the_refused_one_is_named(admitted: list[Job]) -> None:
    free = list(Device.unscoped.filter(holders=0).order_by("pk")[:3])
    Device.unscoped.filter(pk=free[1].pk).update(healthy=False)
    wanted = {card.pk: DeviceAmount(100, card.memory_capacity, 1) for card in free}
    with pytest.raises(NoLongerFree, match=str(free[1].pk)), transaction.atomic():
        devices_take(wanted)
    assert_books()
    Device.unscoped.filter(pk=free[1].pk).update(healthy=True)
    devices_take(wanted)
    assert Device.unscoped.filter(pk__in=wanted, cores_granted=100, holders=1).count() == 3
    devices_give_back(wanted)
    assert_books()
    assert len(admitted) == Attempt.unscoped.count()
