"""What keeps a job from starting, or from ending, is reported, and the job releases its cards in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
import time_machine
from time_machine import Traveller

from clusters.backends.base import BackendUnavailable, PodEvent, PodObservation, PodPhase, TaskRef
from clusters.backends.simulated import faults
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.models import Cluster, ClusterHealth
from foundation.core import clock
from foundation.sql.prepared import PreparedQuery
from frontend.texts.reasons import help_sentence
from scheduling.execution import cluster_health, pod_events
from scheduling.execution.observe import observe_cluster
from scheduling.execution.progress import pods_apply
from scheduling.models import Allocation, Job, JobState, Task, WorkspacePolicy
from scheduling.selectors.events.event import job_cause
from scheduling.services import obstacles
from scheduling.services import sweep as sweeping
from scheduling.services.jobs.job import job_cancel
from tests.builders import jobs
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
START = datetime.fromisoformat("2026-11-02T08:00:00+00:00")


@pytest.fixture
def traveller() -> Iterator[Traveller]:
    with time_machine.travel(START, tick=False) as travelling:
        yield travelling


@pytest.fixture
def stage(traveller: Traveller) -> Stage:
    return Stage()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the cached health and the times of the last requests."""
    monkeypatch.setattr(cluster_health, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(pod_events, "_EVERY_S", 0.0)


def sweep() -> None:
    """Run the platform's periodic sweep."""
    sweeping.sweep_cells()
    sweeping.watch_starts()


def starting(stage: Stage, name: str = "train", start_s: float = 100_000, **fields: object) -> Job:
    """Return a job whose pods take that long to start."""
    job = stage.submit(name, *fields.pop("roles", ()), simulate={"start_s": start_s}, run_s=900, **fields)  # type: ignore[arg-type, misc]
    stage.run(0)
    return job


def observe(
    stage: Stage, job: Job, phase: PodPhase, reason: str = "", message: str = "", **more: object
) -> None:
    held = Allocation.unscoped.filter(attempt__job=job, removed_at=None).order_by("pod_name")[0]
    ref = TaskRef(held.namespace, held.pod_name, held.pod_uid)
    seen = PodObservation(ref, phase, clock.now(), reason=reason, message=message, **more)  # type: ignore[arg-type]
    pods_apply(cluster=stage.cluster, observations=[seen], now=clock.now())
    sweep()
    job.refresh_from_db()


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("ErrImagePull", "IMAGE_PULL_FAILED"),
        ("ImagePullBackOff", "IMAGE_PULL_FAILED"),
        ("CreateContainerConfigError", "CONTAINER_NOT_CREATED"),
        ("RunContainerError", "CONTAINER_NOT_CREATED"),
        ("FailedMount", "VOLUME_NOT_MOUNTED"),
        ("SomethingNew", "POD_NOT_STARTED"),
    ],
)
def test_the_job_itself_says_what_keeps_its_pod(stage: Stage, reason: str, code: str) -> None:
    job = starting(stage)
    observe(stage, job, PodPhase.STARTING, reason, "no such thing")
    assert (state(job), job.reason) == (JobState.STARTING, code)
    told = job.reason_numbers
    assert (told["cause"], told["message"], told["pods"]) == (reason, "no such thing", 1)
    event = job.events.get(code="held_up")
    assert event.numbers["reason"] == code
    observe(stage, job, PodPhase.STARTING, reason, "no such thing")
    assert job.events.filter(code="held_up").count() == 1, "the same is said once"
    observe(stage, job, PodPhase.RUNNING)
    assert (state(job), job.reason, job.reason_numbers) == (JobState.RUNNING, "", {})


def test_a_pod_that_says_nothing_is_named_after_a_while(stage: Stage, traveller: Traveller) -> None:
    job = starting(stage)
    traveller.shift(40)
    sweep()
    job.refresh_from_db()
    assert job.reason == ""
    traveller.shift(10)
    sweep()
    job.refresh_from_db()
    assert job.reason == "POD_NOT_STARTED"
    assert "message" not in job.reason_numbers


def test_a_volume_that_does_not_come_is_read_from_the_events(
    stage: Stage, traveller: Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = starting(stage)
    told: list[PodEvent] = []
    monkeypatch.setattr(SimulatedBackend, "list_pod_events", lambda _, refs: told)
    held = Allocation.unscoped.get()
    ref = TaskRef(held.namespace, held.pod_name)

    def note(reason: str, message: str) -> str:
        traveller.shift(30)
        told.append(PodEvent(ref, clock.now(), reason, message, warning=reason == "FailedMount"))
        observe_cluster(cluster_id=stage.cluster.pk)
        sweep()
        job.refresh_from_db()
        return job.reason

    assert note("FailedMount", 'persistentvolumeclaim "data" not found') == "VOLUME_NOT_MOUNTED"
    assert job.reason_numbers["message"] == 'persistentvolumeclaim "data" not found'
    assert note("Pulling", "Pulling image") == "POD_NOT_STARTED", "the volume has come"


@pytest.mark.parametrize(
    ("cause", "advice"), [("ProvisioningFailed", "provisioner"), ("FailedMount", "config maps exist")]
)
def test_the_help_against_a_volume_that_cannot_be_created_is_not_to_look_for_its_claim(
    stage: Stage, cause: str, advice: str
) -> None:
    job = starting(stage)
    observe(stage, job, PodPhase.STARTING, cause, "no such thing")
    assert job.reason == "VOLUME_NOT_MOUNTED"
    assert advice in help_sentence(job.reason, job.reason_numbers)


def test_more_jobs_than_one_call_looks_at_keep_their_reasons(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstacles, "_LIMIT", 2)
    for name in ("_HELD_UP", "_GIVEN_UP"):
        monkeypatch.setattr(
            obstacles,
            name,
            {key: PreparedQuery(kept._shape) for key, kept in getattr(obstacles, name).items()},
        )
    stuck = [stage.submit(f"job-{n}", jobs.RoleOf(replicas=1 + n % 2 * 2)) for n in range(5)]
    node = stage.cluster.nodes.order_by("name")[0]
    for job in stuck:
        jobs.allocate(job, node, state=JobState.STARTING)
    Allocation.unscoped.update(ensured_at=clock.now())
    Task.unscoped.update(state="starting", message="ErrImagePull: no such image")
    for _ in range(9):
        obstacles.obstacles_note(now=clock.now())
    for number, job in enumerate(stuck):
        job.refresh_from_db()
        assert (job.reason, job.reason_numbers["pods"]) == ("IMAGE_PULL_FAILED", 1 + number % 2 * 2)
        assert job.events.filter(code="held_up").count() == 1
    Task.unscoped.update(state="running", message="")
    for _ in range(3):
        obstacles.obstacles_note(now=clock.now())
    assert set(Job.unscoped.values_list("reason", flat=True)) == {""}


def test_a_start_beyond_the_limit_gives_back_is_tried_again_and_fails_in_the_end(
    stage: Stage, traveller: Traveller
) -> None:
    job = starting(stage)
    ends = []
    for _ in range(3):
        began = clock.now()
        while state(job) in (JobState.ADMITTED, JobState.STARTING):
            stage.run(0)
            traveller.shift(60)
        assert timedelta(seconds=600) <= clock.now() - began <= timedelta(seconds=780)
        ends.append(job.end_reason)
        while state(job) in (JobState.EVICTING, JobState.QUEUED):
            stage.run(0)
            traveller.shift(60)
    assert ends == ["START_LIMIT"] * 3
    assert (state(job), job.end_reason) == (JobState.FAILED, "START_LIMIT")
    cause = job_cause(viewer=stage.user, job=job)
    assert (cause["rule"], cause["limit_s"]) == ("START_LIMIT", 600)
    stage.assert_nothing_is_held()


@pytest.mark.parametrize(
    ("limit_s", "after_s", "ends"), [(120, 150, True), (0, 7200, False), (None, 650, True)]
)
def test_the_limit_is_that_of_the_workspace(
    stage: Stage, traveller: Traveller, limit_s: int | None, after_s: int, ends: bool
) -> None:
    workspace = stage.queue.workspace
    WorkspacePolicy.unscoped.create(tenant=workspace, start_limit_s=limit_s)
    job = starting(stage)
    traveller.shift(after_s)
    sweep()
    assert (state(job) == JobState.EVICTING) is ends


def test_the_clock_of_a_start_stops_while_the_cluster_is_silent(stage: Stage, traveller: Traveller) -> None:
    job = starting(stage)
    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE, health_since=clock.now())
    traveller.shift(3600)
    sweep()
    assert state(job) == JobState.STARTING
    assert (job.reason, job.reason_numbers["cluster"]) == ("CLUSTER_UNREACHABLE", "sim")
    Cluster.unscoped.update(health=ClusterHealth.HEALTHY, health_since=clock.now())
    traveller.shift(590)
    sweep()
    assert state(job) == JobState.STARTING
    traveller.shift(20)
    sweep()
    assert state(job) == JobState.EVICTING


def test_a_restarted_task_that_does_not_start_again_does_not_keep_its_card(
    stage: Stage, traveller: Traveller
) -> None:
    rules = [{"on": "task_failed", "do": "restart_task", "max": 3}]
    job = stage.submit("train", jobs.RoleOf(replicas=2), run_s=9000, lifecycle=rules)
    stage.run(12)
    assert state(job) == JobState.RUNNING
    Job.unscoped.filter(pk=job.pk).update(simulate={"run_s": 9000, "start_s": 100_000})
    observe(stage, job, PodPhase.FAILED, "Error", exit_code=1)
    for _ in range(10):
        traveller.shift(12)
        stage.run(0)
    restarted = Task.unscoped.filter(job=job).exclude(state="running").get()
    assert state(job) == JobState.RUNNING
    assert restarted.state in ("bound", "starting")
    assert job.reason == "POD_NOT_STARTED"
    traveller.shift(600)
    sweep()
    assert state(job) == JobState.EVICTING
    assert job.end_reason == "START_LIMIT"


def test_a_silent_cluster_is_noted_with_the_moment_and_by_its_jobs(
    stage: Stage, traveller: Traveller
) -> None:
    running = stage.submit("running", run_s=9000)
    stage.run(12)
    traveller.shift(15)
    job = starting(stage, "next")
    stage.cluster.refresh_from_db()
    well_since = stage.cluster.health_since
    faults.set_reachable(stage.cluster.pk, False)
    traveller.shift(5)
    silent_since = clock.now()
    for _ in range(3):
        observe_cluster(cluster_id=stage.cluster.pk)
        sweep()
        traveller.shift(5)
    stage.cluster.refresh_from_db()
    assert (stage.cluster.health, stage.cluster.health_since) == (ClusterHealth.UNREACHABLE, silent_since)
    assert (state(job), job.reason) == (JobState.STARTING, "CLUSTER_UNREACHABLE")
    assert (state(running), running.reason) == (JobState.RUNNING, "")
    faults.set_reachable(stage.cluster.pk, True)
    observe_cluster(cluster_id=stage.cluster.pk)
    sweep()
    stage.cluster.refresh_from_db()
    assert stage.cluster.health == ClusterHealth.HEALTHY
    assert stage.cluster.health_since != well_since
    assert (state(job), job.reason) == (JobState.STARTING, "")


def test_silence_behind_a_watch_that_still_answers_is_noted_and_does_not_flap(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a frozen etcd, the API server goes on serving watches from its memory."""
    stage.run(3)

    def silent(_: SimulatedBackend) -> None:
        raise BackendUnavailable("the answer was lost")

    monkeypatch.setattr(SimulatedBackend, "check_connection", silent, raising=False)
    monkeypatch.setattr(cluster_health, "CHECK_EVERY_S", 4.0)
    cluster_health._checked.clear()
    for _ in range(3):
        observe_cluster(cluster_id=stage.cluster.pk)
        stage.cluster.refresh_from_db()
        assert stage.cluster.health == ClusterHealth.UNREACHABLE
    # Another process, which had an answer a moment ago, does not rely on it any more.
    cluster_health._checked[stage.cluster.pk] = (cluster_health.time.monotonic(), True)
    observe_cluster(cluster_id=stage.cluster.pk)
    stage.cluster.refresh_from_db()
    assert stage.cluster.health == ClusterHealth.UNREACHABLE
    monkeypatch.undo()
    cluster_health._checked.clear()
    observe_cluster(cluster_id=stage.cluster.pk)
    stage.cluster.refresh_from_db()
    assert stage.cluster.health == ClusterHealth.HEALTHY


def test_a_pod_that_finalizers_keep_is_named_with_them(stage: Stage) -> None:
    job = stage.submit("train", run_s=9000)
    stage.run(12)
    job_cancel(acting_user=stage.user, job=Job.unscoped.get(pk=job.pk))
    observe(stage, job, PodPhase.RUNNING, finalizers=("example.com/hold", "example.com/other"))
    assert (state(job), job.reason) == (JobState.STOPPING, "POD_TERMINATING")
    assert job.reason_numbers["finalizers"] == "example.com/hold, example.com/other"
    observe(stage, job, PodPhase.REMOVED)
    assert (state(job), job.reason) == (JobState.CANCELLED, "")
    assert Task.unscoped.get(job=job).message == ""


@pytest.mark.parametrize(
    ("reason", "exit_code", "message", "numbers", "text"),
    [
        ("OOMKilled", 137, "", {"reason": "OOMKilled"}, "OOMKilled"),
        ("Error", 137, "", {"signal": "SIGKILL"}, "killed by SIGKILL"),
        ("Error", 139, "core dumped", {"signal": "SIGSEGV"}, "killed by SIGSEGV: core dumped"),
        ("Error", 1, "no data", {}, "no data"),
        ("StartError", 128, "exec: no such file", {"reason": "StartError"}, "StartError: exec: no such file"),
    ],
)
def test_the_reason_of_a_containers_end_is_reported(
    stage: Stage, reason: str, exit_code: int, message: str, numbers: dict[str, str], text: str
) -> None:
    job = stage.submit("train", run_s=9000)
    stage.run(12)
    observe(stage, job, PodPhase.FAILED, reason, message, exit_code=exit_code)
    assert Task.unscoped.get(job=job).message == text
    cause = job_cause(viewer=stage.user, job=job)
    assert {key: cause[key] for key in ("reason", "signal") if key in cause} == numbers
    assert (cause["rule"], cause["exit_code"]) == ("TASK_FAILED", exit_code)


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfcpu", "NodeAffinity", "SomethingNew"])
def test_a_pod_that_a_kubelet_refuses_is_tried_again_after_longer_and_longer_pauses(
    stage: Stage, traveller: Traveller, reason: str
) -> None:
    job = starting(stage)
    pauses = []
    for _ in range(3):
        observe(stage, job, PodPhase.FAILED, reason, "no room for the card")
        assert job.end_reason == "NOT_READY"
        stage.run(30)
        assert state(job) == JobState.QUEUED
        assert job.backoff_until is not None
        pauses.append((job.backoff_until - clock.now()).total_seconds())
        traveller.move_to(job.backoff_until + timedelta(seconds=1))
        stage.run(0)
        assert state(job) in (JobState.ADMITTED, JobState.STARTING)
    assert pauses == [60, 120, 240]
    assert job.failures == 3


def test_a_pod_that_was_deleted_in_the_cluster_is_not_called_a_lost_node(stage: Stage) -> None:
    job = stage.submit("train", run_s=9000)
    stage.run(12)
    observe(stage, job, PodPhase.REMOVED)
    assert job_cause(viewer=stage.user, job=job)["rule"] == "POD_DELETED"
