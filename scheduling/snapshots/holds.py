"""Converts rows of allocations to the engine's allocations."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Any, Final

from django.db.models import QuerySet

from foundation.core.quantities import Resource
from scheduling.engine import model as em
from scheduling.engine_input.jobs import placement_rules
from scheduling.models import Allocation, DeviceSlice

HOLD: Final = (
    "pk",
    "attempt__job_id",
    "attempt__job__queue_id",
    "attempt__job__workspace_id",
    "attempt__job__placement",
    "task__role__name",
    "task__index",
    "flavor_id",
    "node_id",
    "cpu_millicores",
    "memory_mib",
    "charge",
    "removal_asked_at",
    "restarting",
    "slice_use__wanted_mib",
    "slice_use__lent_at",
)
"""The columns that are read of an allocation."""
PART: Final = ("allocation_id", "device__uuid", "cores", "memory_mib", "exclusive")
"""The columns that are read of a slice of a card."""
Row = tuple[Any, ...]


def allocations_of(
    rows: QuerySet[Allocation], parts: QuerySet[DeviceSlice], watched: Container[uuid.UUID]
) -> dict[uuid.UUID, em.Allocation]:
    """Return these allocations by id; `parts` includes all their slices of cards."""
    holds = rows.order_by("id").values_list(*HOLD)
    return holds_of(holds, parts.order_by("device__index", "id").values_list(*PART), watched)


def holds_of(
    rows: Iterable[Row], parts: Iterable[Row], watched: Container[uuid.UUID]
) -> dict[uuid.UUID, em.Allocation]:
    """Return allocations by id from values of `HOLD` and `PART`; slices are in the order of cards."""
    slices: defaultdict[uuid.UUID, list[em.DeviceSlice]] = defaultdict(list)
    for allocation, *part in parts:
        slices[allocation].append(em.DeviceSlice(*part))
    return {row[0]: _allocation(row, tuple(slices[row[0]]), watched) for row in rows}


def _allocation(row: Row, slices: tuple[em.DeviceSlice, ...], watched: Container[uuid.UUID]) -> em.Allocation:
    _, job, queue, workspace, placement, role, index, flavor, node, cpu, memory, charge, *rest = row
    asked, again, wanted, lent_at = rest
    return em.Allocation(
        job=str(job),
        queue=str(queue),
        role=role,
        index=index,
        flavor=str(flavor),
        node=str(node),
        cpu=cpu,
        memory=memory,
        slices=slices,
        charges=_charges(str(flavor), tuple(sorted(charge.items()))),
        # A task that restarts in place has its pod removed, but keeps its allocation.
        leaving=asked is not None and not again,
        wanted_memory=wanted,
        lent_at=None if lent_at is None else em.Instant(lent_at.timestamp()),
        # The labels and affinity rules, which matter only where some job has pod (anti-)affinity.
        rules=placement_rules(placement, namespace=str(workspace), group=str(job))
        if workspace in watched
        else None,
    )


@lru_cache(maxsize=4096)
def _charges(flavor: str, charge: tuple[tuple[str, int], ...]) -> tuple[em.Charge, ...]:
    """Return the charges of a task, one object for equal charges."""
    return tuple(em.Charge(flavor, Resource(name), amount) for name, amount in charge)
