"""Measures the GPU time that preemption discarded lately in each cell, on which an option of the engine
depends.

It is the work since the last checkpoint of jobs that were preempted as a whole, divided by the GPU time of
the cell's present GPUs in the window. A new cell has lost next to nothing.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Sum

from clusters.models import Cell, Device
from foundation.core.months import to_ms
from foundation.sql import row_scope
from scheduling import engine
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.metering.intervals import WHOLE_GPU, gpu_percent, lost_since_ms
from scheduling.models import Allocation

LOSS_WINDOW: Final = timedelta(seconds=engine.LOSS_WINDOW_S)
"""The window in which losses count; `allotment replay` uses the same."""
_MOST_PPM: Final = 1_000_000


@row_scope.whole()
def measure_preemption_loss(*, now: datetime) -> int:
    """Record the lost part of GPU time of each cell; return for how many cells it changed."""
    lost = _read_lost_gpu_seconds(now - LOSS_WINDOW)
    gpus = _count_gpus()
    changed = 0
    for cell_id, before in Cell.unscoped.order_by("pk").values_list("pk", "lost_ppm"):
        time_s = gpus.get(cell_id, 0.0) * LOSS_WINDOW.total_seconds()
        found = min(_MOST_PPM, int(lost.get(cell_id, 0.0) * _MOST_PPM / time_s)) if time_s else 0
        if found != before:
            changed += Cell.unscoped.filter(pk=cell_id).update(lost_ppm=found)
    return changed


def _read_lost_gpu_seconds(since: datetime) -> Mapping[uuid.UUID, float]:
    """Return, by cell, the GPU-seconds that preempted attempts lost since an instant."""
    rows = Allocation.unscoped.filter(
        attempt__end_reason__in=[rule.value for rule in PREEMPTED],
        attempt__ended_at__gt=since,
    ).order_by()
    lost: defaultdict[uuid.UUID, float] = defaultdict(float)
    for cell_id, began, ended, checkpoint_s, charge in rows.values_list(
        "attempt__job__queue__cell_id",
        "attempt__started_at",
        "attempt__ended_at",
        "attempt__job__checkpoint_interval_s",
        "charge",
    ).iterator():
        if ended is None:
            continue
        started_ms, ended_ms = None if began is None else to_ms(began), to_ms(ended)
        since_ms = lost_since_ms(started_ms=started_ms, ended_ms=ended_ms, checkpoint_interval_s=checkpoint_s)
        lost[cell_id] += gpu_percent(charge) / WHOLE_GPU * (ended_ms - since_ms) / 1000
    return lost


def _count_gpus() -> Mapping[uuid.UUID, float]:
    """Return, by cell, the number of GPUs of its present nodes."""
    present = Device.unscoped.filter(node__present=True).order_by()
    sums = present.values_list("node__cluster__cell_id").annotate(cores=Sum("cores_capacity"))
    return {cell_id: cores / WHOLE_GPU for cell_id, cores in sums}
