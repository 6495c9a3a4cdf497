"""Jobs from the queue to their end on a simulated cluster, through every real part but the broker."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from clusters.backends.base import TaskRef
from clusters.backends.registry import backend_for
from clusters.backends.simulated import faults
from clusters.models import Cluster, Device, GpuMode, SimulatedPod
from foundation.core import clock
from foundation.models import Hint
from quotas.models import LedgerEntry, Queue, StopPolicy
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.lifecycle.job_lifecycle import begin_eviction, begin_stopping
from scheduling.models import Allocation, Attempt, DeviceSlice, GpuRequestMode, Job, JobEvent, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.sweep import sweep_cells
from tests.builders import jobs, pipeline
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


def codes(job: Job) -> list[str]:
    return list(JobEvent.unscoped.filter(job=job).order_by("id").values_list("code", flat=True))


def test_a_gang_runs_to_its_end_and_gives_everything_back() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit(
            "train", jobs.RoleOf(name="master"), jobs.RoleOf(name="worker", replicas=4, cards=2)
        )

        stage.run(0)
        assert state(job) in (JobState.ADMITTED, JobState.STARTING)
        held = LedgerEntry.unscoped.get(node=stage.queue.node, resource="gpu.cards")
        assert held.reserved == 9

        stage.run(60)
        assert state(job) == JobState.SUCCEEDED
        assert codes(job)[0] == "admitted"
        assert codes(job)[-1] == "succeeded"
        assert set(job.tasks.values_list("state", "exit_code")) == {("succeeded", 0)}
        attempt = Attempt.unscoped.get(job=job)
        assert attempt.end_reason == "SUCCEEDED"
        assert attempt.started_at is not None
        stage.assert_nothing_is_held()


def test_what_does_not_fit_waits_with_a_reason_and_then_starts() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        first = [stage.submit(f"big-{i}", jobs.RoleOf(cards=8)) for i in range(2)]
        third = stage.submit("third", jobs.RoleOf(cards=4))

        stage.run(0)
        assert all(state(job) != JobState.QUEUED for job in first)
        assert state(third) == JobState.QUEUED
        assert third.reason in ("WAITING_FOR_QUOTA", "WAITING_FOR_BORROWED", "NO_ROOM")
        assert third.reason_numbers

        stage.run(120)
        assert [state(job) for job in (*first, third)] == [JobState.SUCCEEDED] * 3
        stage.assert_nothing_is_held()


def test_slices_share_a_card_to_the_percent_and_the_mebibyte() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage(mode=GpuMode.SLICE)
        piece = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=33, gpu_memory=13_653)
        made = [stage.submit(f"slice-{i}", piece) for i in range(3)]

        stage.run(0)
        device = Device.unscoped.get(cores_granted__gt=0)
        assert (device.cores_granted, device.memory_granted, device.holders) == (99, 40_959, 3)

        stage.run(60)
        assert {state(job) for job in made} == {JobState.SUCCEEDED}
        stage.assert_nothing_is_held()


def test_a_program_that_fails_ends_the_job_unless_its_rules_restart_it() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        broken = stage.submit("broken", jobs.RoleOf(replicas=2), simulate={"exit_code": 3})
        stubborn = stage.submit(
            "stubborn",
            simulate={"exit_code": 137},
            lifecycle=[{"on": "task_failed", "exit_codes": [137], "do": "restart_job", "max": 1}],
        )

        stage.run(70)
        assert state(broken) == JobState.FAILED
        assert broken.end_reason == "TASK_FAILED"
        assert 3 in set(broken.tasks.values_list("exit_code", flat=True))
        assert state(stubborn) == JobState.QUEUED
        assert stubborn.reason == "BACKOFF"

        with time_machine.travel(clock.now() + timedelta(seconds=140), tick=False):
            stage.run(90)
        assert state(stubborn) == JobState.FAILED
        assert stubborn.attempt_number == 2
        stage.assert_nothing_is_held()


def test_the_clusters_own_failures_do_not_use_up_the_restarts_of_a_program() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        again = [{"on": "task_failed", "do": "restart_job", "max": 1}]
        job = stage.submit("unlucky", simulate={"exit_code": 3}, lifecycle=again)
        # The card is lost between the decision and the pod: the kubelet refuses it.
        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)
        faults.device_fail(stage.cluster.pk, DeviceSlice.unscoped.get().device.uuid)
        stage.run(60)
        assert Attempt.unscoped.get(number=1).end_reason == "NOT_READY"

        traveller.shift(120)
        stage.run(40)
        assert Attempt.unscoped.get(number=2).end_reason == "TASK_FAILED"
        assert state(job) == JobState.QUEUED  # one restart is left to it

        traveller.shift(400)
        stage.run(60)
        assert state(job) == JobState.FAILED
        assert job.attempt_number == 3


def test_a_pod_that_never_starts_gives_its_cards_back() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("no-image")
        sweep_cells()
        cycle_run(cell_id=stage.cell.pk)
        execute_cluster(cluster_id=stage.cluster.pk)
        SimulatedPod.unscoped.update(next_ms=None)  # its image cannot be pulled
        observe_cluster(cluster_id=stage.cluster.pk)

        traveller.shift(500)
        stage.run(30)
        assert state(job) == JobState.ADMITTED
        traveller.shift(90)
        stage.run(45)
        assert state(job) == JobState.QUEUED
        assert job.reason == "BACKOFF"
        assert Attempt.unscoped.get().end_reason == "START_LIMIT"
        stage.assert_nothing_is_held()


def test_a_failed_task_is_started_again_where_it_was() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit(
            "stubborn",
            jobs.RoleOf(name="worker", replicas=2, cards=4),
            simulate={"exit_code": 137},
            lifecycle=[{"on": "task_failed", "exit_codes": [137], "do": "restart_task", "max": 1}],
        )

        stage.run(0)
        places = set(Allocation.unscoped.values_list("task_id", "node_id", "pod_name"))
        stage.run(45)
        assert state(job) in (JobState.STARTING, JobState.RUNNING)
        assert codes(job).count("task_restarting") == 2
        assert LedgerEntry.unscoped.get(node=stage.queue.node, resource="gpu.cards").reserved == 8

        with time_machine.travel(clock.now() + timedelta(seconds=48), tick=False):
            stage.run(90)
        assert state(job) == JobState.FAILED
        assert job.attempt_number == 1
        assert set(Allocation.unscoped.values_list("task_id", "node_id", "pod_name")) == places
        assert set(Allocation.unscoped.values_list("restarts", flat=True)) == {1}
        stage.assert_nothing_is_held()


def test_a_role_can_end_the_job_and_the_others_terminate() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit(
            "server",
            jobs.RoleOf(name="master"),
            jobs.RoleOf(name="worker", replicas=2),
            lifecycle=[{"on": "role_completed", "role": "master", "do": "complete_job"}],
        )
        stage.run(15)
        assert state(job) == JobState.RUNNING
        # The workers never end by themselves: only the end of the master can end the job.
        SimulatedPod.unscoped.exclude(name__contains="-master-").update(next_ms=None)

        with time_machine.travel(clock.now() + timedelta(seconds=18), tick=False):
            stage.run(90)
        assert state(job) == JobState.SUCCEEDED
        assert set(job.tasks.values_list("role__name", "state")) == {
            ("master", "succeeded"),
            ("worker", "gone"),
        }
        stage.assert_nothing_is_held()


def test_a_job_may_ask_to_end_rather_than_to_come_back() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("once", run_s=100_000, lifecycle=[{"on": "task_evicted", "do": "fail_job"}])
        stage.run(15)
        traveller.shift(15)
        Queue.unscoped.filter(pk=stage.queue.pk).update(stop_policy=StopPolicy.HOLD_AND_DRAIN)

        stage.run(60)
        assert state(job) == JobState.FAILED
        assert job.end_reason == "QUEUE_DRAINED"
        stage.assert_nothing_is_held()


def test_a_cancelled_job_holds_its_cards_until_its_pods_are_gone() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit("long", run_s=100_000)
        stage.run(15)
        assert state(job) == JobState.RUNNING

        begin_stopping(job=job, now=clock.now())
        assert state(job) == JobState.STOPPING
        assert LedgerEntry.unscoped.get(node=stage.queue.node, resource="gpu.cards").reserved == 1

        with time_machine.travel(clock.now() + timedelta(seconds=15), tick=False):
            stage.run(90)
        assert state(job) == JobState.CANCELLED
        stage.assert_nothing_is_held()


def test_a_suspended_job_gives_back_its_cards_and_keeps_its_place() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit("pause", run_s=100_000)
        stage.run(15)
        submitted = job.submitted_at
        job.refresh_from_db()
        begin_eviction(job=job, rule="USER", then=JobState.SUSPENDED, now=clock.now())

        with time_machine.travel(clock.now() + timedelta(seconds=15), tick=False):
            stage.run(90)
        assert state(job) == JobState.SUSPENDED
        assert job.submitted_at == submitted
        stage.assert_nothing_is_held()


def test_a_lost_node_sends_its_jobs_back_into_the_queue() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("steady", jobs.RoleOf(cards=8), run_s=100_000)
        stage.run(15)
        traveller.shift(15)
        node = Allocation.unscoped.get(task__job=job).node.name
        faults.node_fail(stage.cluster.pk, node)

        stage.run(24)
        traveller.shift(24)
        assert state(job) == JobState.RUNNING  # a node may come back; it has half a minute

        stage.run(60)
        assert state(job) == JobState.RUNNING
        story = [code for code in codes(job) if code != "starting"]  # it may or may not be observed
        assert story[-4:] == ["evicting", "requeued", "admitted", "running"]
        first, second = Attempt.unscoped.filter(job=job).order_by("number")
        assert first.end_reason == "NODE_LOST"
        assert Allocation.unscoped.get(attempt=second).node.name != node


def test_a_failed_card_ends_the_attempt_and_is_not_used_again() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("steady", run_s=100_000)
        stage.run(15)
        traveller.shift(15)
        card = DeviceSlice.unscoped.get(allocation__task__job=job).device
        faults.device_fail(stage.cluster.pk, card.uuid)

        stage.run(90)
        assert state(job) == JobState.RUNNING
        assert job.attempt_number == 2
        assert DeviceSlice.unscoped.get(allocation__task__job=job, released=False).device != card


def test_a_draining_queue_sends_its_jobs_back_and_says_so() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("steady", run_s=100_000)
        stage.run(15)
        traveller.shift(15)
        Queue.unscoped.filter(pk=stage.queue.pk).update(stop_policy=StopPolicy.HOLD_AND_DRAIN)

        stage.run(60)
        assert state(job) == JobState.QUEUED
        assert job.reason == "QUEUE_STOPPED"
        stage.assert_nothing_is_held()


def test_a_time_limit_ends_the_job() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        job = stage.submit("endless", run_s=100_000, max_run_s=30)

        stage.run(120)
        assert state(job) == JobState.FAILED
        assert job.end_reason == "TIME_LIMIT"
        stage.assert_nothing_is_held()


def test_a_pod_deleted_by_hand_sends_the_job_back() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("steady", run_s=100_000)
        stage.run(15)
        traveller.shift(15)
        allocation = Allocation.unscoped.get(task__job=job)
        backend_for(stage.cluster).remove_pod(TaskRef(allocation.namespace, allocation.pod_name), 1)

        stage.run(90)
        assert state(job) == JobState.RUNNING
        assert job.attempt_number == 2


def test_doubled_late_and_repeated_rounds_change_nothing() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        made = [stage.submit(f"job-{i}", jobs.RoleOf(cards=4), run_s=10) for i in range(8)]
        start = clock.now()
        for passed in (0, 0, 5, 5, 30, 30, 31, 60, 60, 61, 62, 90, 90, 120, 150):
            with time_machine.travel(start + timedelta(seconds=passed), tick=False):
                pipeline.step(stage.cell, stage.cluster)
                Cluster.unscoped.update(cursor="")  # without a cursor every pod is observed again
                pipeline.step(stage.cell, stage.cluster)

        assert {state(job) for job in made} == {JobState.SUCCEEDED}
        assert all(job.attempt_number == 1 for job in made)
        stage.assert_nothing_is_held()


def test_the_end_of_a_short_job_is_looked_for_when_it_comes() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        short = stage.submit("short", run_s=0.4, simulate={"start_s": 0})
        stage.submit("long", run_s=3600, simulate={"start_s": 0})
        stage.run(0)
        Hint.unscoped.all().delete()
        observe_cluster(cluster_id=stage.cluster.pk)
        again = Hint.unscoped.get(topic="observe-later")
        assert (again.not_before - clock.now()).total_seconds() == 0.4

        traveller.shift(0.4)
        observe_cluster(cluster_id=stage.cluster.pk)
        assert state(short) == JobState.SUCCEEDED

        pipeline.step(stage.cell, stage.cluster)
        traveller.shift(60)
        observe_cluster(cluster_id=stage.cluster.pk)
        assert not Hint.unscoped.filter(topic="observe-later").exists()  # the next beat suffices
