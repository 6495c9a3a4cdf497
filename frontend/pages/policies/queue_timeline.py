"""The jobs of a queue on one time axis: run times so far, their remainders, and expected starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core import clock
from frontend.components.time_axis import TEXT_WIDTH, AxisTick, TimeAxis, TimeBar
from frontend.pages.jobs.addresses import job_address
from frontend.pages.jobs.job_facts import format_size
from frontend.pages.jobs.pending.job_expected import Range, clip_to_now
from frontend.texts import formats
from quotas.models import Queue
from scheduling.models import Job
from scheduling.services.start_prediction.queue_times import (
    Bounds,
    PendingTimes,
    QueueTimes,
    RunningTimes,
    queue_times,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_LONGEST: Final = timedelta(hours=24)
_SHORTEST: Final = timedelta(minutes=5)
_TICKS: Final = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """One job: its bars, and the same values for a table. A running job has started, or is starting."""

    name: str
    url: str
    size: str
    is_running: bool
    bars: Sequence[TimeBar]
    began_at: datetime | None
    ran: timedelta | None
    likely: tuple[datetime, datetime | None] | None
    wide: tuple[datetime, datetime | None] | None
    unknown: str
    runs: int


@dataclass(frozen=True, slots=True)
class StartRanges:
    """The 50 % and 90 % range of an expected start from now on; `unknown` is the reason if there is none."""

    likely: Range | None
    wide: Range | None
    unknown: str


@dataclass(frozen=True, slots=True)
class QueueTimeline:
    """The rows with their axis. `more` is the number of jobs that are not shown."""

    running: Sequence[TimelineRow]
    pending: Sequence[TimelineRow]
    ticks: Sequence[AxisTick]
    now: float
    more: str


def describe_timeline(viewer: User, queue: Queue) -> QueueTimeline | None:
    """Return the timeline of a queue; None for a viewer without the permission to see its jobs."""
    if not permissions.has_permission(viewer, Permission.JOB_VIEW, queue.workspace):
        return None
    found = queue_times(viewer=viewer, queue=queue, now=clock.now())
    axis = _axis_of(found)
    hidden = found.running_count + found.pending_count - len(found.running) - len(found.pending)
    return QueueTimeline(
        running=[_running_row(one, found.now, axis) for one in found.running],
        pending=[_pending_row(one, found.now, axis) for one in found.pending],
        ticks=_ticks(axis, found.now),
        now=axis.find_place(found.now),
        more=ngettext("%(n)s more job isn't shown.", "%(n)s more jobs aren't shown.", hidden)
        % {"n": formats.format_number(hidden)}
        if hidden
        else "",
    )


def _axis_of(found: QueueTimes) -> TimeAxis:
    """Return an axis from the oldest start to the latest likely time, each at most a day away from now."""
    began = [one.began_at for one in found.running if one.began_at is not None]
    ahead = [moment for one in found.running for moment in one.ends[3:4]]
    ahead += [moment for one in found.pending for moment in one.starts[3:]]
    past = max([found.now - moment for moment in began], default=_SHORTEST)
    future = max([moment - found.now for moment in ahead if moment is not None], default=_SHORTEST)
    past, future = (min(max(span, _SHORTEST), _LONGEST) for span in (past, future))
    # Each side is at least a sixth of the other, so that both stay readable.
    past, future = max(past, future / 6), max(future, past / 6)
    return TimeAxis(found.now - past, found.now + future)


def _running_row(one: RunningTimes, now: datetime, axis: TimeAxis) -> TimelineRow:
    likely, wide = _ranges(one.ends)
    bars = [axis.build_bar("rest", now, wide[0]), axis.build_bar("wide", *wide)] if wide else []
    bars += [axis.build_bar("likely", *likely)] if likely else []
    bars += [axis.build_bar("ran", one.began_at, now)] if one.began_at else []
    return _row(
        one.job,
        is_running=True,
        bars=bars,
        began_at=one.began_at,
        ran=now - one.began_at if one.began_at else None,
        likely=likely,
        wide=wide,
        unknown="" if likely else _("Too few finished runs in this queue"),
        runs=one.basis.runs if one.basis else 0,
    )


def describe_start(one: PendingTimes, now: datetime) -> StartRanges:
    """Return what remains of the ranges of an expected start."""
    likely, wide = _ranges(one.starts)
    passed = bool(one.starts) and one.horizon_at is not None and one.horizon_at <= now
    late = (wide is not None and clip_to_now(*wide, now) is None) or (wide is None and passed)
    likely, wide = (each and clip_to_now(*each, now) for each in (likely, wide))
    beyond = bool(one.starts) and wide is None
    unknown = "" if wide else _("No estimate yet")
    if late:
        unknown = _("Later than estimated")
    elif beyond and one.horizon_at is not None:
        unknown = _("Not within %(span)s") % {"span": formats.format_duration(one.horizon_at - now)}
    return StartRanges(likely, wide, unknown)


def _pending_row(one: PendingTimes, now: datetime, axis: TimeAxis) -> TimelineRow:
    found = describe_start(one, now)
    bars = [axis.build_bar("wide", *found.wide)] if found.wide else []
    bars += [axis.build_bar("likely", *found.likely)] if found.likely else []
    return _row(
        one.job, is_running=False, bars=bars, began_at=None, ran=None, likely=found.likely, wide=found.wide,
        unknown=found.unknown, runs=0,
    )  # fmt: skip


def _row(job: Job, **more: object) -> TimelineRow:
    url = job_address(job.workspace.slug, job.pk)
    return TimelineRow(name=job.name, url=url, size=format_size(job), **more)  # type: ignore[arg-type]


def _ranges(bounds: Bounds) -> tuple[Range | None, Range | None]:
    """Return the 50 % and the 90 % range."""
    if not bounds:
        return None, None
    low, likely_low, _median, likely_high, high = bounds
    if low is None:
        return None, None
    return ((likely_low, likely_high) if likely_low is not None else None), (low, high)


def _ticks(axis: TimeAxis, now: datetime) -> list[AxisTick]:
    """Return about six ticks as spans from now: `-30 min`, `Now`, `+1 h`."""
    length = (axis.end - axis.begin).total_seconds()
    step = next((size for size in _TICKS if length / size <= 6), _TICKS[-1])
    found = [AxisTick(axis.find_place(now), _("Now"))]
    for sign in (-1, 1):
        for number in range(1, 8):
            moment = now + timedelta(seconds=sign * number * step)
            place = axis.find_place(moment)
            if axis.begin <= moment <= axis.end and abs(place - found[0].at) >= TEXT_WIDTH:
                mark = "−" if sign < 0 else "+"
                found.append(AxisTick(place, mark + formats.format_duration(number * step)))
    return found
