"""The expected start of a waiting job as text: its ranges, their basis, and the accuracy of such ranges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from foundation.core import clock
from frontend.texts import formats
from frontend.texts.start_texts import NO_FORECAST
from scheduling.models import Job, StartPrediction
from scheduling.prediction.run_times import RunGroup
from scheduling.selectors.pending.start_prediction import (
    COUNTED,
    FEWEST_JUDGED,
    HeldRanges,
    NoForecast,
    job_expected_start,
)
from tenants.models import User

_LATER: Final = gettext_lazy("Later than estimated. Estimates are updated regularly.")

Range = tuple[datetime, datetime | None]
"""A range of times whose end may be beyond the horizon (None)."""


@dataclass(frozen=True, slots=True)
class StartWords:
    """The panel. `wide` and `likely` are what remains of the 90 % and the 50 % range, `horizon` the remaining
    time that the prediction covers.

    Without a range `unknown` is the reason; `beyond` is set if even the earliest bound is beyond the horizon.
    `late` is the 90 % range that the job has exceeded.
    """

    wide: Range | None = None
    likely: Range | None = None
    horizon: str = ""
    beyond: bool = False
    late: Range | None = None
    basis: str = ""
    record: str = ""
    made_at: datetime | None = None
    unknown: str | Promise = ""


def describe_expected_start(viewer: User, job: Job) -> StartWords:
    """Return the expected start of a waiting job."""
    now = clock.now()
    found = job_expected_start(viewer=viewer, job=job, now=now)
    record = format_record(found.ranges)
    if found.prediction is None:
        return StartWords(unknown=NO_FORECAST[found.why or NoForecast.NOT_YET], record=record)
    return word_prediction(found.prediction, now, record=record)


def word_prediction(prediction: StartPrediction, now: datetime, *, record: str = "") -> StartWords:
    """Return a prediction as text; `record` is the accuracy of earlier ones."""
    low, likely_low, _median, likely_high, high = map(prediction.find_moment, prediction.bounds)
    wide, horizon_at = clip_to_now(low, high, now), prediction.find_moment(prediction.horizon_s)
    left = max(0.0, (horizon_at - now).total_seconds()) if horizon_at else 0.0
    if low is None and not left:
        return StartWords(unknown=_LATER, record=record, made_at=prediction.made_at)
    return StartWords(
        wide=wide,
        likely=clip_to_now(likely_low, likely_high, now),
        late=(low, high) if low and wide is None else None,
        horizon=formats.format_duration(left),
        beyond=low is None,
        basis=format_basis(prediction),
        record=record,
        made_at=prediction.made_at,
    )


def clip_to_now(first: datetime | None, last: datetime | None, now: datetime) -> Range | None:
    """Return the part of a range from now on, for a job that still waits; None for a past range."""
    if first is None or (last is not None and last < now):
        return None
    return max(first, now), last


def format_basis(prediction: StartPrediction) -> str:
    """Return the basis of a prediction as text, with how far ahead it looked."""
    names = {
        "runs": formats.format_number(prediction.runs),
        "futures": formats.format_number(prediction.futures),
        "horizon": formats.format_duration(prediction.horizon_s),
    }
    groups = {
        RunGroup.SAME_JOB: _("%(runs)s runs of this user with the same image, type and size"),
        RunGroup.USER_SIZE: _("%(runs)s runs of this user with the same size"),
        RunGroup.WORKSPACE_SIZE: _("%(runs)s runs in this workspace with the same size"),
        RunGroup.WORKSPACE: _("%(runs)s runs in this workspace"),
        RunGroup.ALL: _("%(runs)s runs in this scheduling domain"),
    }
    sentence = _(
        "Based on %(futures)s simulations of the scheduling domain with its usual jobs, %(horizon)s ahead. "
        "Run times are learned from earlier runs, that of this job from %(group)s."
    )
    return sentence % {**names, "group": groups[RunGroup(prediction.run_group)] % names}


def format_too_few(ranges: HeldRanges) -> str:
    """Return how many outcomes are still missing for a figure of the accuracy."""
    return _("Accuracy is shown from %(fewest)s started jobs on; %(jobs)s so far.") % {
        "fewest": formats.format_number(FEWEST_JUDGED),
        "jobs": formats.format_number(ranges.jobs),
    }


def format_record(ranges: HeldRanges) -> str:
    """Return the accuracy of earlier ranges of the queue, or that too few have ended."""
    if ranges.held_percent is None or not ranges.are_enough:
        return format_too_few(ranges)
    return ngettext(
        "In the last %(days)s days, the 90 %% range held for %(percent)s %% of %(jobs)s job in this queue.",
        "In the last %(days)s days, the 90 %% range held for %(percent)s %% of %(jobs)s jobs in this queue.",
        ranges.jobs,
    ) % {
        "days": COUNTED.days,
        "percent": formats.format_number(ranges.held_percent),
        "jobs": formats.format_number(ranges.jobs),
    }
