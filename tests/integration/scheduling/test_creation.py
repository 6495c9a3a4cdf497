"""A pod whose creation is unknown does not hold up other jobs, nor its own job for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import time_machine

from clusters.backends.base import PUT_OFF, UNREACHABLE, OutcomeKind, PodOutcome, TaskSpec
from clusters.backends.simulated import backend as simulated
from clusters.models import Cluster, ClusterHealth, Node
from scheduling.execution import execute
from scheduling.execution.creation import ASKED_AT_MOST
from scheduling.execution.execute import execute_cluster
from scheduling.models import Allocation, Job, JobState, Task
from scheduling.services.cycle import cycle_run
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
LOST = PodOutcome.of_unknown("POST /pods: 500 Internal error occurred: failed calling webhook")


class Creations:
    """The cluster's answers for the pods of one job, and the number of requests for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: PodOutcome | None = LOST
        self.asked = 0
        ensure_many = simulated.SimulatedBackend.ensure_many

        def faulty(backend: simulated.SimulatedBackend, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
            stuck = {n for n, spec in enumerate(specs) if spec.ref.name.startswith("stuck")}
            self.asked += len(stuck)
            if self.answer is None:
                return ensure_many(backend, specs)
            others = iter(ensure_many(backend, [s for n, s in enumerate(specs) if n not in stuck]))
            return [self.answer if n in stuck else next(others) for n in range(len(specs))]

        monkeypatch.setattr(simulated.SimulatedBackend, "ensure_many", faulty)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        yield Stage()


@pytest.fixture
def creations(monkeypatch: pytest.MonkeyPatch) -> Creations:
    return Creations(monkeypatch)


def test_one_round_goes_on_behind_an_unknown_creation(
    stage: Stage, creations: Creations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_WANTED", _one_of_wanted)
    stuck = stage.submit("stuck", run_s=900)
    others = [stage.submit(f"other-{n}", run_s=900) for n in range(3)]
    cycle_run(cell_id=stage.cell.pk)
    # The stuck pod comes first in each batch, and the pods after it are created in the same round.
    assert execute_cluster(cluster_id=stage.cluster.pk) == len(others)
    made = Allocation.unscoped.filter(ensured_at__isnull=False)
    assert {row.attempt.job_id for row in made} == {job.pk for job in others}
    assert creations.asked == 1
    assert Task.unscoped.get(job=stuck).message.startswith("NotCreated: POST /pods: 500")


def _one_of_wanted(cluster: object, now: object) -> list[Allocation]:
    return list(execute._wanted(cluster, now)[:1])  # type: ignore[arg-type]


@pytest.mark.parametrize("live", [True, False])
def test_a_job_that_has_ended_on_a_crowded_node_holds_up_no_other(stage: Stage, live: bool) -> None:
    over, other = (stage.submit(name, run_s=900) for name in ("over", "other"))
    cycle_run(cell_id=stage.cell.pk)
    crowded, free = stage.cluster.nodes.order_by("name")
    for job, node in ((over, crowded), (other, free)):
        Allocation.unscoped.filter(attempt__job=job).update(node=node)
    Node.unscoped.filter(pk=crowded.pk).update(cards_unplaced=1)
    if not live:
        Job.unscoped.filter(pk=over.pk).update(state=JobState.SUCCEEDED)
    for _ in range(2):
        execute_cluster(cluster_id=stage.cluster.pk)
    assert (state(over) == JobState.EVICTING) is live
    assert Allocation.unscoped.get(attempt__job=other).ensured_at is not None


def test_a_pod_that_is_made_at_last_runs_as_any(stage: Stage, creations: Creations) -> None:
    job = stage.submit("stuck", run_s=900)
    stage.run(6)
    assert state(job) == JobState.ADMITTED
    assert 1 <= creations.asked <= 3
    creations.answer = None
    stage.run(30)
    assert state(job) == JobState.RUNNING
    assert Task.unscoped.get(job=job).message == ""


def test_a_job_whose_pod_cannot_be_made_gives_its_cards_back_and_is_tried_again(
    stage: Stage, creations: Creations
) -> None:
    job = stage.submit("stuck", run_s=20)
    other = stage.submit("other", run_s=20)
    stage.run(60)
    assert state(other) == JobState.SUCCEEDED
    assert state(job) == JobState.ADMITTED
    assert creations.asked < 8, "it is asked for less and less often"
    with time_machine.travel("2026-11-02T08:01:00Z", tick=False):
        stage.run(420)
    assert creations.asked <= ASKED_AT_MOST + 6
    told = job.events.filter(code="evicting").first()
    assert told is not None
    assert (told.numbers["rule"], told.numbers["code"]) == ("NOT_READY", "UNKNOWN")
    assert "failed calling webhook" in told.numbers["message"]
    creations.answer = None
    with time_machine.travel("2026-11-02T08:10:00Z", tick=False):
        stage.run(300)
    assert state(job) == JobState.SUCCEEDED
    stage.assert_nothing_is_held()


@pytest.mark.parametrize("way", ["nothing was sent", "the cluster is silent"])
def test_silence_of_the_cluster_is_not_held_against_a_job(
    stage: Stage, creations: Creations, way: str
) -> None:
    job = stage.submit("stuck", run_s=900)
    cycle_run(cell_id=stage.cell.pk)
    if way == "nothing was sent":
        creations.answer = PodOutcome.of_unknown("no connection", UNREACHABLE)
    else:
        Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE)
    for _ in range(ASKED_AT_MOST + 1):
        execute_cluster(cluster_id=stage.cluster.pk)
    assert creations.answer is not None and creations.answer.kind is OutcomeKind.UNKNOWN
    assert state(job) == JobState.ADMITTED
    assert Allocation.unscoped.get().ensure_failures == 0


def test_a_job_that_only_waits_for_others_is_never_evicted_for_it(stage: Stage, creations: Creations) -> None:
    creations.answer = PodOutcome.of_unknown("others of its workspace had no answer in this round", PUT_OFF)
    job = stage.submit("stuck", run_s=900)
    stage.run(60)
    assert creations.asked > ASKED_AT_MOST
    assert state(job) == JobState.ADMITTED
    assert Allocation.unscoped.get().ensure_failures == 0
    assert Task.unscoped.get(job=job).message == ""
    creations.answer = None
    with time_machine.travel("2026-11-02T08:01:00Z", tick=False):
        stage.run(20)
    assert state(job) == JobState.RUNNING


def test_what_is_evicted_is_held_until_the_cluster_says_that_it_is_not_there(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = stage.submit("late", run_s=900)
    cycle_run(cell_id=stage.cell.pk)
    with monkeypatch.context() as patched:  # the worker dies before it has recorded the creation
        patched.setattr(execute, "_note_ensured", lambda known: None)
        patched.setattr(execute, "_WANTED", _once(execute._WANTED))
        execute_cluster(cluster_id=stage.cluster.pk)
    Node.unscoped.update(cards_unplaced=1)

    execute_cluster(cluster_id=stage.cluster.pk)

    assert state(job) == JobState.EVICTING
    held = Allocation.unscoped.get()
    assert (held.released_at, held.removed_at) == (None, None), "its pod is there"
    Node.unscoped.update(cards_unplaced=0)
    stage.run(120)
    assert state(job) == JobState.RUNNING
    assert Allocation.unscoped.filter(released_at__isnull=True).count() == 1


def _once(wanted: Any) -> Callable[..., list[Allocation]]:
    asked: list[int] = []

    def first(cluster: object, now: object) -> list[Allocation]:
        asked.append(1)
        return list(wanted(cluster, now)) if len(asked) == 1 else []

    return first
