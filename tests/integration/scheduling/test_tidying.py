"""Pods of ended jobs are removed when nothing else needs to be removed, and hardly cost anything."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.backends.base import PodObservation, PodOutcome, PodPhase, TaskRef, TaskSpec
from clusters.backends.simulated.backend import SimulatedBackend
from foundation.core import clock
from foundation.models import Hint
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.execution.removed_pods import record_removed_pods
from scheduling.models import Allocation, Job, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_cancel
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


def gone(pod: Allocation, uid: str | None = None) -> PodObservation:
    ref = TaskRef(pod.namespace, pod.pod_name, pod.known_uid if uid is None else uid)
    return PodObservation(ref, PodPhase.REMOVED, clock.now())


def test_the_end_of_pods_of_ended_jobs_is_noted_without_looking_at_jobs() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        ended = stage.submit("short", run_s=10)
        running = stage.submit("long", run_s=10_000)
        stage.run(60)
        assert (state(ended), state(running)) == (JobState.SUCCEEDED, JobState.RUNNING)
        Allocation.unscoped.update(removed_at=None)
        of = {pod.attempt.job_id: pod for pod in Allocation.unscoped.select_related("attempt")}
        traveller.shift(1)
        news = [gone(of[ended.pk]), gone(of[running.pk])]

        with CaptureQueriesContext(connection) as asked:
            left = record_removed_pods(cluster=stage.cluster, observations=news, now=clock.now())
        assert left == news[1:]
        assert len([query for query in asked if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))]) == 2
        assert Allocation.unscoped.get(attempt__job=ended).removed_at == clock.now()
        assert Allocation.unscoped.get(attempt__job=running).removed_at is None


def test_news_of_another_pod_of_that_name_are_not_taken_for_it() -> None:
    stage = Stage()
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        job = stage.submit("short", run_s=10)
        stage.run(60)
    Allocation.unscoped.update(removed_at=None)
    news = [gone(Allocation.unscoped.get(attempt__job=job), uid="another")]

    assert record_removed_pods(cluster=stage.cluster, observations=news, now=clock.now()) == news
    assert Allocation.unscoped.get(attempt__job=job).removed_at is None


def test_pods_that_others_wait_for_are_removed_first_and_ended_ones_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    remove, ensure = SimulatedBackend.remove_many, SimulatedBackend.ensure_many

    def removed(backend: SimulatedBackend, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
        order.extend(f"remove {ref.name.split('-')[0]}" for ref in refs)
        return remove(backend, refs, grace_s)

    def ensured(backend: SimulatedBackend, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
        order.extend(f"make {spec.ref.name.split('-')[0]}" for spec in specs)
        return ensure(backend, specs)

    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        stage.submit("ends", run_s=10)
        stays = stage.submit("stays", run_s=10_000)
        observe_cluster(cluster_id=stage.cluster.pk)
        cycle_run(cell_id=stage.cell.pk)
        execute_cluster(cluster_id=stage.cluster.pk)
        traveller.shift(40)
        observe_cluster(cluster_id=stage.cluster.pk)
        job_cancel(acting_user=stage.user, job=Job.unscoped.get(pk=stays.pk))
        stage.submit("comes")
        cycle_run(cell_id=stage.cell.pk)
        monkeypatch.setattr(SimulatedBackend, "remove_many", removed)
        monkeypatch.setattr(SimulatedBackend, "ensure_many", ensured)
        execute_cluster(cluster_id=stage.cluster.pk)

    assert order == ["remove stays", "make comes", "remove ends"]


def test_the_next_look_comes_when_the_next_pod_ends_however_long_this_one_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        stage.submit("short", run_s=1.5, simulate={"start_s": 0})
        observe_cluster(cluster_id=stage.cluster.pk)
        cycle_run(cell_id=stage.cell.pk)
        execute_cluster(cluster_id=stage.cluster.pk)
        observe = SimulatedBackend.observe_pods
        ends: list[float] = []

        def slow(backend: SimulatedBackend, cursor: str | None, *, whole: bool = False) -> object:
            batch = observe(backend, cursor, whole=whole)
            ends.append(clock.now().timestamp() + (batch.again_s or 0))
            return batch

        monkeypatch.setattr(SimulatedBackend, "observe_pods", slow)
        monkeypatch.setattr("scheduling.execution.observe.pods_apply", lambda **_: traveller.shift(0.25))
        Hint.unscoped.all().delete()
        observe_cluster(cluster_id=stage.cluster.pk)
        again = Hint.unscoped.get(topic="observe-later")

    assert again.not_before.timestamp() == pytest.approx(ends[0], abs=0.002)
