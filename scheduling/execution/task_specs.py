"""Builds the pod of a task: the engine's placement, the user's command, and the task's rank in the gang."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from django.db.models.functions import Coalesce

from clusters.backends.base import EPOCH, HOLD, DeviceGrant, GangSpec, TaskRef, TaskSpec
from foundation.sql.prepared import PreparedQuery
from scheduling.execution.peers import Peers, peers_of
from scheduling.models import Allocation, DeviceSlice, Task
from scheduling.models.pod_names import gang_name

LABEL_JOB: Final = "allotment.io/job"
LABEL_ATTEMPT: Final = "allotment.io/attempt"
LABEL_EPOCH: Final = EPOCH
_PARTS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda allocations: (
        DeviceSlice.unscoped.filter(allocation__pk__any_of=allocations)
        .order_by("device__index", "id")
        # A pod that is created again during a change of its GPU memory starts with the wanted memory.
        .values_list("allocation_id", "device__uuid", "cores", Coalesce("wanted_mib", "memory_mib"))
    )
)
_OF_ROLE: Final = tuple(f"task__role__{name}" for name in ("name", "gpu_cards", "replicas", "min_replicas"))
_MEMBERS: Final = PreparedQuery(
    lambda attempts: (
        Allocation.unscoped.filter(attempt__pk__any_of=attempts)
        .select_related("task__role")
        .only("attempt_id", "pod_name", "task__index", "task__job_id", *_OF_ROLE)
        .order_by("attempt_id", "task__role__position", "task__index", "created_at", "pk")
    )
)


def task_specs(allocations: Sequence[Allocation]) -> list[TaskSpec]:
    """Return the pod specification of each allocation.

    The allocations need `task__role`, `attempt__job`, `node` and `flavor` selected. It takes three queries,
    for any number of pods.
    """
    grants = _grants(allocations)
    attempts = {allocation.attempt_id: allocation.attempt for allocation in allocations}
    gangs = {
        key: peers_of(attempts[key].job, attempts[key].number, tasks, pods)
        for key, (tasks, pods) in _gangs(set(attempts)).items()
    }
    return [
        _spec(allocation, grants.get(allocation.pk, ()), gangs[allocation.attempt_id])
        for allocation in allocations
    ]


def _grants(allocations: Sequence[Allocation]) -> dict[uuid.UUID, list[DeviceGrant]]:
    by_allocation: defaultdict[uuid.UUID, list[DeviceGrant]] = defaultdict(list)
    for allocation, *grant in _PARTS.for_any([allocation.pk for allocation in allocations]):
        by_allocation[allocation].append(DeviceGrant(*grant))
    return dict(by_allocation)


def _gangs(attempt_ids: set[uuid.UUID]) -> dict[uuid.UUID, tuple[list[Task], dict[uuid.UUID, str]]]:
    """Return the tasks that each attempt has started, in rank order (by role in the job file's order, then by
    index), and the names of their latest pods.

    Tasks of an elastic role that have not started are left out, because peers would wait for them without
    end.
    """
    gangs: defaultdict[uuid.UUID, tuple[list[Task], dict[uuid.UUID, str]]]
    gangs = defaultdict(lambda: ([], {}))
    for member in _MEMBERS.for_any(sorted(attempt_ids)):
        tasks, pods = gangs[member.attempt_id]
        if member.task_id not in pods:
            tasks.append(member.task)
        pods[member.task_id] = member.pod_name
    return dict(gangs)


def _spec(allocation: Allocation, grants: Sequence[DeviceGrant], peers: Peers) -> TaskSpec:
    job, attempt, role = allocation.attempt.job, allocation.attempt, allocation.task.role
    labels = {LABEL_JOB: str(job.pk), LABEL_ATTEMPT: str(attempt.number)}
    of_hold = {LABEL_EPOCH: str(attempt.epoch), HOLD: str(allocation.pk)}
    tolerations = [*allocation.flavor.tolerations, *(job.placement.get("tolerations") or ())]
    return TaskSpec(
        ref=TaskRef(allocation.namespace, allocation.pod_name),
        node=allocation.node.name,
        cpu_millicores=allocation.cpu_millicores,
        memory_mib=allocation.memory_mib,
        devices=tuple(grants),
        image=role.image,
        command=tuple(role.command),
        environment={
            **peers.launcher_environment(allocation.task),
            **job.environment,
            **peers.task_environment(allocation.task),
        },
        workspace=str(job.workspace_id),
        labels={**(job.placement.get("labels") or {}), **labels, **of_hold},
        gang=GangSpec(gang_name(job, attempt.number), peers.size, labels, peers.files),
        options={**job.runtime, **role.container, "volumes": job.volumes, "tolerations": tolerations},
        simulate=job.simulate,
    )
