"""Execution and observation of a cluster alternate: the second continues when the first is done."""

from __future__ import annotations

import pytest
from django.db.models import QuerySet

from clusters.backends.base import ObservedBatch
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.models import Cluster
from foundation.core import clock
from foundation.messaging.outbox import Topic, add_hint
from foundation.models import Hint
from scheduling.execution import execute
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from tests.builders import clusters, pipeline

pytestmark = pytest.mark.django_db


def put_off(topic: Topic, cluster: Cluster) -> QuerySet[Hint]:
    return Hint.unscoped.filter(topic=f"{topic}-put-off", key=str(cluster.pk))


def test_execution_that_met_an_observation_is_due_when_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = pipeline.simulated_cluster(clusters.cell(), nodes=1)
    waiting: list[bool] = []
    observe = SimulatedBackend.observe_pods

    def meanwhile(backend: SimulatedBackend, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
        execute_cluster(cluster_id=cluster.pk)
        waiting.append(put_off(Topic.EXECUTE, cluster).filter(not_before__gt=clock.now()).exists())
        return observe(backend, cursor, whole=whole)

    monkeypatch.setattr(SimulatedBackend, "observe_pods", meanwhile)
    observe_cluster(cluster_id=cluster.pk)

    assert waiting == [True]
    assert put_off(Topic.EXECUTE, cluster).filter(not_before__lte=clock.now()).exists()


def test_an_observation_that_met_execution_is_due_when_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = pipeline.simulated_cluster(clusters.cell(), nodes=1)
    waiting: list[bool] = []

    def meanwhile(*_: object) -> int:
        observe_cluster(cluster_id=cluster.pk)
        waiting.append(put_off(Topic.OBSERVE, cluster).filter(not_before__gt=clock.now()).exists())
        return 0

    monkeypatch.setattr(execute, "_ensure", meanwhile)
    execute_cluster(cluster_id=cluster.pk)

    assert waiting == [True]
    assert put_off(Topic.OBSERVE, cluster).filter(not_before__lte=clock.now()).exists()


def test_an_observation_without_pods_wakes_no_process() -> None:
    cluster, _ = pipeline.simulated_cluster(clusters.cell(), nodes=1)
    observe_cluster(cluster_id=cluster.pk)

    assert not Hint.unscoped.filter(topic__startswith="execute").exists()


def test_what_may_wait_is_not_hastened() -> None:
    cluster, _ = pipeline.simulated_cluster(clusters.cell(), nodes=1)
    add_hint(Topic.EXECUTE, cluster.pk, delay_s=1.0)
    observe_cluster(cluster_id=cluster.pk)

    assert Hint.unscoped.get(topic="execute-later").not_before > clock.now()
