"""The idle time of allocated cards, as evidence for requests of quota."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Count, ExpressionWrapper, F, FloatField, Q, Sum

from quotas.hooks.request_evidence import EvidenceQuery
from scheduling.models import Job
from telemetry.models import Channel, RolledTenMinutes
from telemetry.series.readings.idle import IDLE_BELOW_PERCENT
from telemetry.store.times import to_ms

_CORE_HOURS: Final = 100 * 3_600_000


def idle_evidence(asked: EvidenceQuery) -> Mapping[str, Any]:
    """Return the measured GPU-hours of held cards, and the idle ones of them: ten minutes in which the use
    never reached 3 % of a card.

    `missing` is `not-measured` if no held card of these queues was ever measured in that time.
    """
    window = Q(at_ms__gte=to_ms(asked.start), at_ms__lt=to_ms(asked.end))
    jobs = Job.unscoped.filter(queue__node__in=list(asked.queues)).values("pk")
    held = Channel.unscoped.filter(allocation_id__isnull=False, job_id__in=jobs).values("pk")
    rows = RolledTenMinutes.unscoped.filter(
        window, channel__in=held, cores_allocated__gt=0, cores_used__isnull=False
    )
    idle = Q(cores_used_max__lt=IDLE_BELOW_PERCENT)
    of_time = ExpressionWrapper(F("cores_allocated") * F("covered_ms"), output_field=FloatField())
    sums = rows.aggregate(rows=Count("pk"), held=Sum(of_time), idle=Sum(of_time, filter=idle))
    if not sums["rows"]:
        return {"missing": "not-measured"}
    return {
        "measured_gpu_hours": round(sums["held"] / _CORE_HOURS, 1),
        "idle_gpu_hours": round((sums["idle"] or 0) / _CORE_HOURS, 1),
    }
