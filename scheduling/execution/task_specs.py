"""What a task's pod looks like: the engine's choice, the user's command, and the task's place in the gang."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from clusters.backends.base import DeviceGrant, TaskRef, TaskSpec
from scheduling.models import Allocation, DeviceSlice, Task
from scheduling.naming import pod_name

MASTER_PORT: Final = 23456
LABEL_JOB: Final = "allotment.io/job"
LABEL_ATTEMPT: Final = "allotment.io/attempt"
LABEL_EPOCH: Final = "allotment.io/epoch"


def task_specs(allocations: Sequence[Allocation]) -> list[TaskSpec]:
    """Build the pod of each allocation.

    Needs `task__role`, `attempt__job` and `node` selected. Three queries, however many pods.
    """
    grants = _grants(allocations)
    gangs = _gangs({allocation.attempt_id for allocation in allocations})
    return [
        _spec(allocation, grants.get(allocation.pk, ()), gangs[allocation.attempt_id])
        for allocation in allocations
    ]


def _grants(allocations: Sequence[Allocation]) -> dict[uuid.UUID, list[DeviceGrant]]:
    by_allocation: defaultdict[uuid.UUID, list[DeviceGrant]] = defaultdict(list)
    parts = DeviceSlice.unscoped.filter(allocation__in=[a.pk for a in allocations]).select_related("device")
    for part in parts.order_by("device__index", "id"):
        by_allocation[part.allocation_id].append(DeviceGrant(part.device.uuid, part.cores, part.memory_mib))
    return dict(by_allocation)


def _gangs(attempt_ids: set[uuid.UUID]) -> dict[uuid.UUID, list[Task]]:
    """The tasks that each attempt started, in rank order: by role as written, then by index.

    An elastic role may have more; whoever waited for those would wait for ever.
    """
    gangs: defaultdict[uuid.UUID, list[Task]] = defaultdict(list)
    members = Allocation.unscoped.filter(attempt__in=attempt_ids).select_related("task__role")
    for member in members.order_by("attempt_id", "task__role__position", "task__index"):
        gangs[member.attempt_id].append(member.task)
    return dict(gangs)


def _spec(allocation: Allocation, grants: Sequence[DeviceGrant], gang: Sequence[Task]) -> TaskSpec:
    job, attempt, role = allocation.attempt.job, allocation.attempt, allocation.task.role
    return TaskSpec(
        ref=TaskRef(allocation.namespace, allocation.pod_name),
        node=allocation.node.name,
        cpu_millicores=allocation.cpu_millicores,
        memory_mib=allocation.memory_mib,
        devices=tuple(grants),
        image=role.image,
        command=tuple(role.command),
        environment={**job.environment, **_gang_environment(allocation, gang)},
        labels={
            **(job.placement.get("labels") or {}),
            LABEL_JOB: str(job.pk),
            LABEL_ATTEMPT: str(attempt.number),
            LABEL_EPOCH: str(attempt.epoch),
        },
        simulate=job.simulate,
    )


def _gang_environment(allocation: Allocation, gang: Sequence[Task]) -> Mapping[str, str]:
    """How each task finds itself and its peers; the first task of the first role is the master."""
    job, number = allocation.attempt.job, allocation.attempt.number
    names = [pod_name(job, number, task.role.name, task.index) for task in gang]
    rank = next(rank for rank, task in enumerate(gang) if task.pk == allocation.task_id)
    return {
        "TASK_INDEX": str(allocation.task.index),
        "ROLE": allocation.task.role.name,
        "WORLD_SIZE": str(len(gang)),
        "RANK": str(rank),
        "MASTER_ADDR": names[0],
        "MASTER_PORT": str(MASTER_PORT),
        "HOSTS": ",".join(names),
    }
