"""The lines of a table of quota forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from frontend.shell import navigation
from frontend.texts import formats
from telemetry.usage.forecast import QuotaForecast, QuotaTrend

_SOON: Final = timedelta(days=1)
_TRENDS: Final[dict[QuotaTrend, tuple[str | Promise, str]]] = {
    QuotaTrend.FULL: (gettext_lazy("Full now"), "failed"),
    QuotaTrend.LATER: (gettext_lazy("In more than 90 days"), "done"),
    QuotaTrend.STEADY: (gettext_lazy("No clear growth"), "done"),
    QuotaTrend.SHORT: (gettext_lazy("Too little history"), "done"),
    QuotaTrend.UNLIMITED: (gettext_lazy("Unlimited"), "done"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLine:
    """The quota of a workspace in one pool; amounts in GPUs as texts. One of `fills_at` and `text` is set."""

    key: str
    workspace: str
    url: str
    pool: str
    nominal: str
    reserved: str
    growth: str
    fills_at: datetime | None
    text: str
    tone: str


def forecast_line(forecast: QuotaForecast) -> ForecastLine:
    """Return the line of one workspace on one pool."""
    text, tone = _TRENDS.get(forecast.trend, ("", ""))
    growth, fills_at = forecast.growth_per_day, forecast.fills_at
    if fills_at is not None and fills_at < clock.now() + _SOON:
        # Measurements of the past have a resolution of an hour or a day, so a trend has no minutes.
        text, fills_at = _("Within a day"), None
    return ForecastLine(
        key=f"{forecast.tenant.pk}-{forecast.flavor.pk}",
        workspace=forecast.tenant.name,
        url=navigation.find_address("frontend:workspace-quota", workspace=forecast.tenant.slug),
        pool=forecast.flavor.name,
        nominal=_("unlimited") if forecast.nominal is None else formats.format_gpus(forecast.nominal),
        reserved=formats.format_gpus(forecast.reserved),
        growth=formats.MISSING if growth is None else formats.format_signed_gpus(growth) or "0",
        fills_at=fills_at,
        text=str(text),
        tone=tone,
    )
