"""What live tasks hold, made from rows."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container, Sequence

from django.db.models import QuerySet

from foundation.quantities import Resource
from scheduling.engine import model as em
from scheduling.engine_jobs import placement_rules
from scheduling.models import Allocation, DeviceSlice, Job


def allocations_of(
    rows: QuerySet[Allocation], parts: QuerySet[DeviceSlice], watched: Container[uuid.UUID]
) -> dict[uuid.UUID, em.Allocation]:
    """What those allocations hold, by id; `parts` are the parts of cards among it, theirs at least."""
    slices: defaultdict[uuid.UUID, list[em.DeviceSlice]] = defaultdict(list)
    for part in parts.select_related("device").order_by("device__index", "id"):
        slices[part.allocation_id].append(
            em.DeviceSlice(part.device.uuid, part.cores, part.memory_mib, part.exclusive)
        )
    found = rows.select_related("task__role", "attempt__job").order_by("id")
    return {row.pk: _allocation(row, slices[row.pk], _met_as(row.attempt.job, watched)) for row in found}


def _allocation(
    row: Allocation, slices: Sequence[em.DeviceSlice], rules: em.PlacementRules | None
) -> em.Allocation:
    flavor = str(row.flavor_id)
    return em.Allocation(
        job=str(row.attempt.job_id),
        queue=str(row.attempt.job.queue_id),
        role=row.task.role.name,
        index=row.task.index,
        flavor=flavor,
        node=str(row.node_id),
        cpu=row.cpu_millicores,
        memory=row.memory_mib,
        slices=tuple(slices),
        charges=tuple(em.Charge(flavor, Resource(name), n) for name, n in sorted(row.charge.items())),
        # A task that is started again where it was is removed, and stays.
        leaving=row.removal_asked_at is not None and not row.restarting,
        rules=rules,
    )


def _met_as(job: Job, watched: Container[uuid.UUID]) -> em.PlacementRules | None:
    """What the tasks of a running job mean to others, where they may mean anything."""
    if job.workspace_id not in watched:
        return None
    return placement_rules(job.placement, namespace=str(job.workspace_id), group=str(job.pk))
