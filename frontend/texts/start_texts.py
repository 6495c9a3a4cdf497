"""The reasons for which a pending job has no expected start, as text."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from scheduling.selectors.pending.start_prediction import NoForecast

NO_FORECAST: Final[dict[NoForecast, str | Promise]] = {
    NoForecast.NOT_QUEUED: _("Suspended jobs have no expected start."),
    NoForecast.OTHER_SCHEDULER: _("Unknown: the cluster's own scheduler decides when this job starts."),
    NoForecast.NOT_YET: _("Not available yet. Estimates are updated regularly."),
    NoForecast.NO_HISTORY: _("Unknown: fewer than 20 jobs have finished, too few to estimate from."),
    NoForecast.OUT_OF_TIME: _("Unknown: the estimate took too long for this scheduling domain."),
    NoForecast.CLAIM_NOT_BOUND: _(
        "None while a volume claim of the job can't be mounted: it is missing, not bound or being deleted."
    ),
    NoForecast.FAILED: _("Unknown: the last estimate failed. Details are in the worker's log."),
}
