"""What the jobs of some queues held over a stretch of time, as evidence for requests of quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from clusters.models import Flavor
from foundation.core.quantities import Resource
from quotas.hooks.request_evidence import EvidenceQuery
from scheduling.models import Allocation

_HOUR_S = 3600


def use_evidence(asked: EvidenceQuery) -> Mapping[str, Any]:
    """GPU-hours by flavor, their mean over the whole time in GPUs, and since when the database knows.

    `missing` is `nothing-held` where no job held a GPU in that time.
    """
    held = Allocation.unscoped.filter(
        Q(released_at__isnull=True) | Q(released_at__gt=asked.start),
        attempt__job__queue__node__in=list(asked.queues),
        created_at__lt=asked.end,
    )
    seconds: Counter[Any] = Counter()
    since = None
    rows = held.values_list("flavor_id", "attempt__admitted_at", "released_at", "charge")
    for flavor, began, ended, charge in rows.iterator(chunk_size=2000):
        cores = charge.get(Resource.GPU_CORES.value, 0)
        if cores:
            start, end = max(began, asked.start), min(ended or asked.end, asked.end)
            seconds[flavor] += cores / 100 * max(0.0, (end - start).total_seconds())
            since = start if since is None else min(since, start)
    if since is None:
        return {"missing": "nothing-held"}
    names = dict(Flavor.unscoped.filter(pk__in=list(seconds)).values_list("pk", "name"))
    total = sum(seconds.values())
    return {
        "gpu_hours": {names[pk]: round(seconds[pk] / _HOUR_S, 1) for pk in sorted(seconds)},
        "total_gpu_hours": round(total / _HOUR_S, 1),
        "mean_gpus": round(total / (asked.end - asked.start).total_seconds(), 2),
        "since": since.isoformat(),
    }
