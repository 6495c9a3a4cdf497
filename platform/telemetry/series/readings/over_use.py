"""The use of slices compared with their allocation, and the slices that use more."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from django.db.models import Avg

from foundation.core import clock
from foundation.core.actor import Actor
from scheduling.models import DeviceSlice
from telemetry.models import Reading, Scope
from telemetry.series.readings.now import FRESH_FOR
from telemetry.store.packing import unpack_values
from telemetry.store.times import to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission

COMPUTE_OVER: Final = 1.1
"""The share of its compute above which a slice exceeds its allocation, on average over five minutes."""
_COMPUTE_WITHIN: Final = timedelta(minutes=5)


class OverUse(StrEnum):
    """The resource that a slice exceeds. `limit`: the container changed its memory limit."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class SliceLine:
    """A live slice with its present use; None for a value that was not measured in the last 30 s.

    Compute in percent of the GPU, memory in MiB; `cores_mean` over five minutes.
    """

    slice: DeviceSlice
    cores_used: float | None
    cores_mean: float | None
    memory_used_mib: int | None
    over: tuple[OverUse, ...]

    @property
    def is_measured(self) -> bool:
        """Return whether any of its use is known now."""
        return self.cores_used is not None or self.memory_used_mib is not None


def slice_lines(viewer: Actor, *, cluster_id: uuid.UUID | None = None) -> list[SliceLine]:
    """Return every live slice and MIG instance, those over their allocation first; whole GPUs are excluded.

    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = DeviceSlice.unscoped.filter(
        released=False, exclusive=False, allocation__released_at__isnull=True
    ).select_related(
        "device__node__cluster",
        "allocation__attempt__job__workspace",
        "allocation__attempt__job__submitted_by",
    )
    if cluster_id is not None:
        rows = rows.filter(device__node__cluster=cluster_id)
    slices = list(rows)
    used, means = _latest(slices), _means(slices)
    lines = [_line(row, used, means) for row in slices]
    return sorted(lines, key=lambda line: (not line.over, _share(line), str(line.slice.pk)))


SliceKey = tuple[uuid.UUID | None, uuid.UUID | None]


def _latest(slices: Iterable[DeviceSlice]) -> dict[SliceKey, tuple[float | None, int | None, bytes | None]]:
    now = clock.now()
    rows = Reading.unscoped.filter(
        at_ms__gte=to_ms(now - FRESH_FOR),
        at_ms__lte=to_ms(now),
        channel__scope=Scope.SLICE,
        channel__allocation_id__in={row.allocation_id for row in slices},
    ).order_by("at_ms", "id")
    columns = ("channel__allocation_id", "channel__device_id", "cores_used", "memory_used_mib", "values")
    # In order of time, so that the last value stays.
    return {
        (pk, device): (cores, memory, packed)
        for pk, device, cores, memory, packed in rows.values_list(*columns)
    }


def _means(slices: Iterable[DeviceSlice]) -> dict[SliceKey, float | None]:
    rows = Reading.unscoped.filter(
        at_ms__gte=to_ms(clock.now() - _COMPUTE_WITHIN),
        channel__scope=Scope.SLICE,
        channel__allocation_id__in={row.allocation_id for row in slices},
    )
    grouped = rows.order_by().values_list("channel__allocation_id", "channel__device_id")
    return {(pk, device): mean for pk, device, mean in grouped.annotate(mean=Avg("cores_used"))}


def _line(
    row: DeviceSlice,
    used: dict[SliceKey, tuple[float | None, int | None, bytes | None]],
    means: dict[SliceKey, float | None],
) -> SliceLine:
    key = (row.allocation_id, row.device_id)
    cores, memory, packed = used.get(key, (None, None, None))
    mean = means.get(key) if key in used else None
    values = unpack_values(packed)
    over = []
    if memory is not None and memory > row.memory_mib:
        over.append(OverUse.MEMORY)
    if mean is not None and mean > COMPUTE_OVER * row.cores:
        over.append(OverUse.COMPUTE)
    # The container's own file has the limit in effect; a limit below the allocation does no harm.
    if values.get("memory_enforced_mib", 0) > values.get("memory_limit_mib", row.memory_mib):
        over.append(OverUse.LIMIT)
    return SliceLine(row, cores, mean, memory, tuple(over))


def _share(line: SliceLine) -> float:
    """Return the sort key by used share of the allocated memory, fullest first, unmeasured last."""
    if line.memory_used_mib is None:
        return 1.0
    return -line.memory_used_mib / max(line.slice.memory_mib, 1)
