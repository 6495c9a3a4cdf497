"""The cost of a job by the prices of its pools, as facts of its page."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.utils.translation import gettext as _

from frontend.texts.gpu_hours import format_gpu_hours, format_money
from scheduling.models import Job
from telemetry.usage.job_costs import JobCost, job_costs
from tenants.models import User


def describe_cost(who: User, job: Job, now: datetime) -> list[tuple[str, object]]:
    """Return the GPU-hours and the cost of all attempts of a job; empty if it has not held a GPU.

    The cost of a job that has not ended is marked as an estimate. Raises: NotFound, PermissionDenied.
    """
    found = job_costs(who, [job.workspace], [job.pk], now=now).get(job.pk)
    if found is None:
        return []
    label = _("Cost") if job.is_terminal else _("Cost so far (estimate)")
    return [(_("GPU-hours"), format_gpu_hours(found.core_ms)), (label, _format_cost(found))]


def _format_cost(found: JobCost) -> str:
    if found.amount is None:
        return _("– (a pool has no price)")
    return f"{format_money(found.amount, settings.ALLOTMENT_CURRENCY_DIGITS)} {settings.ALLOTMENT_CURRENCY}"
