"""Finds the GPUs that a job held as a whole, and when: only then all that a GPU does is done by the job.

Clocks, power, or the activity of engines are measured per GPU. Of a GPU that several jobs share they say
nothing about one of them.
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
    """Milliseconds since 1970 from which and until which a GPU was held."""

    since_ms: int
    until_ms: int


HeldSpans = Mapping[uuid.UUID, Sequence[HeldSpan]]
"""By device."""


def is_of_whole_gpus(measure: str) -> bool:
    """Tell whether a measure is known of GPUs only, and not of their slices."""
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
    """Tell whether one of the spans covers all of a stretch."""
    return any(span.since_ms <= since_ms and until_ms <= span.until_ms for span in spans)
