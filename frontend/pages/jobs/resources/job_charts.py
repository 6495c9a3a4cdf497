"""The range of a job's charts (its run, the last hours before its end, or another period), and the GPUs of
which they have lines beside the mean.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.actor import Actor
from frontend.pages.charts.gpu_choice import EACH, EACH_MOST, GpuChoice
from frontend.pages.jobs.job_tabs import JobTab
from frontend.shell.time_range import TimeRange, read_time_range
from scheduling.models import Job
from telemetry.series import job_gpus
from telemetry.series.windows.window import MAX_RANGE

WHOLE_RUN: Final = "run"
_SHORTEST: Final = timedelta(minutes=1)


def job_range(request: HttpRequest, job: Job) -> TimeRange:
    """Return the whole run unless a range is requested; presets of an ended job count back from its end."""
    end = job.finished_at or clock.now()
    begin = min(job.admitted_at or job.submitted_at, end - _SHORTEST)
    run = (_("Entire run"), max(begin, end - MAX_RANGE))
    return read_time_range(request, WHOLE_RUN, end=end, wholes={WHOLE_RUN: run})


def describe_choice(viewer: Actor, job: Job, shown: TimeRange, choice: GpuChoice) -> dict[str, Any]:
    """Return the options of the GPUs, the selected one, and the parameters that the form keeps.

    A job with a single GPU has no options.
    """
    gpus = job_gpus(viewer, job) if job.attempt_number else []
    options = [(str(pk), name) for pk, name in gpus]
    if len(options) <= EACH_MOST:
        options.insert(0, (EACH, _("Average and each GPU")))
    return {
        "options": options if len(gpus) > 1 else [],
        "value": choice.value,
        "kept": [("tab", JobTab.METRICS.value), *shown.query.items()],
    }
