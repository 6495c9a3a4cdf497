"""After a restore the state of a job follows from its pods in the cluster, on a real API server.

A savepoint replaces the backup: it is quick, and the same for the code. Real dumps, restored under real
processes, are in `tests/project/test_card_drill.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchmarks.support.control_plane import ControlPlane
from clusters.models import Cluster, ClusterHealth, Device, ForeignOrigin, ForeignPod, Node
from foundation.core import clock
from foundation.models.installation import installation_id
from quotas.models import LedgerEntry, Quota
from scheduling.models import Allocation, Attempt, GpuRequestMode, Job, JobEvent, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_resume, job_suspend
from tests.builders import jobs, tenancy
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.restored import restored, take_over
from tests.builders.stage import state

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team-a/pods"
CARDS = 8
WHOLE = jobs.RoleOf(cards=CARDS)
PART = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=8192)
LONG = 9000


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        tenancy.platform_admin()
        yield made


def run(stage: KubeStage, seconds: float, *, every_s: float = 3) -> None:
    """Let time pass; check at each step that no node is above its cards and no job has two live attempts."""
    for _ in range(int(seconds // every_s) + 1):
        stage.run(0, every_s=every_s)
        held: Counter[str] = Counter()
        attempts: dict[str, set[str]] = {}
        for pod in stage.pods().values():
            node, labels = pod["spec"].get("nodeName", ""), pod["metadata"]["labels"]
            if not node or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            held[node] += int(limits.get("nvidia.com/gpu", "0"))
            attempts.setdefault(labels["allotment.io/job"], set()).add(labels["allotment.io/attempt"])
        assert {node: cards for node, cards in held.items() if node[:5] == "whole" and cards > CARDS} == {}
        assert {job: numbers for job, numbers in attempts.items() if len(numbers) > 1} == {}


def uids(stage: KubeStage) -> set[str]:
    return {pod["metadata"]["uid"] for pod in stage.pods().values()}


def end(stage: KubeStage, name: str, phase: str, code: int) -> None:
    ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
    container = {
        "name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"terminated": ended},
    }  # fmt: skip
    body = {"status": {"phase": phase, "containerStatuses": [container]}}
    stage.api.call("PATCH", f"{TEAM}/{name}/status", body)


def delete(stage: KubeStage, name: str) -> None:
    stage.api.call("DELETE", f"{TEAM}/{name}", {"gracePeriodSeconds": 0})


def disown(stage: KubeStage) -> None:
    Cluster.unscoped.update(owner_at=clock.now() - timedelta(hours=1))
    run(stage, 3)
    assert Cluster.unscoped.get().health == ClusterHealth.DISOWNED


def codes(job: Job) -> list[str]:
    return list(JobEvent.unscoped.filter(job=job).order_by("id").values_list("code", flat=True))


def assert_books(stage: KubeStage) -> None:
    """Check that what is used, by quota and cards, is what live holds were charged."""
    charged: Counter[str] = Counter()
    for allocation in Allocation.unscoped.filter(released_at=None):
        charged.update(allocation.charge)
    used: Counter[str] = Counter()
    for entry in LedgerEntry.unscoped.filter(reserved__gt=0):
        used[entry.resource] += entry.reserved
    assert used == charged
    held = Allocation.unscoped.filter(released_at=None, slices__released=False).values_list("slices__device")
    assert set(Device.unscoped.filter(holders__gt=0).values_list("pk")) == set(held)
    assert not ForeignPod.unscoped.exists()
    assert not Device.unscoped.filter(foreign_holders__gt=0).exists()
    stage.assert_bound_as_decided()


def test_nothing_is_done_in_the_cluster_until_a_person_has_looked(stage: KubeStage) -> None:
    job = stage.start("job", WHOLE, run_s=LONG)
    with restored(stage):
        run(stage, 24)
        there = uids(stage)
    run(stage, 24)
    assert Cluster.unscoped.get().health == ClusterHealth.DISOWNED
    assert uids(stage) == there
    assert state(job) in (JobState.QUEUED, JobState.ADMITTED)


@pytest.mark.parametrize(
    "roles", [[WHOLE], [jobs.RoleOf(cards=5, replicas=2)], [PART, WHOLE], [jobs.RoleOf(cards=0)]]
)
def test_a_job_that_started_since_goes_on_where_its_pods_are(
    stage: KubeStage, roles: list[jobs.RoleOf]
) -> None:
    roles = [replace(role, name=f"r{number}") for number, role in enumerate(roles)]
    job = stage.start("since", *roles, run_s=LONG)
    with restored(stage):
        run(stage, 24)
        started = Job.unscoped.get(pk=job.pk).started_at
        there = {name: pod["spec"]["nodeName"] for name, pod in stage.pods().items()}
        known = uids(stage)
    disown(stage)
    take_over(stage)
    assert set(Node.unscoped.values_list("closed", flat=True)) == {True}, "until it is known what runs there"
    run(stage, 6)
    job.refresh_from_db()
    assert (job.state, job.attempt_number, job.started_at) == (JobState.RUNNING, 1, started)
    held = Allocation.unscoped.filter(attempt__job=job).values_list("pod_name", "node__name")
    assert dict(held) == there
    assert "adopted" in codes(job)
    assert_books(stage)
    run(stage, 45)
    assert uids(stage) == known, "nothing is made and nothing removed"
    assert set(Node.unscoped.values_list("closed", flat=True)) == {False}
    assert_books(stage)
    for name in there:
        end(stage, name, "Succeeded", 0)
    run(stage, 9)
    assert state(job) == JobState.SUCCEEDED
    stage.assert_nothing_is_held()
    assert not stage.pods()
    run(stage, 3)
    assert not stage.shared()


def test_a_job_that_began_again_since_is_its_later_attempt(stage: KubeStage) -> None:
    job = stage.start("again", WHOLE, run_s=LONG)
    run(stage, 6)
    with restored(stage):
        delete(stage, next(iter(stage.pods())))
        run(stage, 24)
        assert Job.unscoped.get().attempt_number == 2
        there = uids(stage)
    disown(stage)
    take_over(stage)
    run(stage, 24)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.RUNNING, 2)
    assert uids(stage) == there
    ends = dict(Attempt.unscoped.filter(job=job).values_list("number", "end_reason"))
    assert ends == {1: "POD_DELETED", 2: ""}
    assert_books(stage)


def test_an_attempt_whose_pods_were_not_made_is_replaced_by_the_running_one(stage: KubeStage) -> None:
    job = stage.start("unmade", jobs.RoleOf(cards=4), run_s=LONG)
    cycle_run(cell_id=stage.cell.pk)
    assert state(job) == JobState.ADMITTED
    with restored(stage):
        run(stage, 6)
        delete(stage, next(iter(stage.pods())))
        run(stage, 24)
        there = uids(stage)
    disown(stage)
    take_over(stage)
    run(stage, 24)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.RUNNING, 2)
    assert uids(stage) == there
    assert_books(stage)


def test_a_job_that_was_resumed_since_is_resumed(stage: KubeStage) -> None:
    job = stage.start("resumed", WHOLE, run_s=LONG)
    job_suspend(acting_user=stage.user, job=job)
    with restored(stage):
        job_resume(acting_user=stage.user, job=Job.unscoped.get())
        run(stage, 24)
        there = uids(stage)
    disown(stage)
    take_over(stage)
    run(stage, 6)
    assert state(job) == JobState.RUNNING
    assert uids(stage) == there
    assert_books(stage)


def test_a_gang_of_which_a_pod_is_missing_starts_anew_after_the_others_are_gone(stage: KubeStage) -> None:
    job = stage.start("pair", jobs.RoleOf(cards=5, replicas=2), run_s=LONG)
    with restored(stage):
        run(stage, 24)
        names = set(stage.pods())
        delete(stage, min(names))
    disown(stage)
    take_over(stage)
    run(stage, 60)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.RUNNING, 2)
    assert not names & set(stage.pods())
    assert Attempt.unscoped.get(job=job, number=1).end_reason == "STALE_GANG"
    assert_books(stage)


@pytest.mark.parametrize(
    ("phase", "code", "then"), [("Succeeded", 0, JobState.SUCCEEDED), ("Failed", 3, JobState.FAILED)]
)
def test_a_job_that_ended_since_ends_as_its_pods_say(
    stage: KubeStage, phase: str, code: int, then: JobState
) -> None:
    job = stage.start("ended", jobs.RoleOf(cards=3, replicas=2), run_s=LONG)
    with restored(stage):
        run(stage, 24)
    for name in stage.pods():
        end(stage, name, phase, code)
    disown(stage)
    take_over(stage)
    run(stage, 9)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (then, 1)
    stage.assert_nothing_is_held()
    run(stage, 9)
    assert not stage.pods()
    assert not stage.shared()


def test_what_runs_is_counted_above_the_quota_of_the_backup(stage: KubeStage) -> None:
    job = stage.start("more", jobs.RoleOf(cards=CARDS, replicas=2), run_s=LONG)
    rows = Quota.unscoped.filter(resource="gpu.cards", flavor=stage.flavor)
    before = dict(rows.values_list("pk", "own_nominal"))
    rows.update(own_nominal=4)
    with restored(stage):
        for pk, nominal in before.items():
            Quota.unscoped.filter(pk=pk).update(own_nominal=nominal)
        run(stage, 24)
        there = uids(stage)
        assert len(there) == 2
    disown(stage)
    take_over(stage)
    run(stage, 60)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.RUNNING, 1)
    assert uids(stage) == there
    assert_books(stage)


def test_pods_that_cannot_be_adopted_keep_their_job_from_starting_beside_them(stage: KubeStage) -> None:
    job = stage.start("stuck", jobs.RoleOf(cards=4), run_s=LONG)
    with restored(stage):
        run(stage, 24)
        (pod,) = stage.pods().values()
    flavor = stage.flavor
    Node.unscoped.filter(name=pod["spec"]["nodeName"]).update(flavor=None)
    flavor.node_selector = {"kubernetes.io/hostname": "elsewhere"}
    flavor.save()
    disown(stage)
    take_over(stage)
    run(stage, 60)
    assert uids(stage) == {pod["metadata"]["uid"]}
    assert state(job) == JobState.QUEUED
    assert "not_adopted" in codes(job)
    assert ForeignPod.unscoped.get().origin == ForeignOrigin.UNKNOWN


def test_a_job_of_the_lost_time_is_counted_and_left_alone(stage: KubeStage) -> None:
    """The job was submitted after the backup: no row of it exists."""
    waits = stage.start("waits", WHOLE, run_s=LONG)
    with restored(stage):
        stage.start("first", WHOLE, run_s=LONG)
        run(stage, 24)
        there = uids(stage)
        of_lost = next(name for name in stage.pods() if name.startswith("first"))
    more = stage.start("more", WHOLE, run_s=LONG)
    disown(stage)
    take_over(stage)
    run(stage, 90)
    assert uids(stage) == there, "nothing is made and nothing removed"
    assert (state(waits), state(more)) == (JobState.RUNNING, JobState.QUEUED)
    assert [row.name for row in ForeignPod.unscoped.all()] == [of_lost]
    delete(stage, of_lost)  # an operator's decision
    run(stage, 24)
    assert state(more) == JobState.RUNNING


def test_a_backup_of_a_moment_ago_is_noticed_by_the_pods_alone(stage: KubeStage) -> None:
    """The owner was not written since, so the cluster is not disowned; the job would be placed elsewhere."""
    job = stage.start("small", jobs.RoleOf(cards=3), run_s=LONG)
    stage.observe()
    with restored(stage):
        run(stage, 3)
        (pod,) = stage.pods().values()
    Node.unscoped.filter(name=pod["spec"]["nodeName"]).update(cordoned=True)
    run(stage, 24)
    assert Cluster.unscoped.get().health == ClusterHealth.HEALTHY
    assert uids(stage) == {pod["metadata"]["uid"]}
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.RUNNING, 1)
    assert_books(stage)


def test_jobs_that_may_have_run_are_named_and_held_until_a_person_decides(
    stage: KubeStage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ran in the backup and has ended since, one waited; a third one runs since, and continues."""
    ended = stage.start("ended", WHOLE, run_s=LONG)
    run(stage, 6)
    runs = stage.start("runs", WHOLE, run_s=LONG)
    waits = stage.start("waits", WHOLE, run_s=LONG)
    with restored(stage):
        run(stage, 24)
        for name in [name for name in stage.pods() if name.startswith("ended")]:
            delete(stage, name)
        assert state(runs) == JobState.RUNNING
        there = uids(stage)
    disown(stage)
    monkeypatch.setattr("builtins.input", lambda question: "maybe")
    with pytest.raises(CommandError) as refused:
        call_command("cluster", "take-over", "east", "--owner", str(installation_id()))
    assert "team-a/ended (running), team-a/waits (queued)" in str(refused.value)
    assert Cluster.unscoped.get().health == ClusterHealth.DISOWNED, "nothing was changed"
    capsys.readouterr()
    take_over(stage, "--restarting", "hold", "--json", "-")
    told = json.loads(capsys.readouterr().out)
    assert told["held"]
    assert {job["name"] for job in told["restarting"]} == {"ended", "waits"}
    run(stage, 90)
    assert (state(ended), state(waits), state(runs)) == (
        JobState.SUSPENDED, JobState.SUSPENDED, JobState.RUNNING
    )  # fmt: skip
    assert uids(stage) == there
    assert waits.reason_numbers["restored"] == "east"
    assert_books(stage)
    job_resume(acting_user=stage.user, job=waits)
    run(stage, 12)
    assert state(waits) == JobState.RUNNING
