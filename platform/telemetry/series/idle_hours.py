"""How long held cards did nothing, as evidence for requests of quota."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Count, F, Q, Sum

from quotas.hooks.request_evidence import EvidenceQuery
from scheduling.models import Job
from telemetry.models import Channel, RollUp
from telemetry.series.idle import IDLE_BELOW_PERCENT
from telemetry.store.times import ROLL_UP_MS, to_ms

_CORE_HOURS: Final = 100 * 3_600_000 / ROLL_UP_MS


def idle_evidence(asked: EvidenceQuery) -> Mapping[str, Any]:
    """GPU-hours of held cards that were measured, and of those the idle ones: five minutes in which the
    use never reached 3 % of a card.

    `missing` is `not-measured` where no held card of these queues was ever measured in that time.
    """
    window = Q(at_ms__gte=to_ms(asked.start), at_ms__lt=to_ms(asked.end))
    jobs = Job.unscoped.filter(queue__node__in=list(asked.queues)).values("pk")
    held = Channel.unscoped.filter(allocation_id__isnull=False, job_id__in=jobs).values("pk")
    rows = RollUp.unscoped.filter(window, channel__in=held, cores_allocated__gt=0)
    idle = Q(cores_used_max__lt=IDLE_BELOW_PERCENT)
    sums = rows.aggregate(
        rows=Count("pk"), held=Sum(F("cores_allocated")), idle=Sum(F("cores_allocated"), filter=idle)
    )
    if not sums["rows"]:
        return {"missing": "not-measured"}
    return {
        "measured_gpu_hours": round(sums["held"] / _CORE_HOURS, 1),
        "idle_gpu_hours": round((sums["idle"] or 0) / _CORE_HOURS, 1),
    }
