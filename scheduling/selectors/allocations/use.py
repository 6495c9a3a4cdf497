"""The GPU-hours of the jobs of some queues in a period, as evidence for requests of quota."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.months import CORE_MS_PER_GPU_HOUR, from_ms, to_ms
from quotas.hooks.request_evidence import EvidenceQuery
from quotas.models import Queue
from scheduling.metering.usage_rows import usage_rows


def use_evidence(asked: EvidenceQuery) -> Mapping[str, Any]:
    """Return GPU-hours by flavor, their mean over the period in GPUs, and since when the database has
    records.

    `missing` is `nothing-held` if no job held a GPU in the period.
    """
    start_ms, end_ms = to_ms(asked.start), to_ms(asked.end)
    queues = list(Queue.unscoped.filter(node__in=list(asked.queues)).values_list("pk", flat=True))
    core_ms: Counter[uuid.UUID] = Counter()
    since_ms = None
    for row in usage_rows(start_ms, end_ms, now=max(asked.end, clock.now()), queue_id=queues):
        begin = max(row.begin_ms, start_ms)
        core_ms[row.flavor_id] += row.cores * (min(row.end_ms, end_ms) - begin)
        since_ms = begin if since_ms is None else min(since_ms, begin)
    if since_ms is None:
        return {"missing": "nothing-held"}
    names = dict(Flavor.unscoped.filter(pk__in=list(core_ms)).values_list("pk", "name"))
    hours = {pk: amount / CORE_MS_PER_GPU_HOUR for pk, amount in core_ms.items()}
    total = sum(hours.values())
    return {
        "gpu_hours": {names[pk]: round(hours[pk], 1) for pk in sorted(hours)},
        "total_gpu_hours": round(total, 1),
        "mean_gpus": round(total / ((end_ms - start_ms) / 3_600_000), 2),
        "since": from_ms(since_ms).isoformat(),
    }
