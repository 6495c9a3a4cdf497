"""A cluster's own engine decides about its jobs, whatever the platform's engine would decide."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from clusters.backends.base import BackendUnavailable, PodOutcome
from clusters.backends.delegation import (
    DelegatedWorkload,
    Projected,
    Projection,
    VerdictKind,
    WorkloadChanges,
    WorkloadVerdict,
    WorkloadVerdicts,
)
from clusters.models import BackendKind, GpuMode, Node
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.models import Hint
from quotas.models import Budget, BudgetAction, LedgerEntry, QueueFlavor, Quota, QuotaNode, UserLimit
from scheduling.delegation import run
from scheduling.delegation.projection import projection_of
from scheduling.delegation.run import delegation_listen, delegation_run
from scheduling.models import Allocation, Attempt, GpuRequestMode, Job, JobState
from scheduling.services.cycle import cycle_run
from tests.builders import clusters, jobs, quotas
from tests.builders.stage import state
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@dataclass
class Engine:
    """An engine of a cluster's own that says what a test has it say."""

    said: dict[str, WorkloadVerdict] = field(default_factory=dict)
    asked: list[DelegatedWorkload] = field(default_factory=list)
    done: list[tuple[str, str]] = field(default_factory=list)
    answer: PodOutcome = field(default_factory=PodOutcome.of_success)
    silent: bool = False
    news: WorkloadChanges | None = None

    def apply_projection(self, wanted: Projection) -> Projected:
        return Projected()

    def shape_of(self, workload: DelegatedWorkload) -> str:
        return "shape"

    def create_workload(self, workload: DelegatedWorkload) -> PodOutcome:
        self.asked.append(workload)
        return self.answer

    def set_paused(self, verdict: WorkloadVerdict, *, paused: bool) -> PodOutcome:
        self.done.append(("pause" if paused else "go on", verdict.name))
        return PodOutcome.of_success()

    def give_back(self, verdict: WorkloadVerdict, *, attempt: int) -> PodOutcome:
        self.done.append((f"give back for {attempt}", verdict.name))
        return PodOutcome.of_success()

    def delete_workload(self, verdict: WorkloadVerdict) -> PodOutcome:
        self.done.append(("withdraw", verdict.name))
        return PodOutcome.of_success()

    def list_verdicts(self) -> WorkloadVerdicts:
        if self.silent:
            raise BackendUnavailable("nobody there")
        return WorkloadVerdicts(list(self.said.values()), "1")

    def list_changes(self, cursor: str) -> WorkloadChanges | None:
        if self.silent:
            raise BackendUnavailable("nobody there")
        return self.news

    def say(self, job: Job, kind: VerdictKind, **more: Any) -> None:
        """A verdict on a job; an admission is to the flavor `pool`."""
        pool = more.pop("pool", None)
        values: dict[str, Any] = {
            "namespace": "team-a", "name": job.name, "job": str(job.pk), "kind": kind, "shape": "shape",
            "attempt": job.attempt_number + 1, "reserved": kind is not VerdictKind.WAITING,
        }  # fmt: skip
        if pool is not None:
            values |= {"pools": {"main": str(pool.pk)}, "counts": {"main": job.roles.get().replicas}}
        self.said[str(job.pk)] = WorkloadVerdict(**{**values, **more})


@pytest.fixture
def here() -> World:
    """The world, in a cluster that decides by itself."""
    made = world()
    made.cluster.backend = BackendKind.KUEUE
    made.cluster.save()
    return made


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(run, "delegate_for", lambda _: made)
    for look in ("backend_owned", "backend_confirmed"):
        monkeypatch.setattr(run, look, lambda _: None)
    return made


def test_our_engine_leaves_its_jobs_alone_and_wakes_it(here: World) -> None:
    ours = clusters.flavor(clusters.cluster(here.cell, "own"), "h100")
    clusters.nodes(ours, 1, prefix="own")
    queue = quotas.queue(here.cell, here.workspace, [ours], name="own", cards=8)
    theirs, mine = jobs.job(here.queue, here.editor), jobs.job(queue, here.editor)
    cycle_run(cell_id=here.cell.pk)
    assert (state(theirs), state(mine)) == (JobState.QUEUED, JobState.ADMITTED)
    assert theirs.reason == "PENDING_EVALUATION"
    assert Hint.unscoped.filter(topic="delegate", key=str(here.cluster.pk)).exists()


def test_a_queue_with_flavors_on_both_sides_stays_with_us_and_uses_ours_alone(
    here: World, engine: Engine
) -> None:
    ours = clusters.flavor(clusters.cluster(here.cell, "own"), "h100")
    clusters.nodes(ours, 1, prefix="own")
    QueueFlavor.unscoped.create(queue=here.queue, flavor=ours, position=1)
    quotas.gpu_quota(here.queue.node, ours, 8)
    job = jobs.job(here.queue, here.editor)
    cycle_run(cell_id=here.cell.pk)
    delegation_run(cluster_id=here.cluster.pk)
    assert state(job) == JobState.ADMITTED
    assert Allocation.unscoped.get(attempt__job=job).flavor == ours
    assert not engine.asked


def test_a_job_is_asked_for_with_all_its_roles_and_its_own_flavors(here: World, engine: Engine) -> None:
    other = clusters.flavor(here.cluster, "l40s", card_model="L40S")
    QueueFlavor.unscoped.create(queue=here.queue, flavor=other, position=1)
    roles = (jobs.RoleOf(name="master", cards=0), jobs.RoleOf(name="worker", replicas=3, models=("L40S",)))
    job = jobs.job(here.queue, here.editor, roles=roles)
    delegation_run(cluster_id=here.cluster.pk)
    (asked,) = engine.asked
    assert (asked.job, asked.attempt, asked.namespace) == (str(job.pk), 1, here.workspace.slug)
    master, worker = asked.groups
    assert (master.cards, len(master.pools)) == (0, 2)
    assert (worker.count, worker.least, worker.pools) == (3, 3, (str(other.pk),))


def test_parts_of_cards_count_where_they_are_charged_most(here: World, engine: Engine) -> None:
    sizes = (("small", 20_000), ("large", 40_000))
    pools = [
        clusters.flavor(here.cluster, name, card_memory_mib=memory, mode=GpuMode.SLICE)
        for name, memory in sizes
    ]
    queue = quotas.queue(here.cell, here.workspace, pools, name="parts", cards=8)
    part = jobs.RoleOf(cards=2, mode=GpuRequestMode.SLICE, cores=30)
    job = jobs.job(queue, here.editor, roles=(part,))
    job.roles.update(gpu_memory_percent=25)
    delegation_run(cluster_id=here.cluster.pk)
    (group,) = engine.asked[0].groups
    assert (group.cards, group.cores, group.gpu_memory_mib) == (2, 60, 20_000)
    assert group.pools == tuple(str(pool.pk) for pool in pools)


def test_an_admission_is_placed_and_booked(here: World, engine: Engine) -> None:
    job = jobs.job(here.queue, here.editor, roles=(jobs.RoleOf(replicas=2, cards=4),))
    engine.say(job, VerdictKind.ADMITTED, pool=here.flavor)
    delegation_run(cluster_id=here.cluster.pk)
    assert state(job) == JobState.ADMITTED
    held = Allocation.unscoped.filter(attempt__job=job)
    assert {len(row.slices.all()) for row in held} == {4}
    used = LedgerEntry.unscoped.get(node=here.queue.node, resource=Resource.GPU_CARDS)
    assert used.reserved == 8
    assert not job.events.filter(code="beyond_quota").exists()
    assert Hint.unscoped.filter(topic="execute", key=str(here.cluster.pk)).exists()


def test_the_ledger_follows_an_admission_that_our_tree_cannot_explain(here: World, engine: Engine) -> None:
    job = jobs.job(here.queue, here.editor, roles=(jobs.RoleOf(cards=8),))
    QuotaNode.unscoped.get(pk=here.queue.node_id).quotas.all().delete()
    QuotaNode.unscoped.get(pk=here.other_queue.node_id).quotas.all().delete()
    engine.say(job, VerdictKind.ADMITTED, pool=here.flavor)
    delegation_run(cluster_id=here.cluster.pk)
    assert state(job) == JobState.ADMITTED
    assert job.events.get(code="beyond_quota").numbers["cluster"] == here.cluster.name
    assert LedgerEntry.unscoped.get(node=here.queue.node, resource=Resource.GPU_CARDS).reserved == 8


def test_what_was_admitted_and_finds_no_room_says_so(here: World, engine: Engine) -> None:
    for node in here.nodes:
        node.cordoned = True
        node.save()
    job = jobs.job(here.queue, here.editor)
    engine.say(job, VerdictKind.ADMITTED, pool=here.flavor)
    delegation_run(cluster_id=here.cluster.pk)
    assert (state(job), job.reason) == (JobState.QUEUED, "NO_ROOM")
    assert job.reason_numbers["cluster"] == here.cluster.name
    assert str(job.pk) not in job.reason_numbers.values()


def test_what_finds_no_room_for_long_leaves_its_quota_to_others_for_a_while(
    here: World, engine: Engine
) -> None:
    Node.unscoped.update(cordoned=True)
    job = jobs.job(here.queue, here.editor)

    def look(**more: Any) -> list[tuple[str, str]]:
        engine.done.clear()
        engine.say(job, VerdictKind.ADMITTED, pool=here.flavor, **more)
        delegation_run(cluster_id=here.cluster.pk)
        assert (state(job), job.reason) == (JobState.QUEUED, "NO_ROOM")
        return engine.done

    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        for passed in (0, 60, 59):
            traveller.shift(passed)
            assert look() == []
        assert not job.events.filter(code="unseated").exists()
        traveller.shift(1)
        assert look() == []
        assert job.events.get(code="unseated").numbers["cluster"] == here.cluster.name
        assert look() == [("pause", job.name)]
        assert look(active=False) == [("give back for 1", job.name)]
        traveller.shift(61)
        assert look(active=False) == [("go on", job.name)]
        # Admitted again at once: it has two minutes anew.
        traveller.shift(110)
        assert look() == []
        assert job.events.filter(code="unseated").count() == 1


def test_what_goes_beyond_its_own_quota_is_booked_as_borrowed(here: World, engine: Engine) -> None:
    Quota.unscoped.filter(node=here.queue.node, resource=Resource.GPU_CARDS).update(own_nominal=3)
    first, second = (jobs.job(here.queue, here.editor, name, roles=(jobs.RoleOf(cards=2),)) for name in "ab")
    for job in (first, second):
        engine.say(job, VerdictKind.ADMITTED, pool=here.flavor)
        delegation_run(cluster_id=here.cluster.pk)
    key = f"{here.flavor.pk}/{Resource.GPU_CARDS}"
    loans = [Attempt.unscoped.get(job=job).borrowed for job in (first, second)]
    assert [loan.get(key, 0) for loan in loans] == [0, 1]
    assert second.events.get(code="admitted").numbers["borrowed_cards"] == 1


def test_only_a_reservation_for_the_next_run_counts(here: World, engine: Engine) -> None:
    job = jobs.job(here.queue, here.editor, attempt_number=2)
    for kind, attempt in ((VerdictKind.ADMITTED, 2), (VerdictKind.TERMINATING, 3)):
        engine.say(job, kind, pool=here.flavor, attempt=attempt)
        delegation_run(cluster_id=here.cluster.pk)
    assert engine.done == [("give back for 3", job.name)] * 2
    assert state(job) == JobState.QUEUED


def test_a_running_job_ends_when_it_is_evicted_or_no_longer_admitted(here: World, engine: Engine) -> None:
    told, lost, kept = (jobs.job(here.queue, here.editor, name) for name in ("told", "lost", "kept"))
    for job, node in zip((told, lost, kept), (*here.nodes, here.nodes[0]), strict=True):
        jobs.allocate(job, node)
    engine.say(told, VerdictKind.TERMINATING, code="FAIR_SHARE", attempt=1)
    engine.say(kept, VerdictKind.ADMITTED, attempt=1)
    delegation_run(cluster_id=here.cluster.pk)
    assert [state(job) for job in (told, lost, kept)] == [
        JobState.EVICTING,
        JobState.EVICTING,
        JobState.RUNNING,
    ]
    assert (told.end_reason, lost.end_reason) == ("FAIR_SHARE", "NOT_READY")
    assert (told.after_eviction, lost.after_eviction) == (JobState.QUEUED, JobState.QUEUED)


def test_a_paused_workload_is_skipped_and_a_resumed_one_continues(here: World, engine: Engine) -> None:
    later = clock.now() + timedelta(minutes=5)
    failed = jobs.job(here.queue, here.editor, "failed", backoff_until=later)
    idle = jobs.job(here.queue, here.editor, "idle", state=JobState.SUSPENDED)
    back = jobs.job(here.queue, here.editor, "back")
    engine.say(failed, VerdictKind.WAITING)
    engine.say(idle, VerdictKind.ADMITTED)
    engine.say(back, VerdictKind.WAITING, active=False)
    delegation_run(cluster_id=here.cluster.pk)
    assert engine.done == [("pause", "failed"), ("pause", "idle"), ("go on", "back")]
    failed.refresh_from_db()
    assert (failed.reason, failed.reason_numbers["at"]) == ("BACKOFF", int(later.timestamp()) + 1)


def test_an_unwanted_workload_is_withdrawn_and_a_foreign_one_is_left(here: World, engine: Engine) -> None:
    ended = jobs.job(here.queue, here.editor, "ended", state=JobState.SUCCEEDED)
    changed = jobs.job(here.queue, here.editor, "changed")
    engine.say(ended, VerdictKind.ADMITTED)
    engine.say(changed, VerdictKind.WAITING, shape="another")
    engine.say(jobs.job(here.other_queue, here.outsider, "over"), VerdictKind.ENDED)
    engine.said["others"] = replace(engine.said[str(ended.pk)], job="", name="foreign")
    delegation_run(cluster_id=here.cluster.pk)
    assert sorted(engine.done) == [("withdraw", "changed"), ("withdraw", "ended"), ("withdraw", "over")]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"code": "EXCEEDS_MAX_QUOTA", "detail": "too much"}, "EXCEEDS_MAX_QUOTA"),
        ({"detail": "what a later release says"}, "WAITING_FOR_QUOTA"),
        ({}, "IN_LINE"),
    ],
)
def test_its_reason_is_reported(here: World, engine: Engine, more: dict[str, str], code: str) -> None:
    job = jobs.job(here.queue, here.editor)
    engine.say(job, VerdictKind.WAITING, **more)
    delegation_run(cluster_id=here.cluster.pk)
    assert (state(job), job.reason) == (JobState.QUEUED, code)
    assert job.reason_numbers.get("scheduler_message") == more.get("detail")


def test_what_can_never_be_asked_for_says_why(here: World, engine: Engine) -> None:
    instance = jobs.job(here.queue, here.editor, roles=(jobs.RoleOf(mode=GpuRequestMode.MIG),))
    instance.roles.update(gpu_profile="1g.5gb")  # of which no flavor of the queue has any
    taken = jobs.job(here.queue, here.editor)
    engine.answer = PodOutcome.of_refusal("NAME_TAKEN", "somebody else's")
    delegation_run(cluster_id=here.cluster.pk)
    assert (state(instance), instance.reason) == (JobState.QUEUED, "NEVER_FITS")
    assert (state(taken), taken.reason_numbers["scheduler_message"]) == (JobState.QUEUED, "somebody else's")


def test_who_is_beyond_a_users_limit_is_not_handed_over(here: World, engine: Engine) -> None:
    UserLimit.unscoped.create(workspace=here.workspace, user=None, resource=Resource.GPU_CARDS, amount=5)
    held, first, second, small = (
        jobs.job(here.queue, here.editor, name, roles=(jobs.RoleOf(cards=cards),))
        for name, cards in (("held", 1), ("first", 3), ("second", 3), ("small", 1))
    )
    jobs.allocate(held, here.nodes[0])
    engine.say(held, VerdictKind.ADMITTED, attempt=1)
    engine.say(second, VerdictKind.ADMITTED, pool=here.flavor)
    delegation_run(cluster_id=here.cluster.pk)
    assert [asked.job for asked in engine.asked] == [str(first.pk), str(small.pk)]
    assert (state(second), second.reason) == (JobState.QUEUED, "POLICY_DENIED")
    assert engine.done == [("withdraw", "second")]
    numbers = second.reason_numbers
    assert (numbers["asked"], numbers["held"], numbers["user_limit"]) == (3, 4, 5)


def test_news_of_one_job_counts_those_before_it_and_moves_no_other(here: World, engine: Engine) -> None:
    UserLimit.unscoped.create(workspace=here.workspace, user=None, resource=Resource.GPU_CARDS, amount=5)
    delegation_run(cluster_id=here.cluster.pk)
    engine.asked.clear()
    first, second = (
        jobs.job(here.queue, here.editor, name, roles=(jobs.RoleOf(cards=3),)) for name in ("first", "second")
    )
    engine.say(second, VerdictKind.ADMITTED, pool=here.flavor)
    engine.news = WorkloadChanges([engine.said[str(second.pk)]], "2")
    assert delegation_listen(cluster_id=here.cluster.pk) == 1
    assert (engine.asked, engine.done) == ([], [("withdraw", "second")])
    assert (state(first), first.reason) == (JobState.QUEUED, "PENDING_EVALUATION")
    here.cluster.refresh_from_db()
    assert here.cluster.delegate_cursor == "2"


def test_silence_between_two_looks_says_nothing(here: World, engine: Engine) -> None:
    job = jobs.job(here.queue, here.editor, "waits")
    delegation_run(cluster_id=here.cluster.pk)
    reason = (state(job), job.reason)
    engine.silent = True
    assert delegation_listen(cluster_id=here.cluster.pk) == 0
    assert (state(job), job.reason) == reason


def test_a_budget_that_is_used_up_bars_its_flavor(here: World, engine: Engine) -> None:
    other = clusters.flavor(here.cluster, "l40s", card_model="L40S")
    QueueFlavor.unscoped.create(queue=here.queue, flavor=other, position=1)
    Budget.unscoped.create(tenant=here.workspace, flavor=here.flavor, gpu_hours=0, action=BudgetAction.HOLD)
    jobs.job(here.queue, here.editor, "free")
    bound = jobs.job(here.queue, here.editor, "bound", roles=(jobs.RoleOf(models=("A100-40G",)),))
    delegation_run(cluster_id=here.cluster.pk)
    (asked,) = engine.asked
    assert asked.groups[0].pools == (str(other.pk),)
    assert (state(bound), bound.reason) == (JobState.QUEUED, "POLICY_DENIED")
    assert bound.reason_numbers["flavor"] == here.flavor.name


def test_from_silence_nothing_is_concluded(here: World, engine: Engine) -> None:
    runs, waits = jobs.job(here.queue, here.editor, "runs"), jobs.job(here.queue, here.editor, "waits")
    jobs.allocate(runs, here.nodes[0])
    engine.silent = True
    assert delegation_run(cluster_id=here.cluster.pk) == 0
    assert (state(runs), state(waits)) == (JobState.RUNNING, JobState.QUEUED)
    assert waits.reason == "PENDING_EVALUATION"
    assert waits.reason_numbers == {"cluster": here.cluster.name, "scheduler_error": "nobody there"}


def test_the_tree_is_projected_from_its_queues_up(here: World) -> None:
    here.queue.allocation_mode = "static"
    here.queue.preemption = False
    here.queue.save()
    told = projection_of(here.cluster)
    mine = next(item for item in told.queues if item.id == str(here.queue.pk))
    assert {limit.borrowing for limit in mine.limits} == {0}
    assert (mine.namespace, mine.within, mine.reclaim) == (here.workspace.slug, "never", "never")
    parents = {item.id: item.parent for item in told.cohorts}
    root = str(QuotaNode.unscoped.get(parent=None).pk)
    assert parents[mine.parent] == root
    assert parents[root] is None
    assert "normal" in [item.name for item in told.priorities]
