"""Checks of all sums and of every job's state, which must hold after any step of any process."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable

from clusters.models import Device, Node, SimulatedPod
from foundation.sql.prepared import PreparedQuery
from quotas.models import LedgerEntry
from scheduling.models import (
    HOLDING_STATES,
    TERMINAL_STATES,
    WAITING_STATES,
    Allocation,
    Attempt,
    DeviceSlice,
    Job,
    JobState,
    Task,
    TaskState,
)

_LIVE = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_ACTIVE = {TaskState.BOUND, TaskState.STARTING, TaskState.RUNNING}

# These queries run after every step of thousands: compiling each anew takes ten times as long as its answer.
_HELD = PreparedQuery(
    lambda: Allocation.unscoped.filter(released_at__isnull=True).select_related("attempt__job__queue")
)
_HOLDING_PODS = PreparedQuery(
    lambda: SimulatedPod.unscoped.filter(holds=True).values_list("namespace", "name")
)
_SHORT_PODS = PreparedQuery(lambda: SimulatedPod.unscoped.filter(reason__startswith="OutOf"))
_LEDGER = PreparedQuery(
    lambda: LedgerEntry.unscoped.values_list("node_id", "flavor_id", "resource", "reserved")
)
_NODES = PreparedQuery(lambda: Node.unscoped.all())
_CARDS = PreparedQuery(lambda: Device.unscoped.all())
_PARTS = PreparedQuery(
    lambda: DeviceSlice.unscoped.filter(allocation__released_at__isnull=True).values_list(
        "device_id", "cores", "memory_mib"
    )
)
_ATTEMPTS = PreparedQuery(lambda: Attempt.unscoped.filter(ended_at__isnull=True).values_list("job_id"))
_TASKS = PreparedQuery(lambda: Task.unscoped.values_list("job_id", "state"))
_PRESENT = PreparedQuery(
    lambda: Allocation.unscoped.filter(removed_at__isnull=True).select_related("attempt")
)
_MISPROMISED = PreparedQuery(
    lambda: (
        Job.unscoped.filter(claim__isnull=False)
        # A job that moves keeps its claim until it is queued again.
        .exclude(state__in=(JobState.QUEUED, JobState.EVICTING))
        .values_list("name", "state")
    )
)
_JOBS = PreparedQuery(lambda: Job.unscoped.all())


def assert_books() -> None:
    """Check sums of the ledger, nodes and cards; that a task has one hold and no pod is without a hold."""
    held = _HELD()
    _ledger(held)
    _nodes(held)
    _devices()
    tasks = Counter(allocation.task_id for allocation in held)
    assert not [task for task, count in tasks.items() if count > 1]
    names = {(allocation.namespace, allocation.pod_name) for allocation in held}
    pods = set(_HOLDING_PODS())
    assert pods <= names, f"freed while pods still held their cards: {pods - names}"
    short = _SHORT_PODS()
    assert not short, f"a node was over-filled: {short[0]}"


def _ledger(held: Iterable[Allocation]) -> None:
    wanted: Counter[tuple[uuid.UUID, uuid.UUID, str]] = Counter()
    for allocation in held:
        node = allocation.attempt.job.queue.node_id
        wanted.update({(node, allocation.flavor_id, name): n for name, n in allocation.charge.items() if n})
    found = {(node, flavor, name): used for node, flavor, name, used in _LEDGER() if used}
    assert all(used > 0 for used in found.values())
    assert found == dict(wanted)


def _nodes(held: Iterable[Allocation]) -> None:
    cpu: Counter[uuid.UUID] = Counter()
    memory: Counter[uuid.UUID] = Counter()
    for allocation in held:
        cpu[allocation.node_id] += allocation.cpu_millicores
        memory[allocation.node_id] += allocation.memory_mib
    for node in _NODES():
        assert (node.cpu_granted, node.memory_granted) == (cpu[node.pk], memory[node.pk])


def _devices() -> None:
    sums: defaultdict[uuid.UUID, list[int]] = defaultdict(lambda: [0, 0, 0])
    for pk, cores, memory in _PARTS():
        for place, amount in enumerate((cores, memory, 1)):
            sums[pk][place] += amount
    for device in _CARDS():
        assert [device.cores_granted, device.memory_granted, device.holders] == sums[device.pk]
        assert device.cores_granted <= device.cores_capacity
        assert device.memory_granted <= device.memory_capacity


def assert_jobs() -> None:
    """Check that the state of each job agrees with its tasks, its attempts and what it holds."""
    attempts = Counter(job for (job,) in _ATTEMPTS())
    tasks: defaultdict[uuid.UUID, set[str]] = defaultdict(set)
    for pk, state in _TASKS():
        tasks[pk].add(state)
    present: defaultdict[uuid.UUID, list[Allocation]] = defaultdict(list)
    for allocation in _PRESENT():
        present[allocation.attempt.job_id].append(allocation)
    mispromised = _MISPROMISED()
    assert not mispromised, mispromised
    for job in _JOBS():
        assert attempts[job.pk] == (1 if job.state in HOLDING_STATES else 0), job.state
        _job(job, tasks[job.pk], present[job.pk])


def _job(job: Job, tasks: set[str], present: list[Allocation]) -> None:
    about = f"{job.name} is {job.state} ({job.reason or job.end_reason}) with tasks {sorted(tasks)}"
    if job.state in WAITING_STATES:
        assert job.reason, about
        assert tasks == {TaskState.WAITING}, about
        assert not present, about
    elif job.state in _LIVE:
        assert TaskState.FAILED not in tasks, about
        assert tasks - {TaskState.WAITING, TaskState.SUCCEEDED}, about
    else:
        assert not tasks & _ACTIVE, about
        assert all(allocation.removal_asked_at for allocation in present), about
        assert not any(allocation.restarting for allocation in present), about
    assert job.state in TERMINAL_STATES or job.finished_at is None, about
