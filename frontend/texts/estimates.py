"""The state of a requested estimate of starts as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.texts import formats
from frontend.texts.start_texts import NO_FORECAST
from scheduling.models import SimulationState, StartEstimate
from scheduling.selectors.pending.start_prediction import NoForecast

CANCELED: Final = gettext_lazy("The estimate was canceled, or replaced by another one of yours.")
EXPIRED: Final = gettext_lazy("The estimate was computed more than 10 minutes ago and has expired.")
_ERRORS: Final[Mapping[str, str | Promise]] = {
    "NO_HISTORY": NO_FORECAST[NoForecast.NO_HISTORY],
    "OUT_OF_TIME": NO_FORECAST[NoForecast.OUT_OF_TIME],
    "INTERRUPTED": gettext_lazy("The estimate failed: its worker stopped twice."),
    "INTERNAL": NO_FORECAST[NoForecast.FAILED],
}


def describe_progress(estimate: StartEstimate) -> str:
    """Return the state of an estimate that has not ended."""
    if estimate.state == SimulationState.PENDING:
        return _("Pending: one simulation is computed at a time.")
    percent = formats.format_number(int(estimate.part_done * 100))
    return _("Running: %(percent)s %%") % {"percent": percent}


def describe_failure(estimate: StartEstimate, refused: str) -> str | Promise:
    """Return why an estimate has ended without a result; `refused` is shown if its input is invalid now."""
    if estimate.state == SimulationState.CANCELED:
        return CANCELED
    return _ERRORS.get(estimate.error, refused)
