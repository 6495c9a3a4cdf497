"""Jobs with roles and tasks, and allocations for those that hold devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

from clusters.models import Device, Flavor, Node
from foundation.core import clock
from quotas.models import Queue
from scheduling.models import (
    HOLDING_STATES,
    Allocation,
    Attempt,
    DeviceSlice,
    GpuRequestMode,
    Job,
    JobRole,
    JobState,
    JobTag,
    PriorityClass,
    Task,
    TaskState,
)
from tenants.models import User

_number = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOf:
    """A role to be; amounts per task: CPU in millicores, memory in MiB, GPU memory in MiB per card."""

    name: str = "main"
    replicas: int = 1
    min_replicas: int | None = None
    cpu: int = 1000
    memory: int = 1024
    cards: int = 1
    mode: GpuRequestMode = GpuRequestMode.WHOLE
    cores: int = 100
    gpu_memory: int | None = None
    models: tuple[str, ...] = ()


def priority_class(name: str = "normal", value: int = 0) -> PriorityClass:
    """The class of that name, made on first use."""
    return PriorityClass.unscoped.get_or_create(name=name, defaults={"value": value})[0]


def job(
    queue: Queue,
    user: User,
    name: str | None = None,
    *,
    state: JobState = JobState.QUEUED,
    roles: Sequence[RoleOf] = (RoleOf(),),
    priority: PriorityClass | None = None,
    submitted_at: datetime | None = None,
    **fields: Any,
) -> Job:
    """A job with its roles and tasks; without allocations, whatever its state."""
    rank = priority or priority_class()
    fields.setdefault("min_available", sum(role.min_replicas or role.replicas for role in roles))
    made = Job.unscoped.create(
        workspace=queue.workspace,
        queue=queue,
        name=name or f"job-{next(_number)}",
        state=state,
        submitted_by=user,
        priority_class=rank,
        priority=rank.value,
        submitted_at=submitted_at or clock.now(),
        **fields,
    )
    JobTag.unscoped.bulk_create(JobTag.of_job(made))
    for position, role in enumerate(roles):
        _role(made, position, role)
    return made


def _role(of: Job, position: int, role: RoleOf) -> None:
    row = JobRole.unscoped.create(
        job=of,
        position=position,
        name=role.name,
        replicas=role.replicas,
        min_replicas=role.min_replicas or role.replicas,
        cpu_millicores=role.cpu,
        memory_mib=role.memory,
        gpu_mode=role.mode if role.cards else GpuRequestMode.NONE,
        gpu_cards=role.cards,
        gpu_cores=role.cores if role.cards else 0,
        gpu_memory_mib=role.gpu_memory,
        gpu_models=list(role.models),
    )
    Task.unscoped.bulk_create(Task(job=of, role=row, index=index) for index in range(role.replicas))


def allocate(
    of: Job, node: Node, *, flavor: Flavor | None = None, state: JobState = JobState.RUNNING
) -> Attempt:
    """Put every task of the job on the first free cards of one node, as an admission would.

    The job gets `state`, which must be one that holds. Grants on node and cards are counted; the ledger
    is left alone.
    """
    assert state in HOLDING_STATES
    pool = flavor or node.flavor
    assert pool is not None
    now = clock.now()
    of.state, of.attempt_number, of.admitted_at, of.reason = state, of.attempt_number + 1, now, ""
    of.save()
    attempt = Attempt.unscoped.create(job=of, number=of.attempt_number, epoch=1, admitted_at=now)
    for task in Task.unscoped.filter(job=of).select_related("role").order_by("role__position", "index"):
        _bind(attempt, task, node, pool)
    node.save()
    return attempt


def _bind(attempt: Attempt, task: Task, node: Node, pool: Flavor) -> None:
    role = task.role
    name = f"{attempt.job.name[:30]}-{str(attempt.job.pk)[-8:]}-{attempt.number}-{role.name}-{task.index}"
    row = Allocation.unscoped.create(
        attempt=attempt,
        task=task,
        node=node,
        flavor=pool,
        cpu_millicores=role.cpu_millicores,
        memory_mib=role.memory_mib,
        charge={"gpu.cards": role.gpu_cards},
        namespace=attempt.job.workspace.slug,
        pod_name=name[:63],
    )
    node.cpu_granted += role.cpu_millicores
    node.memory_granted += role.memory_mib
    exclusive = role.gpu_mode == GpuRequestMode.WHOLE
    needed = role.gpu_memory_mib
    free = Device.unscoped.filter(node=node, cores_granted__lte=100 - role.gpu_cores).order_by("index")
    for device in free[: role.gpu_cards]:
        memory = device.memory_capacity if exclusive or needed is None else needed
        DeviceSlice.unscoped.create(
            allocation=row, device=device, cores=role.gpu_cores, memory_mib=memory, exclusive=exclusive
        )
        device.cores_granted += role.gpu_cores
        device.memory_granted += memory
        device.holders += 1
        device.save()
    Task.unscoped.filter(pk=task.pk).update(state=TaskState.RUNNING, started_at=clock.now())
