"""Jobs in a cluster where Kueue decides: requested, admitted, run and evicted, with the real controller."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.lifecycle import watch
from clusters.backends.kueue.amounts import CORES, GPU_MEMORY
from clusters.backends.kueue.names import name_of
from clusters.gpu import hami
from clusters.models import BackendKind, GpuMode
from clusters.services.cluster import cluster_add, cluster_sync
from clusters.services.flavor import flavor_add, flavors_found
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from foundation.messaging import leases, outbox
from foundation.models import AuditRecord, Hint
from quotas.models import Queue, Quota
from scheduling.delegation.reconciliation import REST_S, UNPLACED_S
from scheduling.delegation.run import delegation_listen, delegation_run
from scheduling.job_file import parse_job
from scheduling.models import Allocation, GpuRequestMode, Job, JobRole, JobState
from scheduling.services.jobs.job import job_resume, job_submit, job_suspend
from tenants.models import Role
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.builders.stage import Stage, state
from tests.fixtures.kubelet import Cluster, Json, Kubelets
from tests.fixtures.kueue import GROUP, Kueue
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.django_db]


class KueueStage(Stage):
    """Two nodes of eight whole cards; two teams with eight cards each, of which each may borrow."""

    def __init__(self, plane: ControlPlane, kueue: Kueue, traveller: time_machine.Traveller) -> None:
        self.api, self.kueue, self.traveller = Cluster(plane), kueue, traveller
        self.kubelets = Kubelets(self.api)
        for name in ("whole-1", "whole-2"):
            size = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
            labels = {"nvidia.com/gpu.product": "A100-40G", "nvidia.com/gpu.memory": "40960"}
            self.api.node(name, size, labels, {})
        self.cell = clusters.cell()
        self.cluster = cluster_add(
            acting_user=SYSTEM, cell=self.cell, name="east", backend=BackendKind.KUEUE,
            connection={"kind": "kubeconfig", "path": str(plane.write_kubeconfig(plane.platform_token))},
        )  # fmt: skip
        for plan in flavors_found(acting_user=SYSTEM, cluster=self.cluster):
            flavor_add(acting_user=SYSTEM, cluster=self.cluster, plan=plan)
        self.flavor = self.cluster.flavors.get()
        teams = [tenancy.workspace(name) for name in ("team-a", "team-b")]
        self.user = tenancy.user("ed", teams[0], Role.EDITOR)
        self.queue, self.other = (quotas.queue(self.cell, team, [self.flavor], cards=8) for team in teams)

    def start(self, name: str, *roles: jobs.RoleOf, queue: Queue | None = None, **fields: Any) -> Job:
        mine, self.queue = self.queue, queue or self.queue
        job = self.submit(name, *roles, **fields)
        self.queue = mine
        JobRole.unscoped.filter(job=job).update(image="pytorch:2.8")
        return job

    def step(self, seconds: float = 3.0) -> None:
        """One round of everything; Kueue takes its own time."""
        pipeline.step(self.cell, self.cluster)
        delegation_run(cluster_id=self.cluster.pk)
        for allocation in Allocation.unscoped.select_related("attempt__job"):
            key = (allocation.namespace, allocation.pod_name)
            self.kubelets.scripts[key] = allocation.attempt.job.simulate
        self.traveller.shift(timedelta(seconds=seconds))
        self.kubelets.step()

    def until(self, reached: Callable[[], object]) -> None:
        def look() -> bool:
            self.step()
            return bool(reached())

        wait_until(look, "what Kueue decides has become of the jobs what it should", within_s=60, every_s=0.1)

    def pods(self) -> dict[str, Json]:
        pods = self.api.items("/api/v1/pods")
        return {pod["metadata"]["name"]: pod for pod in pods}

    def workloads(self) -> list[Json]:
        return self.kueue.items("workloads")

    def queue_object(self, queue: Queue) -> Json:
        return self.kueue.one("clusterqueues", name_of(str(queue.pk)))


@pytest.fixture
def stage(kube: ControlPlane, kueue: Kueue, monkeypatch: pytest.MonkeyPatch) -> Iterator[KueueStage]:
    monkeypatch.setattr(watch, "_IDLE_S", 0.05)
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        try:
            yield KueueStage(kube, kueue, traveller)
        finally:
            kueue.clear()  # before its namespaces go
            Cluster(kube).clear()


def test_a_gang_waits_suspended_runs_when_admitted_and_gives_everything_back(stage: KueueStage) -> None:
    card, cards = ({"cpu": 1, "gpu": {"cards": count}} for count in (1, 2))
    roles = [
        {"name": "master", "image": "pytorch:2.8", "resources": card},
        {"name": "worker", "image": "pytorch:2.8", "resources": cards, "replicas": 3},
    ]
    asked = parse_job({"name": "train", "roles": roles, "simulate": {"run_s": 20}})
    job = job_submit(acting_user=stage.user, workspace=stage.queue.workspace, spec=asked)
    delegation_run(cluster_id=stage.cluster.pk)
    (workload,) = stage.workloads()
    assert [item["count"] for item in workload["spec"]["podSets"]] == [1, 3]
    assert not stage.pods()
    stage.until(lambda: state(job) == JobState.RUNNING)
    assert Counter(pod["status"]["phase"] for pod in stage.pods().values()) == {"Running": 4}
    for allocation in Allocation.unscoped.select_related("node"):
        assert stage.pods()[allocation.pod_name]["spec"]["nodeName"] == allocation.node.name
    # Kueue counts in its own time. No step is taken, at whose end the job might be over.
    wait_until(
        lambda: stage.queue_object(stage.queue)["status"]["admittedWorkloads"] == 1,
        "Kueue counts the workload as admitted",
    )
    stage.until(lambda: state(job) == JobState.SUCCEEDED and not stage.pods() and not stage.workloads())
    stage.assert_nothing_is_held()


def test_what_kueue_decides_is_followed_as_it_comes(stage: KueueStage) -> None:
    borrower = stage.start("borrower", jobs.RoleOf(replicas=2, cards=8), run_s=900)
    delegation_run(cluster_id=stage.cluster.pk)
    assert state(borrower) == JobState.QUEUED
    wait_until(lambda: _is(stage, borrower, "Admitted"), "Kueue has admitted it", within_s=30)
    # It is listened to again in less than half a second, and one time is enough.
    soon = Hint.unscoped.get(topic=f"{outbox.Topic.LISTEN}-later", key=str(stage.cluster.pk))
    assert soon.not_before <= clock.now() + timedelta(seconds=0.5)
    assert delegation_listen(cluster_id=stage.cluster.pk) == 1
    assert state(borrower) == JobState.ADMITTED
    assert delegation_listen(cluster_id=stage.cluster.pk) == 0, "nothing is told twice"

    stage.start("owner", jobs.RoleOf(cards=8), queue=stage.other, run_s=10)
    delegation_run(cluster_id=stage.cluster.pk)
    wait_until(lambda: _is(stage, borrower, "Evicted"), "Kueue takes it back", within_s=30)
    assert delegation_listen(cluster_id=stage.cluster.pk) > 0
    assert state(borrower) == JobState.EVICTING
    assert borrower.events.get(code="evicting").numbers["rule"] == "RECLAIM_NOMINAL"


def _is(stage: KueueStage, job: Job, condition: str) -> bool:
    """Return whether the job's workload has this condition in the cluster."""
    (found,) = (
        item for item in stage.workloads() if item["metadata"]["labels"]["allotment.io/job"] == str(job.pk)
    )
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)


def test_what_the_cluster_has_forgotten_is_listed_again(
    stage: KueueStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    delegation_run(cluster_id=stage.cluster.pk)

    def forgotten(*_: object) -> None:
        raise watch.TooOld

    Hint.unscoped.all().delete()
    with monkeypatch.context() as patched:
        patched.setattr(watch, "follow_changes", forgotten)
        assert delegation_listen(cluster_id=stage.cluster.pk) == 0
    assert [hint.topic for hint in Hint.unscoped.all()] == [outbox.Topic.DELEGATE]


def test_a_removed_workload_is_missed_at_once(stage: KueueStage) -> None:
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    stage.until(lambda: state(job) == JobState.RUNNING)
    delegation_run(cluster_id=stage.cluster.pk)
    (workload,) = stage.workloads()
    stage.api.call("DELETE", f"{GROUP}/namespaces/team-a/workloads/{workload['metadata']['name']}", {})
    wait_until(lambda: not stage.workloads(), "it is gone", within_s=30)
    assert delegation_listen(cluster_id=stage.cluster.pk) == 1
    assert job.events.get(code="evicting").numbers["rule"] == "NOT_READY"


@pytest.mark.parametrize("listening", [True, False])
def test_a_workload_whose_labels_are_taken_off_is_still_there(stage: KueueStage, listening: bool) -> None:
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    stage.until(lambda: state(job) == JobState.RUNNING)
    delegation_run(cluster_id=stage.cluster.pk)
    (workload,) = stage.workloads()
    place = f"{GROUP}/namespaces/team-a/workloads/{workload['metadata']['name']}"
    stage.api.call("PATCH", place, {"metadata": {"labels": dict.fromkeys(workload["metadata"]["labels"])}})
    if listening:
        wait_until(lambda: delegation_listen(cluster_id=stage.cluster.pk), "the watch has told", within_s=30)
    else:
        delegation_run(cluster_id=stage.cluster.pk)
    assert state(job) == JobState.RUNNING
    delegation_run(cluster_id=stage.cluster.pk)
    assert state(job) == JobState.RUNNING
    # What comes of it is followed as before.
    stage.api.call("DELETE", place, {})
    wait_until(lambda: not stage.workloads(), "it is gone", within_s=30)
    delegation_run(cluster_id=stage.cluster.pk)
    assert state(job) == JobState.EVICTING


def test_no_process_follows_what_another_has_read_meanwhile(stage: KueueStage) -> None:
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    delegation_run(cluster_id=stage.cluster.pk)
    wait_until(lambda: _is(stage, job, "Admitted"), "Kueue has admitted it", within_s=30)
    with leases.hold_lease(type(stage.cluster), stage.cluster.pk):
        assert delegation_listen(cluster_id=stage.cluster.pk) == 0, "somebody else is at it"
    assert state(job) == JobState.QUEUED
    assert delegation_listen(cluster_id=stage.cluster.pk) == 1
    assert state(job) == JobState.ADMITTED


def test_an_owner_takes_back_and_the_borrower_runs_again(stage: KueueStage) -> None:
    borrower = stage.start("borrower", jobs.RoleOf(replicas=2, cards=8), run_s=900)
    stage.until(lambda: state(borrower) == JobState.RUNNING)
    loan = borrower.attempts.get().borrowed
    assert loan[f"{stage.flavor.pk}/{Resource.GPU_CARDS}"] == 8
    owner = stage.start("owner", jobs.RoleOf(cards=8), queue=stage.other, run_s=10)
    stage.until(lambda: state(owner) == JobState.QUEUED and owner.reason == "WAITING_FOR_PREEMPTED")
    stage.until(lambda: state(owner) == JobState.RUNNING)
    event = borrower.events.get(code="evicting")
    assert event.numbers["rule"] == "RECLAIM_NOMINAL"
    assert (state(borrower), borrower.reason) == (JobState.QUEUED, "WAITING_FOR_QUOTA")
    assert borrower.reason_numbers["flavor"] == stage.flavor.name
    stage.until(lambda: state(borrower) == JobState.RUNNING)
    assert state(owner) == JobState.SUCCEEDED
    assert borrower.attempts.count() == 2


def test_a_changed_quota_reaches_kueue_and_what_others_change_is_brought_back(stage: KueueStage) -> None:
    stage.step()
    name = name_of(str(stage.queue.pk))
    assert _cards(stage.queue_object(stage.queue)) == "8"
    Quota.unscoped.filter(node=stage.queue.node, resource=Resource.GPU_CARDS).update(own_nominal=4)
    stage.step()
    assert _cards(stage.queue_object(stage.queue)) == "4"
    stage.api.call("PATCH", f"{GROUP}/clusterqueues/{name}", {"spec": {"stopPolicy": "Hold"}})
    stage.api.call("DELETE", f"{GROUP}/namespaces/team-a/localqueues/{name}", {})
    foreign = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "theirs"}}
    stage.api.call("POST", f"{GROUP}/cohorts", foreign)
    stage.step()
    assert stage.queue_object(stage.queue)["spec"]["stopPolicy"] == "None"
    assert stage.kueue.one("localqueues", name, "team-a")["spec"]["clusterQueue"] == name
    told = AuditRecord.unscoped.filter(action="cluster.project").order_by("-pk")[0].after
    assert told == {"created": [f"localqueues/{name}"], "repaired": [f"clusterqueues/{name}"], "removed": []}
    Queue.unscoped.filter(pk=stage.queue.pk).update(closed_at=stage.cell.created_at)
    stage.step()
    left = {item["metadata"]["name"] for item in stage.kueue.items("localqueues")}
    assert left == {name_of(str(stage.other.pk))}
    assert "theirs" in {item["metadata"]["name"] for item in stage.kueue.items("cohorts")}


def _cards(queue: Json) -> str:
    (group,) = queue["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    return next(item["nominalQuota"] for item in flavor["resources"] if item["name"] == "nvidia.com/gpu")


def test_a_suspended_job_gives_back_its_quota_and_a_resumed_one_is_admitted_anew(stage: KueueStage) -> None:
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    stage.until(lambda: state(job) == JobState.RUNNING)
    job_suspend(acting_user=stage.user, job=job)
    stage.until(lambda: state(job) == JobState.SUSPENDED and not _reserved(stage.workloads()))
    stage.until(lambda: stage.queue_object(stage.queue)["status"]["reservingWorkloads"] == 0)
    job_resume(acting_user=stage.user, job=job)
    stage.until(lambda: state(job) == JobState.RUNNING)
    assert job.attempts.count() == 2
    (workload,) = stage.workloads()
    stage.api.call("DELETE", f"{GROUP}/namespaces/team-a/workloads/{workload['metadata']['name']}", {})
    stage.until(lambda: job.events.filter(code="evicting", numbers__rule="NOT_READY").exists())
    stage.until(lambda: state(job) == JobState.RUNNING and job.attempts.count() == 3)


def _reserved(workloads: list[Json]) -> bool:
    return any((workload.get("status") or {}).get("admission") for workload in workloads)


def test_what_finds_no_nodes_leaves_its_quota_to_others(stage: KueueStage) -> None:
    for name in ("whole-1", "whole-2"):
        stage.api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    stage.until(lambda: state(job) == JobState.QUEUED and job.reason == "NO_ROOM")
    assert _reserved(stage.workloads())
    stage.traveller.shift(timedelta(seconds=UNPLACED_S))
    stage.until(lambda: not _reserved(stage.workloads()))
    assert job.events.filter(code="unseated").exists()
    for name in ("whole-1", "whole-2"):
        stage.api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": False}})
    stage.traveller.shift(timedelta(seconds=REST_S))
    stage.until(lambda: state(job) == JobState.RUNNING)
    assert job.attempts.count() == 1


def test_parts_of_cards_and_instances_are_admitted_by_what_they_count(stage: KueueStage) -> None:
    size = {"cpu": "96", "memory": "1Ti", "pods": "110"}
    card = {"id": "GPU-0", "count": 10, "devmem": 46_068, "devcore": 100, "type": "L40S", "health": True}
    cut = {"nvidia.com/gpu.product": "L40S", "nvidia.com/gpu.memory": "46068"}
    stage.api.node("cut-1", {**size, "nvidia.com/gpu": "10"}, cut, {hami.REGISTER: json.dumps([card])})
    mixed = {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81920"}
    stage.api.node("mixed-1", {**size, "nvidia.com/mig-1g.10gb": "4"}, mixed, {})
    cluster_sync(acting_user=SYSTEM, cluster=stage.cluster)
    for plan in flavors_found(acting_user=SYSTEM, cluster=stage.cluster):
        flavor_add(acting_user=SYSTEM, cluster=stage.cluster, plan=plan)
    modes = {flavor.gpu_mode: flavor for flavor in stage.cluster.flavors.all()}
    place = stage.queue.workspace
    parts, instances = (
        quotas.queue(stage.cell, place, [modes[mode]], name=mode, cards=cards)
        for mode, cards in ((GpuMode.SLICE, 1), (GpuMode.MIG, 2))
    )
    part = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=60, gpu_memory=10_000)
    first, second = (stage.start(name, part, queue=parts, run_s=900) for name in ("first", "second"))
    profiled = stage.start(
        "mig", jobs.RoleOf(cards=2, mode=GpuRequestMode.MIG, cores=0), queue=instances, run_s=900
    )
    JobRole.unscoped.filter(job=profiled).update(gpu_profile="1g.10gb")
    stage.until(lambda: (state(first), state(profiled)) == (JobState.RUNNING, JobState.RUNNING))
    asked = {
        item["metadata"]["labels"]["allotment.io/job"]: item["spec"]["podSets"][0]["template"]["spec"]
        for item in stage.workloads()
    }
    (counted,) = asked[str(first.pk)]["containers"]
    assert counted["resources"]["requests"][CORES] == "60"
    assert counted["resources"]["requests"][GPU_MEMORY] == "10k"
    pods = {pod["metadata"]["labels"]["allotment.io/job"]: pod for pod in stage.pods().values()}
    assert pods[str(first.pk)]["metadata"]["annotations"][hami.ALLOCATED] == "GPU-0,NVIDIA,10000,60:;"
    (container,) = pods[str(profiled.pk)]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "2"
    # Of one card's compute 40 % are left, and Kueue says so.
    stage.until(lambda: state(second) == JobState.QUEUED and second.reason == "WAITING_FOR_QUOTA")
    assert str(second.pk) not in pods


def test_without_kueue_nothing_is_concluded_and_who_waits_says_so(stage: KueueStage) -> None:
    runs = stage.start("runs", jobs.RoleOf(cards=8), run_s=900)
    stage.until(lambda: state(runs) == JobState.RUNNING)
    stage.kueue.stop()
    try:
        waits = stage.start("waits", jobs.RoleOf(cards=4))
        for _ in range(5):
            stage.step()
        assert (state(runs), state(waits)) == (JobState.RUNNING, JobState.QUEUED)
        assert waits.reason == "PENDING_EVALUATION"
        assert waits.reason_numbers["cluster"] == "east"
        assert "Kueue" in waits.reason_numbers["scheduler_error"]
    finally:
        stage.kueue.start()
    stage.until(lambda: state(waits) == JobState.RUNNING)
    assert state(runs) == JobState.RUNNING
