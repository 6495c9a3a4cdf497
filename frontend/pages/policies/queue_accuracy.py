"""The accuracy of the expected starts of a queue's jobs: a chart by week, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core import clock
from frontend.charts.bars import Bars, daily_bars
from frontend.charts.model import Chart
from frontend.pages.jobs.pending.job_expected import format_too_few
from frontend.texts import formats
from quotas.models import Queue
from scheduling.selectors.pending.start_prediction import WEEKS, CalibrationWeek, queue_calibration
from tenants.models import User


@dataclass(frozen=True, slots=True)
class AccuracyCard:
    """The sentence, and the chart; None if too few predicted jobs have started."""

    sentence: str
    chart: Chart | None


def describe_accuracy(viewer: User, queue: Queue) -> AccuracyCard:
    """Return the outcomes of a queue's predictions. Raises: NotFound, PermissionDenied."""
    found = queue_calibration(viewer=viewer, queue=queue, now=clock.now())
    total = found.total
    if not total.jobs:
        return AccuracyCard(_("No pending job with an expected start has started yet."), None)
    if total.held_percent is None or total.likely_percent is None or not total.are_enough:
        return AccuracyCard(format_too_few(total), None)
    sentence = ngettext(
        "The 90 %% range held for %(held)s %% and the 50 %% range for %(likely)s %% of %(jobs)s job.",
        "The 90 %% range held for %(held)s %% and the 50 %% range for %(likely)s %% of %(jobs)s jobs.",
        total.jobs,
    ) % {
        "held": formats.format_number(total.held_percent),
        "likely": formats.format_number(total.likely_percent),
        "jobs": formats.format_number(total.jobs),
    }
    return AccuracyCard(sentence, _draw(found.weeks))


def _draw(weeks: Sequence[CalibrationWeek]) -> Chart:
    ranges = [week.ranges for week in weeks]
    parts = [
        Bars(
            name=_("In %(level)s range") % {"level": "50 %"},
            values=[each.likely_held for each in ranges],
            color="used",
        ),
        Bars(
            name=_("In %(level)s range only") % {"level": "90 %"},
            values=[each.held - each.likely_held for each in ranges],
            color="allocated",
        ),
        Bars(name=_("Outside"), values=[each.jobs - each.held for each in ranges], color="series-8"),
    ]
    title = _("Started jobs by week, last %(weeks)s weeks") % {"weeks": WEEKS}
    return daily_bars(
        "expected-starts", [week.begin for week in weeks], parts, unit=_("jobs"), title=title, digits=0
    )
