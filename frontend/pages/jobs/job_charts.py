"""The time that the charts of a job show: its run, the last hours before its end, or another stretch."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from foundation.core import clock
from frontend.shell.time_range import TimeRange, read_time_range
from scheduling.models import Job
from telemetry.series.window import MAX_RANGE

WHOLE_RUN: Final = "run"
_SHORTEST: Final = timedelta(minutes=1)


def job_range(request: HttpRequest, job: Job) -> TimeRange:
    """The whole run unless a range is asked for; presets of an ended job count back from its end."""
    end = job.finished_at or clock.now()
    begin = min(job.admitted_at or job.submitted_at, end - _SHORTEST)
    run = (_("Entire run"), max(begin, end - MAX_RANGE))
    return read_time_range(request, WHOLE_RUN, end=end, wholes={WHOLE_RUN: run})
