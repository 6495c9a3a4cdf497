"""Draining a node in a simulated cell: its jobs are evicted, wait in their queues and start elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from clusters.backends.base import PodOutcome
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.models import Cluster, ClusterHealth, ForeignPod, Node, NodeCordon, NodeEvent
from clusters.services.node_cordon import node_cordon, node_uncordon
from foundation.core import clock
from foundation.models import AuditRecord
from frontend.pages.jobs.events.event_rows import job_event_rows
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.models import Allocation, Job, JobState
from scheduling.selectors.allocations.node_drain import preview_drain
from scheduling.services.node_drain import node_drain
from tenants.models import User
from tests.builders import jobs, tenancy
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


class MovingStage(Stage):
    """A stage in time that goes on where the last round has ended."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        super().__init__()
        self.traveller = traveller
        Cluster.unscoped.update(health=ClusterHealth.HEALTHY)

    def run(self, seconds: float, *, every_s: float = 3.0) -> None:
        super().run(seconds, every_s=every_s)
        self.traveller.shift(timedelta(seconds=seconds))


@pytest.fixture
def stage() -> Iterator[Stage]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        yield MovingStage(traveller)


@pytest.fixture
def ops(stage: Stage) -> User:
    return tenancy.platform_admin()


def where(job: Job) -> set[str]:
    held = Allocation.unscoped.filter(attempt__job=job, released_at__isnull=True)
    return set(held.values_list("node__name", flat=True))


def started(stage: Stage, name: str, *roles: jobs.RoleOf, **fields: Any) -> tuple[Job, Node]:
    job = stage.submit(name, *roles, run_s=100_000, **fields)
    stage.run(24)
    assert state(job) == JobState.RUNNING
    (place,) = where(job)
    return job, Node.unscoped.get(name=place)


def evictions(job: Job) -> list[dict[str, Any]]:
    return list(job.events.filter(code="evicting").order_by("id").values_list("numbers", flat=True))


def drained(node: Node) -> bool:
    row = NodeCordon.unscoped.filter(node=node, ended_at__isnull=True).first()
    return row is not None and row.drained_at is not None


def test_its_jobs_return_to_their_queue_and_start_elsewhere(stage: Stage, ops: User) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=2))
    submitted = job.submitted_at
    node_drain(acting_user=ops, node=node, reason="a fan fails")
    assert where(job) == {node.name}, "nothing leaves before the cluster has cordoned the node"
    stage.run(60)
    assert state(job) == JobState.RUNNING
    assert where(job) == {"node-01", "node-02"} - {node.name}
    assert job.submitted_at == submitted
    assert evictions(job) == [{"rule": "NODE_DRAINED", "node": node.name, "by": "operator"}]
    first, second = job.attempts.order_by("number")
    assert (first.end_reason, second.ended_at) == ("NODE_DRAINED", None)
    assert first.end_reason not in {rule.value for rule in PREEMPTED}, "it counts for no cap on evictions"
    assert drained(node)
    told = list(NodeEvent.unscoped.filter(node=node).order_by("id").values_list("code", flat=True))
    assert told == ["added", "cordoned", "drain", "drain-done"]
    later = stage.submit("later", jobs.RoleOf(cards=8), run_s=100_000)
    stage.run(24)
    assert state(later) == JobState.QUEUED, "nothing new comes to the node"


def test_the_timeline_and_the_audit_say_why(stage: Stage, ops: User) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=2), checkpoint_interval_s=3600)
    node_drain(acting_user=ops, node=node, reason="a fan fails")
    stage.run(60)
    (text,) = [row.text for row in job_event_rows(job.events.order_by("id")) if row.tag == "Evicted"]
    assert text == f"Node drained: Node {node.name} drained by a platform admin"
    assert "a fan fails" not in text, "the reason is for operators"
    record = AuditRecord.unscoped.get(action="node.drain")
    assert (record.actor_name, record.entity_id) == (ops.username, str(node.pk))
    assert {"name": node.name, "reason": "a fan fails", "jobs": 1}.items() <= record.after.items()


def test_a_gang_is_evicted_as_a_whole_and_others_stay(stage: Stage, ops: User) -> None:
    gang = stage.submit("gang", jobs.RoleOf(replicas=2, cards=5), run_s=100_000)
    stage.run(24)
    assert where(gang) == {"node-01", "node-02"}
    small = stage.submit("small", jobs.RoleOf(cards=1), run_s=100_000)
    stage.run(24)
    (place,) = where(small)
    other = Node.unscoped.exclude(name=place).get()
    found = preview_drain(viewer=ops, node=other)
    assert [(one.job.name, one.tasks) for one in found.jobs] == [("gang", 1)]
    node_drain(acting_user=ops, node=other)
    stage.run(40)
    assert state(gang) == JobState.QUEUED, "half of it has no room"
    assert where(small) == {place} and not evictions(small)
    assert drained(other)


def test_twice_evicts_once(stage: Stage, ops: User) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=8))
    filler, _ = started(stage, "filler", jobs.RoleOf(cards=8))
    first = node_drain(acting_user=ops, node=node)
    assert node_drain(acting_user=ops, node=node) == first
    stage.run(40)
    assert state(job) == JobState.QUEUED and state(filler) == JobState.RUNNING
    again = node_drain(acting_user=ops, node=node)
    assert again is not None and again != first, "what came since would leave as well"
    stage.run(20)
    assert drained(node) and len(evictions(job)) == 1


def test_a_cordon_leaves_jobs_alone_and_a_drain_follows(stage: Stage, ops: User) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=2))
    node_cordon(acting_user=ops, node=node, reason="a fan fails")
    stage.run(30)
    assert where(job) == {node.name}
    row = node_drain(acting_user=ops, node=node)
    assert row is not None and row.reason == "a fan fails"
    node_cordon(acting_user=ops, node=node, reason="the fan is here")
    stage.run(60)
    assert where(job) == {"node-01", "node-02"} - {node.name}, "another reason ends no drain"


def test_an_uncordon_ends_the_drain(stage: Stage, ops: User) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=2))
    node_drain(acting_user=ops, node=node)
    node_uncordon(acting_user=ops, node=node)
    stage.run(60)
    assert where(job) == {node.name} and not evictions(job)
    node.refresh_from_db()
    assert not node.cordoned


def test_an_uncordon_while_jobs_terminate_lets_them_end_and_opens_the_node(stage: Stage, ops: User) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=8), simulate={"stop_s": 30})
    filler, _ = started(stage, "filler", jobs.RoleOf(cards=8))
    node_drain(acting_user=ops, node=node)
    stage.run(3)
    assert state(job) in (JobState.EVICTING, JobState.QUEUED)
    node_uncordon(acting_user=ops, node=node)
    stage.run(90)
    assert state(job) == state(filler) == JobState.RUNNING
    assert where(job) == {node.name} and len(evictions(job)) == 1


def test_a_refused_cordon_costs_no_job_its_work(
    stage: Stage, ops: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=2))
    refusal = PodOutcome.of_refusal("Forbidden", "no rights")
    monkeypatch.setattr(SimulatedBackend, "mark_schedulable", lambda *_, **__: refusal)
    node_drain(acting_user=ops, node=node)
    stage.run(30)
    assert where(job) == {node.name} and not evictions(job)
    node.refresh_from_db()
    assert not node.cordoned
    assert NodeCordon.unscoped.get().refusal == "no rights"


def test_a_silent_cluster_evicts_nothing_until_it_has_cordoned(
    stage: Stage, ops: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, node = started(stage, "train", jobs.RoleOf(cards=2))
    lost = PodOutcome.of_unknown("the answer was lost")
    with monkeypatch.context() as silent:
        silent.setattr(SimulatedBackend, "mark_schedulable", lambda *_, **__: lost)
        node_drain(acting_user=ops, node=node)
        stage.run(30)
        assert where(job) == {node.name} and not evictions(job)
    stage.run(60)
    assert where(job) == {"node-01", "node-02"} - {node.name}


def test_rules_of_a_job_about_evictions_hold(stage: Stage, ops: User) -> None:
    rules = [{"on": "task_evicted", "do": "abort_job"}]
    job, node = started(stage, "train", jobs.RoleOf(cards=2), lifecycle=rules)
    node_drain(acting_user=ops, node=node)
    stage.run(60)
    assert state(job) == JobState.SUSPENDED


def test_the_preview_counts_work_since_the_last_checkpoint(stage: Stage, ops: User) -> None:
    saving, node = started(stage, "saving", jobs.RoleOf(cards=4), checkpoint_interval_s=600)
    bare, late = stage.submit("bare", jobs.RoleOf(cards=2)), stage.submit("late", jobs.RoleOf(cards=1))
    jobs.allocate(bare, node)
    now = clock.now()
    for job, seconds in ((saving, 1500), (bare, 1800)):
        job.attempts.update(started_at=now.replace(microsecond=0) - timedelta(seconds=seconds))
    jobs.allocate(late, node, state=JobState.STARTING)
    ForeignPod.unscoped.create(
        cluster=stage.cluster, node_name=node.name, uid="1", namespace="web", name="shop", cards={"": 1}
    )
    ForeignPod.unscoped.create(
        cluster=stage.cluster,
        node_name=node.name,
        uid="2",
        namespace="kube-system",
        name="cni",
        standing=True,
    )
    found = preview_drain(viewer=ops, node=node)
    lost = {one.job.name: one.lost_gpu_hours for one in found.jobs}
    assert lost["saving"] == pytest.approx(4 * 300 / 3600, abs=0.01)
    assert lost["bare"] == pytest.approx(2 * 1800 / 3600, abs=0.01)
    assert lost["late"] is None
    assert found.lost_gpu_hours == pytest.approx(4 * 300 / 3600 + 1, abs=0.02)
    assert [pod.name for pod in found.foreign] == ["shop"]
