"""Anything that can happen, in any order: the books stay right, and once it is over every job ends.

A state machine drives the real pipeline in one process against the simulated cluster: users, faults,
operators, doubled, late and repeated work. What must hold is asked after every step.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

import pytest
import time_machine
import uuid6
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from clusters.backends.base import BackendUnavailable, ObservedBatch, TaskRef
from clusters.backends.registry import backend_for
from clusters.backends.simulated import faults
from clusters.backends.simulated.seed import PRODUCT_LABEL, NodeGroup, build_cluster
from clusters.models import BackendKind, Cell, Cluster, Device, Flavor, GpuMode, Node, SimulatedPod
from clusters.services.inventory import inventory_sync
from foundation.core import clock
from foundation.core.errors import Conflict, NotFound
from foundation.messaging import leases
from foundation.models import Hint
from quotas.models import Queue, Quota, StopPolicy
from scheduling import engine
from scheduling.commit import commit_cycle
from scheduling.engine.model import Instant
from scheduling.engine_input.config import engine_config
from scheduling.execution import observe
from scheduling.execution.execute import execute_cluster
from scheduling.models import TERMINAL_STATES, Allocation, GpuRequestMode, Job, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_cancel, job_resume, job_suspend
from scheduling.services.sweep import sweep_cells
from scheduling.snapshots import cell_snapshot, snapshot_cache
from tenants.models import Role
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.django_db

_FOR_EVER: Final = 1_000_000
_REFUSED: Final = -1  # the API takes no such pod
_SLICE: Final = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=40, gpu_memory=16_000)
_SHAPES: Final = (
    (jobs.RoleOf(),),
    (jobs.RoleOf(cards=4),),
    (jobs.RoleOf(replicas=3, min_replicas=1, cards=2),),
    (jobs.RoleOf(name="master"), jobs.RoleOf(name="worker", replicas=2, cards=2)),
    (_SLICE,),
    (jobs.RoleOf(name="master", cards=0), replace(_SLICE, name="worker", replicas=3)),
)
_RULES: Final[tuple[list[dict[str, object]], ...]] = (
    [],
    [{"on": "task_failed", "do": "restart_task", "max": 2}],
    [{"on": "task_failed", "do": "restart_job", "max": 1}],
    [{"on": "task_evicted", "do": "fail_job"}],
    [{"on": "role_completed", "role": "master", "do": "complete_job"}],
)
_some: Final = st.integers(0, 30)


class Pipeline(RuleBasedStateMachine):
    """Two teams share a cell of eight whole cards and two cut ones, and may borrow from each other."""

    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        snapshot_cache._cells.clear()  # keys are the same in every example
        Pipeline.numbers = itertools.count(1)
        self._example = transaction.atomic()
        self._example.__enter__()
        self._time = time_machine.travel("2026-11-02T08:00:00Z", tick=False)
        self._now = self._time.start()
        self.cell: Cell = clusters.cell()
        self.cluster = _cluster(self.cell)
        flavors = list(Flavor.unscoped.filter(cluster=self.cluster).order_by("name"))
        teams = [tenancy.workspace(name) for name in ("team-a", "team-b")]
        self.user = tenancy.user("ed", tenancy.root(), Role.ADMIN)
        self.queues: list[Queue] = [quotas.queue(self.cell, team, flavors, cards=5) for team in teams]
        self._late: list[tuple[ObservedBatch, datetime]] = []

    def teardown(self) -> None:
        try:
            self._heal()
        finally:
            self._time.stop()
            transaction.set_rollback(True)
            self._example.__exit__(None, None, None)

    # Users

    @rule(
        team=st.integers(0, 1),
        shape=st.sampled_from(_SHAPES),
        run_s=st.sampled_from([5, 40, _FOR_EVER, _REFUSED]),
        exit_code=st.sampled_from([0, 0, 3]),
        rules=st.sampled_from(_RULES),
        max_run_s=st.sampled_from([None, None, 30]),
        urgent=st.booleans(),
    )
    def submit(
        self,
        team: int,
        shape: tuple[jobs.RoleOf, ...],
        run_s: int,
        exit_code: int,
        rules: list[dict[str, object]],
        max_run_s: int | None,
        urgent: bool,
    ) -> None:
        if Job.unscoped.count() < 12:
            jobs.job(
                self.queues[team],
                self.user,
                f"job-{Job.unscoped.count()}",
                roles=shape,
                max_run_s=max_run_s,
                priority=jobs.priority_class("urgent", 100) if urgent else None,
                simulate={"run_s": run_s, "exit_code": exit_code},
                lifecycle=rules,
            )

    @rule(which=_some)
    def cancel(self, which: int) -> None:
        self._ask(which, job_cancel)

    @rule(which=_some)
    def suspend(self, which: int) -> None:
        self._ask(which, job_suspend)

    @rule(which=_some)
    def resume(self, which: int) -> None:
        self._ask(which, job_resume)

    def _ask(self, which: int, service: Callable[..., Job]) -> None:
        made = list(Job.unscoped.exclude(state__in=TERMINAL_STATES).order_by("id"))
        if made:
            with contextlib.suppress(Conflict):
                service(acting_user=self.user, job=made[which % len(made)])

    # Work, in order and out of it

    @rule(seconds=st.sampled_from([1, 3, 15]), rounds=st.integers(1, 4))
    def rounds(self, seconds: int, rounds: int) -> None:
        for _ in range(rounds):
            self._now.shift(seconds)
            pipeline.step(self.cell, self.cluster)

    @rule(order=st.permutations(["sweep", "cycle", "execute", "observe"]))
    def work_out_of_order(self, order: list[str]) -> None:
        for what in order[:3]:
            self._work(what)

    def _work(self, what: str) -> None:
        match what:
            case "sweep":
                sweep_cells()
            case "cycle":
                cycle_run(cell_id=self.cell.pk)
            case "execute":
                execute_cluster(cluster_id=self.cluster.pk)
            case "observe":
                observe.observe_cluster(cluster_id=self.cluster.pk)
        Hint.unscoped.all().delete()

    @rule(which=_some, service=st.sampled_from([job_cancel, job_suspend]))
    def cycle_overtaken_by_a_user(self, which: int, service: Callable[..., Job]) -> None:
        with leases.hold_lease(Cell, self.cell.pk) as epoch:
            assert epoch is not None
            taken, now = cell_snapshot(self.cell.pk), clock.now()
            result = engine.run_cycle(taken.snapshot, engine_config(), Instant(now.timestamp()))
            self._ask(which, service)
            commit_cycle(cell_id=self.cell.pk, epoch=epoch, taken=taken, result=result, now=now)

    @rule(seconds=st.integers(0, 40))
    def observe_twice(self, seconds: int) -> None:
        """Repeat the last observation, as after a crash between the last pod and the cursor."""
        self._now.shift(seconds)
        before = Cluster.unscoped.get(pk=self.cluster.pk).cursor
        self._work("observe")
        Cluster.unscoped.filter(pk=self.cluster.pk).update(cursor=before)
        self._work("observe")

    @rule()
    def forget_the_cursor(self) -> None:
        Cluster.unscoped.filter(pk=self.cluster.pk).update(cursor="")

    @rule(whole=st.booleans())
    def look_and_pause(self, whole: bool) -> None:
        cluster = Cluster.unscoped.get(pk=self.cluster.pk)
        now = clock.now()
        with contextlib.suppress(BackendUnavailable):
            self._late.append((backend_for(cluster).observe_pods(None if whole else cluster.cursor), now))

    @rule()
    def apply_what_was_seen(self) -> None:
        if self._late:
            batch, then = self._late.pop(0)
            cluster = Cluster.unscoped.get(pk=self.cluster.pk)
            observe._apply(cluster, backend_for(cluster), batch, then)

    @rule(seconds=st.sampled_from([0.3, 7, 31, 90, 700]))
    def time_passes(self, seconds: float) -> None:
        self._now.shift(seconds)

    # The cluster

    @rule(which=_some, what=st.sampled_from([faults.node_fail, faults.node_recover, faults.node_cordon]))
    def node(self, which: int, what: Callable[[uuid.UUID, str], None]) -> None:
        names = list(Node.unscoped.order_by("name").values_list("name", flat=True))
        with contextlib.suppress(BackendUnavailable, NotFound):
            what(self.cluster.pk, names[which % len(names)])

    @rule(which=_some, what=st.sampled_from([faults.device_fail, faults.device_recover]))
    def device(self, which: int, what: Callable[[uuid.UUID, str], None]) -> None:
        cards = list(Device.unscoped.order_by("node__name", "index").values_list("uuid", flat=True))
        with contextlib.suppress(BackendUnavailable, NotFound):
            what(self.cluster.pk, cards[which % len(cards)])

    @rule(which=_some)
    def pod_deleted_by_hand(self, which: int) -> None:
        pods = list(SimulatedPod.unscoped.exclude(phase="gone").order_by("id"))
        if pods:
            pod = pods[which % len(pods)]
            with contextlib.suppress(BackendUnavailable):
                backend_for(self.cluster).remove_pod(TaskRef(pod.namespace, pod.name), 1)

    @rule(answers=st.booleans())
    def api(self, answers: bool) -> None:
        faults.set_reachable(self.cluster.pk, answers)

    # Operators

    @rule(team=st.integers(0, 1), cards=st.sampled_from([0, 1, 5]))
    def quota(self, team: int, cards: int) -> None:
        _set_cards(self.queues[team], cards)

    @rule(team=st.integers(0, 1), policy=st.sampled_from([*StopPolicy, StopPolicy.NONE]))
    def stop(self, team: int, policy: StopPolicy) -> None:
        Queue.unscoped.filter(pk=self.queues[team].pk).update(stop_policy=policy)

    # What must hold

    @invariant()
    def books(self) -> None:
        assert_books()

    @invariant()
    def jobs(self) -> None:
        assert_jobs()

    def _heal(self) -> None:
        faults.set_reachable(self.cluster.pk, True)
        for name in Node.unscoped.values_list("name", flat=True):
            faults.node_recover(self.cluster.pk, name)
        for card in Device.unscoped.values_list("uuid", flat=True):
            faults.device_recover(self.cluster.pk, card)
        for queue in self.queues:
            _set_cards(queue, 5)
        Queue.unscoped.update(stop_policy=StopPolicy.NONE)
        Cluster.unscoped.update(cursor="")
        for round_ in range(60):
            self._now.shift(23)  # never in step with a period of the pipeline
            pipeline.step(self.cell, self.cluster)
            if round_ % 3 == 2:
                for job in Job.unscoped.filter(state=JobState.RUNNING, simulate__run_s=_FOR_EVER):
                    job_cancel(acting_user=self.user, job=job)
            if self._quiet():
                break
        assert self._quiet(), list(Job.unscoped.values_list("name", "state", "reason", "reason_numbers"))
        assert_books()
        assert_jobs()
        assert not Allocation.unscoped.filter(released_at__isnull=True).exists()

    def _quiet(self) -> bool:
        """Every job has ended, is suspended, or waits for the end of its pause; nothing is left to remove."""
        pausing = {"state": JobState.QUEUED, "reason": "BACKOFF", "backoff_until__gt": clock.now()}
        resting = Job.unscoped.exclude(state__in=(*TERMINAL_STATES, JobState.SUSPENDED)).exclude(**pausing)
        return not resting.exists() and not Allocation.unscoped.filter(removed_at__isnull=True).exists()


def _cluster(cell: Cell) -> Cluster:
    cluster = Cluster.unscoped.create(cell=cell, name="sim", backend=BackendKind.SIMULATED)
    groups = [
        NodeGroup(
            prefix="whole-",
            nodes=2,
            cards=4,
            card_model="A100",
            card_memory_mib=40_960,
            cpu_millicores=64_000,
        ),
        NodeGroup(
            prefix="cut-", nodes=1, cards=2, card_model="L40S", card_memory_mib=40_960, mode=GpuMode.SLICE
        ),
    ]
    build_cluster(cluster, node_groups=groups)
    for group in groups:
        selector = {PRODUCT_LABEL: group.card_model}
        clusters.flavor(
            cluster,
            group.prefix.rstrip("-"),
            card_model=group.card_model,
            mode=GpuMode(group.mode),
            node_selector=selector,
        )
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return cluster


def _set_cards(queue: Queue, cards: int) -> None:
    for resource, each in (("gpu.cards", 1), ("gpu.cores", 100), ("gpu.memory", 40_960)):
        Quota.unscoped.filter(node=queue.node, resource=resource).update(own_nominal=cards * each)


@pytest.mark.timeout(600)
def test_no_order_of_events_breaks_the_books_or_strands_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    # Names of pods carry random digits, and their start-up time follows from the name: the same again.
    monkeypatch.setattr(uuid6, "uuid7", lambda: uuid.UUID(int=(7 << 76) | (2 << 62) | next(Pipeline.numbers)))
    run_state_machine_as_test(
        Pipeline,
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            derandomize=True,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
