"""Objects that the pods of an attempt share are removed with the attempt, however it ended."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import time_machine

from clusters.backends.base import Capabilities, GangRef, PodOutcome
from clusters.backends.simulated.backend import SimulatedBackend
from scheduling.execution.gangs import note_left
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.models import Attempt, Job, JobState
from scheduling.models.pod_names import gang_name
from scheduling.services.jobs.job import job_cancel
from tests.builders import jobs
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


class Shared(SimulatedBackend):
    """A cluster that keeps an object for each gang; `there` are those of all tests in this process."""

    capabilities = Capabilities(gangs=True)
    there: dict[GangRef, Mapping[str, str]] = {}

    def remove_gangs(self, gangs: object) -> list[PodOutcome]:
        refs = list(gangs)  # type: ignore[call-overload]
        for ref in refs:
            self.there.pop(ref, None)
        return [PodOutcome.of_success() for _ in refs]

    def list_gangs(self) -> list[tuple[GangRef, Mapping[str, str]]]:
        return list(self.there.items())


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> type[Shared]:
    monkeypatch.setattr(Shared, "there", {})
    for module in ("execute", "observe"):
        monkeypatch.setattr(f"scheduling.execution.{module}.backend_owned", Shared)
    return Shared


def object_of(job: Job, attempt: int) -> tuple[GangRef, Mapping[str, str]]:
    return GangRef("team-a", gang_name(job, attempt)), {"allotment.io/job": str(job.pk)}


@pytest.mark.parametrize("after_s", [0, 3, 15])
def test_a_job_that_is_cancelled_leaves_nothing_behind(shared: type[Shared], after_s: int) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("pair", jobs.RoleOf(replicas=2), run_s=9000)
        stage.run(after_s)
        ref, labels = object_of(job, 1)
        shared.there[ref] = labels
        traveller.shift(after_s + 3)
        job_cancel(acting_user=stage.user, job=Job.unscoped.get())
        stage.run(60)
        assert state(job) == JobState.CANCELLED
        assert not shared.there


def test_what_was_made_again_of_an_earlier_attempt_is_found_while_the_next_runs(
    shared: type[Shared],
) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("pair", jobs.RoleOf(replicas=2), run_s=9000)
        stage.run(15)
        traveller.shift(18)
        begin_eviction(
            job=Job.unscoped.get(), rule="USER", then=JobState.QUEUED, now=Attempt.unscoped.get().admitted_at
        )
        stage.run(60)
        assert (state(job), job.attempt_number) == (JobState.RUNNING, 2)
        old, new = object_of(job, 1), object_of(job, 2)
        shared.there.update([old, new])
        strange = GangRef("team-a", "strange-1")
        shared.there[strange] = {"allotment.io/job": "0193e0c5-0000-7000-8000-000000000000"}
        assert note_left(stage.cluster, shared(stage.cluster)) == [old[0].name]
        traveller.shift(66)
        stage.run(6)
        assert set(shared.there) == {new[0], strange}
