"""Finds the GPUs that a job held as a whole, and when: only then the job causes all activity of the GPU.

Clocks, power and the activity of engines are measured per GPU. For a GPU that several jobs share, these
values cannot be attributed to one job.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from clusters.gpu.measures import BY_NAME, Level
from scheduling.models import DeviceSlice
from telemetry.store.times import to_ms

_FOREVER_MS: Final = 2**62


class HeldSpan(NamedTuple):
    """The span in which a GPU was held, in milliseconds since 1970."""

    since_ms: int
    until_ms: int


HeldSpans = Mapping[uuid.UUID, Sequence[HeldSpan]]
"""The spans by device."""


def is_of_whole_gpus(measure: str) -> bool:
    """Return whether a measure exists for GPUs only, and not for their slices."""
    return Level.SLICE not in BY_NAME[measure].levels


def find_whole_gpus(job_id: uuid.UUID) -> dict[uuid.UUID, list[HeldSpan]]:
    """Return the GPUs that a job holds or held as a whole."""
    rows = DeviceSlice.unscoped.filter(allocation__task__job=job_id, exclusive=True)
    found: defaultdict[uuid.UUID, list[HeldSpan]] = defaultdict(list)
    for device_id, since, until in rows.order_by("allocation__created_at", "id").values_list(
        "device_id", "allocation__created_at", "allocation__released_at"
    ):
        found[device_id].append(HeldSpan(to_ms(since), _FOREVER_MS if until is None else to_ms(until)))
    return dict(found)


def is_within(spans: Sequence[HeldSpan], since_ms: int, until_ms: int) -> bool:
    """Return whether one of the spans covers a whole interval."""
    return any(span.since_ms <= since_ms and until_ms <= span.until_ms for span in spans)
