"""After a release of quota a cycle evaluates the jobs that move by themselves, not all pending ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import time_machine
from django.db import connection

from clusters.models import SimulatedPod
from foundation.core import clock
from foundation.messaging.outbox import Topic, add_hint
from foundation.models import Hint
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.lifecycle.transitions import advance_job
from scheduling.models import Job, JobState
from scheduling.services import cycle
from scheduling.snapshots import cell_snapshot, snapshot_cache
from tests.builders import jobs
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


@pytest.fixture
def traveller() -> Iterator[time_machine.Traveller]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as found:
        yield found


class Scene(Stage):
    """A cluster of which one job is admitted in the first cycle, and what happens to it after that."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        super().__init__()
        self._traveller = traveller
        observe_cluster(cluster_id=self.cluster.pk)
        self.job = self.submit("first", run_s=20)
        self.decide()

    def decide(self) -> None:
        self._traveller.shift(1)
        assert cycle.cycle_run(cell_id=self.cell.pk) is not None

    def pass_by(self, seconds: float) -> None:
        execute_cluster(cluster_id=self.cluster.pk)
        self._traveller.shift(seconds)
        observe_cluster(cluster_id=self.cluster.pk)

    def look(self) -> str:
        """Return what the next cycle would see at a brief look, as text."""
        taken, keeper = snapshot_cache.checkout_snapshot(self.cell.pk, briefly=True)
        assert keeper is not None
        return taken.snapshot.to_json()


def it_ends_before_a_look(scene: Scene) -> None:
    scene.pass_by(60)
    assert state(scene.job) == JobState.SUCCEEDED


def it_runs(scene: Scene) -> None:
    scene.pass_by(10)
    assert state(scene.job) == JobState.RUNNING


def it_goes_back_after_it_was_seen_running(scene: Scene) -> None:
    scene.pass_by(10)
    scene.decide()
    SimulatedPod.unscoped.all().delete()
    scene.pass_by(30)
    scene.pass_by(30)
    assert state(scene.job) == JobState.QUEUED


def it_ends_after_it_was_seen_running(scene: Scene) -> None:
    scene.pass_by(10)
    scene.decide()
    it_ends_before_a_look(scene)


def another_is_submitted(scene: Scene) -> None:
    scene.submit("second")


@pytest.mark.parametrize(
    "meanwhile",
    [
        it_ends_before_a_look,
        it_runs,
        it_goes_back_after_it_was_seen_running,
        it_ends_after_it_was_seen_running,
        another_is_submitted,
    ],
)
def test_what_moves_by_itself_is_seen(
    meanwhile: Callable[[Scene], None], traveller: time_machine.Traveller
) -> None:
    scene = Scene(traveller)
    before = cell_snapshot(scene.cell.pk).snapshot.to_json()
    meanwhile(scene)
    new = cell_snapshot(scene.cell.pk).snapshot.to_json()

    assert new != before
    assert scene.look() == new


def test_a_change_of_a_pending_job_is_seen_at_the_next_whole_look(
    traveller: time_machine.Traveller,
) -> None:
    scene = Scene(traveller)
    waiting = scene.submit("waits", jobs.RoleOf(cards=8, replicas=3))
    scene.decide()
    before = cell_snapshot(scene.cell.pk).snapshot.to_json()
    rank = jobs.priority_class("urgent", 100)
    row = Job.unscoped.get(pk=waiting.pk)
    advance_job(row, code="priority", now=clock.now(), priority_class=rank, priority=rank.value)
    traveller.shift(3)

    assert scene.look() == before
    taken, _ = snapshot_cache.checkout_snapshot(scene.cell.pk)
    assert taken.snapshot.to_json() == cell_snapshot(scene.cell.pk).snapshot.to_json() != before


@pytest.mark.parametrize(("later_s", "brief"), [(0.2, True), (1.2, False)])
def test_a_brief_look_leaves_the_requested_cycle_to_come(
    later_s: float, brief: bool, traveller: time_machine.Traveller
) -> None:
    scene = Scene(traveller)
    Hint.unscoped.all().delete()
    for topic in (Topic.CYCLE, Topic.FREED):
        add_hint(topic, scene.cell.pk)
    traveller.shift(later_s)
    assert cycle.cycle_run(cell_id=scene.cell.pk, freed=True) is not None
    left = set(Hint.unscoped.filter(key=str(scene.cell.pk)).values_list("topic", flat=True))

    # Embedded, each cycle looks at all: it waits its turn anyway.
    assert left == ({Topic.CYCLE.value} if brief and connection.vendor == "postgresql" else set())


def test_a_job_without_a_turn_in_a_brief_cycle_has_one_in_the_next_whole_one(
    traveller: time_machine.Traveller,
) -> None:
    scene = Scene(traveller)
    scene.submit("waits", jobs.RoleOf(cards=8, replicas=2))
    waiting = scene.submit("waits behind", jobs.RoleOf(cards=4, replicas=4))
    scene.decide()
    told = Job.unscoped.get(pk=waiting.pk).reason
    Hint.unscoped.all().delete()
    traveller.shift(0.2)
    assert cycle.cycle_run(cell_id=scene.cell.pk, freed=True) is not None

    assert Job.unscoped.get(pk=waiting.pk).reason == told != "PENDING_EVALUATION"
    later = set(Hint.unscoped.filter(key=str(scene.cell.pk)).values_list("topic", flat=True))
    assert later == ({"cycle-later"} if connection.vendor == "postgresql" else set())
