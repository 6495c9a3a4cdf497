"""Changing the memory of running slices: when it is charged, and how it ends after any failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from clusters.backends.base import PodOutcome
from clusters.backends.registry import backend_for
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.models import Device, Flavor, GpuMode, SimulatedCluster, SimulatedPod
from clusters.services.inventory import inventory_sync
from foundation.audit import audit_log
from foundation.core.errors import AllotmentError, Conflict, Invalid, NotFound, PermissionDenied, Refused
from foundation.models import Hint
from quotas.models import AllocationMode, LedgerEntry, Queue, Quota, UserLimit
from scheduling.hooks import measured_use
from scheduling.models import (
    Allocation,
    GpuRequestMode,
    Job,
    JobEvent,
    JobState,
    MemoryResize,
    ResizeState,
    Task,
    WorkspacePolicy,
)
from scheduling.services.jobs.job import job_cancel, job_resume, job_suspend
from scheduling.services.resizing.resize import get_resizable, slice_memory_resize
from scheduling.services.resizing.resize_settle import resize_give_up, resize_settle
from scheduling.snapshots.snapshot_cache import CachedCell
from tenants.models import Role
from tests.builders import jobs, pipeline, tenancy
from tests.builders.stage import Stage, state
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
CARD = 40_960


class Slices(Stage):
    """A cluster of slices whose sizes may be changed; `time` moves when a test says so."""

    def __init__(self, time: time_machine.Coordinates) -> None:
        super().__init__(mode=GpuMode.SLICE)
        self.time = time
        self.cluster.live_resize = True
        self.cluster.save(update_fields=["live_resize"])

    def running(self, name: str = "a", *, memory: int = 8192, cores: int = 30, **fields: Any) -> Task:
        role = jobs.RoleOf(
            mode=GpuRequestMode.SLICE, cores=cores, gpu_memory=memory, cards=fields.pop("cards", 1)
        )
        job = self.submit(name, role, run_s=fields.pop("run_s", 100_000), **fields)
        for _ in range(8):
            self.round()
        assert state(job) == JobState.RUNNING
        return self.task(name)

    def task(self, name: str) -> Task:
        return Task.unscoped.select_related("role", "job__queue", "job__workspace").get(job__name=name)

    def round(self, seconds: float = 3.0) -> None:
        self.time.shift(timedelta(seconds=seconds))
        pipeline.step(self.cell, self.cluster)
        assert_books()
        assert_jobs()

    def ask(self, task: Task, mib: int) -> MemoryResize:
        made = slice_memory_resize(acting_user=self.user, task=self.task(task.job.name), memory_mib=mib)
        assert_books()
        return made

    def charged(self) -> int:
        return sum(LedgerEntry.unscoped.filter(resource="gpu.memory").values_list("reserved", flat=True))

    def settled(self, made: MemoryResize, *, rounds: int = 60) -> MemoryResize:
        for _ in range(rounds):
            made.refresh_from_db()
            if made.ended_at is not None:
                return made
            self.round()
        raise AssertionError(f"still {made.state}")

    def pod_mib(self) -> int:
        ((_, _, mib),) = SimulatedPod.unscoped.get(holds=True).devices
        return int(mib)


@pytest.fixture
def stage(db: None) -> Iterator[Slices]:
    with time_machine.travel(START, tick=False) as time:
        yield Slices(time)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    """Return the measured use of tasks, by device id; a test fills it."""
    told: dict[Any, int] = {}
    monkeypatch.setattr(measured_use, "_sources", [lambda _: told])
    return told


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> list[PodOutcome]:
    """Lose every resize request; answers that a test adds here are given in turn."""
    answers: list[PodOutcome] = []
    lost = PodOutcome.of_unknown("nobody answers")
    monkeypatch.setattr(SimulatedBackend, "resize_devices", lambda *_: answers.pop(0) if answers else lost)
    return answers


def codes(job: Job) -> list[str]:
    return list(JobEvent.unscoped.filter(job=job).order_by("id").values_list("code", flat=True))


def test_growing_is_charged_at_once_and_reported(stage: Slices) -> None:
    task = stage.running()
    made = stage.ask(task, 20_000)
    assert stage.charged() == 20_000
    assert stage.pod_mib() == 8192
    assert stage.settled(made).state == ResizeState.DONE
    assert (stage.charged(), stage.pod_mib()) == (20_000, 20_000)
    assert codes(task.job)[-2:] == ["resizing", "resized"]
    last = JobEvent.unscoped.filter(job=task.job).latest("id").numbers
    assert last == {"role": "main", "index": 0, "from": 8192, "to": 20_000}


def test_shrinking_is_given_back_when_it_is_confirmed(stage: Slices) -> None:
    task = stage.running()
    made = stage.ask(task, 2048)
    assert stage.charged() == 8192
    assert stage.settled(made).state == ResizeState.DONE
    assert (stage.charged(), stage.pod_mib()) == (2048, 2048)


def test_all_cards_of_a_task_change_alike(stage: Slices) -> None:
    task = stage.running(cards=2)
    made = stage.ask(task, 10_000)
    assert stage.charged() == 20_000
    stage.settled(made)
    assert set(Device.unscoped.filter(holders=1).values_list("memory_granted", flat=True)) == {10_000}


def test_the_change_is_audited(stage: Slices) -> None:
    stage.ask(stage.running(), 9000)
    record = audit_log.AuditRecord.unscoped.filter(action="job.resize").get()
    assert (record.before["memory_mib"], record.after["memory_mib"]) == (8192, 9000)


def test_another_takes_what_was_given_back_and_not_before(stage: Slices) -> None:
    task = stage.running(memory=40_000)
    Device.unscoped.exclude(memory_granted__gt=0).update(healthy=False)
    waiting = stage.submit("b", jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=20_000), run_s=50)
    made = stage.ask(task, 20_000)
    stage.settled(made)
    for _ in range(6):
        stage.round()
    assert state(waiting) == JobState.RUNNING


def test_the_kept_snapshot_sees_the_new_size(stage: Slices) -> None:
    task, kept = stage.running(), CachedCell(stage.cell.pk)
    before = kept.refresh_snapshot().snapshot
    (held,) = before.allocations.values()
    assert held.slices[0].memory == 8192
    stage.ask(task, 20_000)
    after = kept.refresh_snapshot().snapshot
    assert after is before
    (held,) = after.allocations.values()
    assert held.slices[0].memory == 20_000
    row, column = (
        after.fleet.row[held.node],
        after.fleet.columns[after.fleet.row[held.node]][held.slices[0].device],
    )
    assert after.fleet.card_memory_free[row, column] == CARD - 20_000


@pytest.mark.parametrize(
    ("mib", "kind", "code"),
    [
        (0, Invalid, "BELOW_MINIMUM"),
        (8192, Invalid, "UNCHANGED"),
        (CARD + 1, Invalid, "ABOVE_MAXIMUM"),
    ],
)
def test_amounts_that_make_no_sense(stage: Slices, mib: int, kind: type[AllotmentError], code: str) -> None:
    task = stage.running()
    with pytest.raises(kind) as caught:
        stage.ask(task, mib)
    assert [(error.field, error.code) for error in caught.value.errors] == [("memory", code)]
    assert not MemoryResize.unscoped.exists()


def refused(stage: Slices, task: Task, mib: int) -> Refused:
    charged = stage.charged()
    with pytest.raises(Refused) as caught:
        stage.ask(task, mib)
    assert stage.charged() == charged
    assert not MemoryResize.unscoped.exists()
    return caught.value


def test_the_card_is_the_limit(stage: Slices) -> None:
    task = stage.running()
    device = Device.unscoped.get(holders=1)
    Device.unscoped.filter(pk=device.pk).update(memory_foreign=10_000)
    error = refused(stage, task, CARD - 10_000 + 1)
    assert (error.code, error.numbers["most"]) == ("CARD_FULL", CARD - 10_000)
    stage.ask(task, CARD - 10_000)


def test_the_quota_is_the_limit(stage: Slices) -> None:
    task = stage.running()
    Quota.unscoped.filter(resource="gpu.memory").update(own_nominal=9000)
    error = refused(stage, task, 9001)
    assert (error.code, error.numbers["most"]) == ("WAITING_FOR_QUOTA", 9000)
    stage.ask(task, 9000)


@pytest.mark.parametrize("binding", ["static", "not preemptible", "evicted too often"])
def test_what_may_not_borrow_does_not_grow_by_borrowing(stage: Slices, binding: str) -> None:
    task = stage.running(preemptible=binding != "not preemptible")
    own = Quota.unscoped.get(node=stage.queue.node, resource="gpu.memory")
    above = Quota.unscoped.filter(node=stage.queue.node.parent, resource="gpu.memory")
    Quota.unscoped.filter(pk=own.pk).update(own_nominal=9000)
    if not above.update(own_nominal=50_000):
        Quota.unscoped.create(
            node=stage.queue.node.parent, flavor=stage.flavor, resource="gpu.memory", own_nominal=50_000
        )
    if binding == "static":
        Queue.unscoped.update(allocation_mode=AllocationMode.STATIC)
    if binding == "evicted too often":
        for number in (90, 91, 92):
            task.job.attempts.create(
                number=number, epoch=1, admitted_at=START, ended_at=START, end_reason="RECLAIM_NOMINAL"
            )
    assert refused(stage, task, 9001).numbers["most"] == 9000
    Queue.unscoped.update(allocation_mode=AllocationMode.DYNAMIC)
    Job.unscoped.update(preemptible=True)
    task.job.attempts.filter(number__gte=90).delete()
    stage.ask(task, 9001)


def test_a_limit_of_the_user_is_the_limit(stage: Slices) -> None:
    task = stage.running()
    UserLimit.unscoped.create(workspace=task.job.workspace, user=None, resource="gpu.memory", amount=9000)
    assert refused(stage, task, 9001).code == "POLICY_DENIED"
    stage.ask(task, 9000)


def test_the_policy_of_the_workspace_is_the_limit(stage: Slices) -> None:
    task = stage.running()
    field = "roles.resources.gpu.memory"
    WorkspacePolicy.unscoped.create(
        tenant=task.job.workspace, maximum={field: "9000Mi"}, minimum={field: "8000Mi"}
    )
    for mib in (9001, 7999):
        error = refused(stage, task, mib)
        assert error.code == "POLICY_DENIED"
        assert task.job.workspace.name in error.detail
    stage.ask(task, 9000)


def test_nothing_below_what_is_measured(stage: Slices, used: dict[Any, int]) -> None:
    task = stage.running()
    used[Device.unscoped.get(holders=1).pk] = 5000
    error = refused(stage, task, 4999)
    assert (error.code, error.numbers["used"]) == ("BELOW_USE", 5000)
    assert "5000" in error.detail
    stage.ask(task, 5000)


def test_more_than_is_granted_may_be_measured(stage: Slices, used: dict[Any, int]) -> None:
    """A library that lets a little more through must not keep its task from growing."""
    task = stage.running()
    used[Device.unscoped.get(holders=1).pk] = 9000
    assert stage.ask(task, 8500).state == ResizeState.ASKED


def conflict(stage: Slices, task: Task, mib: int = 9000) -> str:
    with pytest.raises(Conflict) as caught:
        stage.ask(task, mib)
    return caught.value.code


def test_where_it_is_not_switched_on_nothing_is_changed(stage: Slices) -> None:
    task = stage.running()
    stage.cluster.live_resize = False
    stage.cluster.save()
    assert conflict(stage, task) == "RESIZE_OFF"


def test_a_cluster_that_cannot_is_asked_nothing(stage: Slices) -> None:
    task = stage.running()
    type(stage.cluster).unscoped.update(backend="kueue")
    assert conflict(stage, task) == "RESIZE_OFF"


def test_one_change_at_a_time(stage: Slices) -> None:
    task = stage.running()
    stage.ask(task, 9000)
    assert conflict(stage, task, 10_000) == "RESIZE_UNDER_WAY"


def test_a_task_that_does_not_run_is_not_changed(stage: Slices) -> None:
    task = stage.running()
    job_cancel(acting_user=stage.user, job=task.job)
    assert conflict(stage, task) == "NOT_RUNNING"


def test_a_slice_with_all_of_the_compute_is_a_whole_card(stage: Slices) -> None:
    task = stage.running(cores=100, memory=CARD)
    assert conflict(stage, task) == "NOT_A_SLICE"


def test_a_user_who_may_cancel_may_change_it_and_no_other(stage: Slices) -> None:
    task = stage.running()
    other = tenancy.user("other", task.job.workspace, Role.EDITOR)
    stranger = tenancy.user("stranger", tenancy.workspace("team-b"), Role.ADMIN)
    admin = tenancy.user("boss", task.job.workspace, Role.ADMIN)
    with pytest.raises(PermissionDenied):
        slice_memory_resize(acting_user=other, task=stage.task("a"), memory_mib=9000)
    with pytest.raises(NotFound):
        slice_memory_resize(acting_user=stranger, task=stage.task("a"), memory_mib=9000)
    slice_memory_resize(acting_user=admin, task=stage.task("a"), memory_mib=9000)


def test_what_the_cluster_refuses_is_given_back(stage: Slices, unanswered: list[PodOutcome]) -> None:
    task = stage.running()
    unanswered.append(PodOutcome.of_refusal("BELOW_USE", "its processes use 9 MiB"))
    made = stage.settled(stage.ask(task, 20_000))
    assert (made.state, made.code, made.message) == (
        ResizeState.REFUSED,
        "BELOW_USE",
        "its processes use 9 MiB",
    )
    assert stage.charged() == 8192
    told = JobEvent.unscoped.filter(job=task.job).latest("id")
    assert (told.code, told.numbers["message"]) == ("resize_refused", "its processes use 9 MiB")
    stage.ask(task, 10_000)


@pytest.mark.parametrize("mib", [20_000, 4096])
def test_what_is_not_confirmed_in_time_is_taken_back(
    stage: Slices, unanswered: list[PodOutcome], mib: int
) -> None:
    task = stage.running()
    made = stage.ask(task, mib)
    for _ in range(45):
        stage.round()
        assert stage.charged() == max(8192, mib)
    made.refresh_from_db()
    assert made.state == ResizeState.TAKING_BACK
    assert "resize_overdue" in codes(task.job)
    # Without an answer nothing is freed: only the cluster's confirmation ends it.
    unanswered.append(PodOutcome.of_success())
    made = stage.settled(made)
    assert (made.state, made.code) == (ResizeState.REFUSED, "NOT_CONFIRMED")
    assert stage.charged() == 8192


def test_growth_that_cannot_be_taken_back_was_done(stage: Slices, unanswered: list[PodOutcome]) -> None:
    made = stage.ask(stage.running(), 20_000)
    for _ in range(45):
        stage.round()
    unanswered.append(PodOutcome.of_refusal("BELOW_USE", "its processes use 19000 MiB"))
    assert stage.settled(made).state == ResizeState.DONE
    assert stage.charged() == 20_000


def test_a_late_answer_to_what_was_given_up_is_not_taken_for_one_to_the_taking_back(stage: Slices) -> None:
    made = stage.ask(stage.running(), 20_000)
    now = datetime.now(UTC)
    assert resize_give_up(resize_id=made.pk, now=now)
    assert not resize_give_up(resize_id=made.pk, now=now)
    assert not resize_settle(
        resize_id=made.pk, asked=ResizeState.ASKED, outcome=PodOutcome.of_success(), now=now
    )
    assert stage.charged() == 20_000
    assert resize_settle(
        resize_id=made.pk, asked=ResizeState.TAKING_BACK, outcome=PodOutcome.of_success(), now=now
    )
    assert not resize_settle(
        resize_id=made.pk, asked=ResizeState.TAKING_BACK, outcome=PodOutcome.of_success(), now=now
    )
    assert stage.charged() == 8192


@pytest.mark.parametrize("mib", [20_000, 4096])
def test_a_pod_that_ends_first_releases_everything_once(
    stage: Slices, unanswered: list[PodOutcome], mib: int
) -> None:
    task = stage.running()
    made = stage.ask(task, mib)
    job_cancel(
        acting_user=stage.user, job=Job.unscoped.select_related("queue", "workspace").get(pk=task.job.pk)
    )
    for _ in range(30):
        stage.round()
    made.refresh_from_db()
    assert (made.state, state(task.job)) == (ResizeState.ENDED, JobState.CANCELLED)
    stage.assert_nothing_is_held()


def test_a_restart_begins_with_what_was_wanted_and_a_new_attempt_with_the_job_file(stage: Slices) -> None:
    rules = [{"on": "task_failed", "do": "restart_task", "max": 1}]
    task = stage.running(lifecycle=rules)
    stage.settled(stage.ask(task, 20_000))
    SimulatedPod.unscoped.update(phase="failed", holds=False, ended_code=1, ended_ms=0, change=10**6)
    SimulatedCluster.unscoped.update(last_change=10**6)
    for _ in range(12):
        stage.round()
    assert Allocation.unscoped.get(released_at=None).restarts == 1
    assert stage.pod_mib() == 20_000
    task.job.refresh_from_db()
    job = Job.unscoped.select_related("queue", "workspace").get(pk=task.job.pk)
    job_suspend(acting_user=stage.user, job=job)
    for _ in range(15):
        stage.round()
    job.refresh_from_db()
    job_resume(acting_user=stage.user, job=job)
    for _ in range(8):
        stage.round()
    assert stage.pod_mib() == 8192
    assert stage.charged() == 8192


def test_a_dead_worker_and_a_lost_message_lose_nothing(stage: Slices) -> None:
    made = stage.ask(stage.running(), 20_000)
    Hint.unscoped.all().delete()
    assert stage.settled(made).state == ResizeState.DONE


def test_the_dialog_gets_its_limits(stage: Slices, used: dict[Any, int]) -> None:
    task = stage.running(cards=2)
    used[1], used[2] = 700, 900
    Quota.unscoped.filter(resource="gpu.memory").update(own_nominal=50_001)
    told = get_resizable(stage.task("a"))
    assert (told.cards, told.memory_mib, told.used_mib, told.under_way) == (2, 8192, 900, None)
    assert (told.room.on_card, told.room.in_quota, told.room.most) == (CARD, 25_000, 25_000)
    stage.ask(task, 25_000)
    assert get_resizable(stage.task("a")).room.in_quota == 25_000


def test_a_new_reading_of_the_inventory_keeps_what_was_granted(stage: Slices) -> None:
    stage.settled(stage.ask(stage.running(), 20_000))
    inventory_sync(cluster=stage.cluster, inventory=backend_for(stage.cluster).read_inventory())
    assert_books()
    assert Flavor.unscoped.get().card_memory_mib == CARD
