"""Concurrent work, on a database that really runs it side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import pytest
from django.db import connection, transaction

from clusters.backends.base import PodObservation, PodPhase, TaskRef
from clusters.backends.simulated import faults
from clusters.models import Cluster, Node
from foundation.core import clock
from foundation.core.errors import Conflict
from foundation.messaging import outbox
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.execution.progress import pods_apply
from scheduling.job_file import parse_job
from scheduling.lifecycle.job_lifecycle import begin_stopping
from scheduling.models import TERMINAL_STATES, Allocation, Attempt, Job, JobEvent, JobState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_cancel, job_resume, job_submit, job_suspend
from scheduling.services.sweep import sweep_cells
from tenants.models import Role
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.server
_AT_WORK_S: Final = 4.0
_PATIENCE_S: Final = 60.0
_JOBS: Final = 40


def beside(first: Callable[[], object], second: Callable[[], object]) -> None:
    """Run `first` in a transaction that stays open while `second` begins in another, and then commits."""
    done = threading.Event()

    def other() -> None:
        try:
            second()
        finally:
            done.set()
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first()
            running = pool.submit(other)
            done.wait(0.5)  # time to finish, or to reach the lock and wait for `first`
        running.result(20)


def seen(allocation: Allocation, phase: PodPhase, exit_code: int) -> list[PodObservation]:
    ref = TaskRef(allocation.namespace, allocation.pod_name)
    return [PodObservation(ref, phase, clock.now(), exit_code=exit_code)]


def running(here: World, *nodes: Node, **fields: Any) -> tuple[Job, list[Allocation]]:
    """Return a running job with one task on each node; cards and ledger are left alone."""
    job = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(replicas=len(nodes), cards=0)], **fields)
    jobs.allocate(job, nodes[0])
    Allocation.unscoped.update(charge={}, ensured_at=clock.now())
    found = list(Allocation.unscoped.order_by("task__index"))
    for allocation, node in zip(found, nodes, strict=True):
        Allocation.unscoped.filter(pk=allocation.pk).update(node=node)
    for node in nodes:
        Node.unscoped.filter(pk=node.pk).update(
            cpu_granted=1000 * len(nodes), memory_granted=1024 * len(nodes)
        )
    return job, found


def test_the_last_two_tasks_of_a_job_end_in_two_clusters(on_postgres: PostgresServer) -> None:
    here = world()
    elsewhere = clusters.cluster(here.cell, "far")
    far = clusters.node(clusters.flavor(elsewhere, "h100"))
    job, (one, two) = running(here, here.nodes[0], far)
    outbox.add_hint(outbox.Topic.CYCLE, here.cell.pk)  # exists already, so that neither waits for the other's

    def end(cluster: Cluster, allocation: Allocation) -> None:
        found = seen(allocation, PodPhase.SUCCEEDED, 0)
        pods_apply(cluster=cluster, observations=found, now=clock.now())

    beside(lambda: end(here.cluster, one), lambda: end(elsewhere, two))

    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


def test_a_cancelled_job_is_not_restarted_by_a_failure_of_the_same_moment(
    on_postgres: PostgresServer,
) -> None:
    here = world()
    again = [{"on": "task_failed", "do": "restart_task", "max": 3}]
    job, (allocation,) = running(here, here.nodes[0], lifecycle=again)
    failed = seen(allocation, PodPhase.FAILED, 1)

    beside(
        lambda: begin_stopping(job=job, now=clock.now()),
        lambda: pods_apply(cluster=here.cluster, observations=failed, now=clock.now()),
    )

    job.refresh_from_db()
    assert job.state == JobState.STOPPING
    assert not Allocation.unscoped.get().restarting


class Crowd:
    """Workers, users and faults, each in a thread of its own, until the time is over."""

    def __init__(self) -> None:
        self.cell = clusters.cell()
        self.cluster, flavor = pipeline.simulated_cluster(self.cell, nodes=3, cards=4, speed=15)
        self.teams = [tenancy.workspace(name) for name in ("team-a", "team-b")]
        self.user = tenancy.user("ed", tenancy.root(), Role.ADMIN)
        for team in self.teams:
            quotas.queue(self.cell, team, [flavor], cards=6)
        jobs.priority_class()
        self._end = time.monotonic() + _AT_WORK_S
        self._all_submitted = False
        self._seen = threading.local()
        self._numbers: Iterator[int] = iter(range(_JOBS))

    def cycles(self) -> None:
        cycle_run(cell_id=self.cell.pk)

    def executes(self) -> None:
        execute_cluster(cluster_id=self.cluster.pk)

    def observes(self) -> None:
        observe_cluster(cluster_id=self.cluster.pk)

    def lists(self) -> None:
        Cluster.unscoped.filter(pk=self.cluster.pk).update(cursor="")
        sweep_cells()

    def submits(self) -> None:
        number = next(self._numbers, None)
        if number is None:
            self._all_submitted = True
            return
        rules = [{"on": "task_failed", "do": "restart_task", "max": 1}] if number % 3 else []
        role = {"replicas": 1 + number % 3, "resources": {"cpu": 1, "gpu": {"cards": 1 + number % 2}}}
        simulate = {"run_s": 5 * (number % 4), "exit_code": int(number % 5 == 0)}
        body = {"name": f"job-{number}", "roles": [role], "lifecycle": rules, "simulate": simulate}
        job_submit(acting_user=self.user, workspace=self.teams[number % 2], spec=parse_job(body))

    def interferes(self) -> None:
        number = time.monotonic_ns() // 1000
        self._until(lambda: JobEvent.unscoped.filter(id__gt=self._last_event()).exists())
        live = list(Job.unscoped.exclude(state__in=TERMINAL_STATES).order_by("id"))
        if live:
            service = (job_suspend, job_resume, job_resume, job_cancel)[number % 4]
            with suppress(Conflict):
                service(acting_user=self.user, job=live[number % len(live)])

    def breaks(self) -> None:
        node = Node.unscoped.filter(cluster=self.cluster, name="node-01")
        faults.node_fail(self.cluster.pk, "node-01")
        self._until(lambda: node.filter(ready=False).exists())  # an observer has seen it
        faults.node_recover(self.cluster.pk, "node-01")
        self._until(lambda: node.filter(ready=True).exists())

    def _over(self) -> bool:
        """Return whether the time is over; a slow machine gets longer until everything was submitted."""
        late_s = time.monotonic() - self._end
        return late_s > 0 and (self._all_submitted or late_s > _PATIENCE_S)

    def _last_event(self) -> int:
        """Return the newest event at this thread's last read; the next act waits for a newer one."""
        before = getattr(self._seen, "event", 0)
        newest = JobEvent.unscoped.order_by("-id").values_list("id", flat=True).first() or 0
        if newest > before:
            self._seen.event = newest
        return before

    def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for other threads until a condition holds, but not beyond the end."""
        wait_until(
            lambda: condition() or self._over(),
            "the others get somewhere, or the time is over",
            within_s=_PATIENCE_S + 10,
            every_s=0.01,
        )

    def keep(self, act: Callable[[], None]) -> int:
        """Repeat an act until the time is over; returns how often."""
        done = 0
        try:
            while not self._over():
                act()
                done += 1
        finally:
            connection.close()
        return done

    def settled(self) -> bool:
        Cluster.unscoped.update(cursor="")
        self.cycles()
        pipeline.step(self.cell, self.cluster)
        for job in Job.unscoped.exclude(state__in=TERMINAL_STATES):
            with suppress(Conflict):
                job_cancel(acting_user=self.user, job=job)
        Allocation.unscoped.filter(removed_at__isnull=True).update(removal_sent_at=None)
        live = Job.unscoped.exclude(state__in=TERMINAL_STATES)
        return not live.exists() and not Allocation.unscoped.filter(removed_at__isnull=True).exists()


def test_concurrent_work_keeps_all_sums_right(on_postgres: PostgresServer) -> None:
    crowd = Crowd()
    acts = [crowd.cycles, crowd.executes, crowd.observes, crowd.submits, crowd.interferes] * 2
    acts += [crowd.lists, crowd.breaks]
    with ThreadPoolExecutor(len(acts)) as pool:
        done = [work.result() for work in [pool.submit(crowd.keep, act) for act in acts]]

    assert min(done) > 0, done
    assert Job.unscoped.count() == _JOBS
    assert Attempt.unscoped.exists()  # their number depends on the machine, the sums do not
    assert_books()
    assert_jobs()

    faults.set_speed(crowd.cluster.pk, 1000)
    wait_until(crowd.settled, "every job has ended and every pod is gone", within_s=20)
    assert_books()
    assert_jobs()
    assert not Allocation.unscoped.filter(released_at__isnull=True).exists()
