"""`/metrics` for Prometheus.

Every figure is read from the database when it is asked for, so that each web process answers the same
and a restart loses nothing. Packages register collectors; no tenant is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from foundation import clock, outbox
from foundation.models import Heartbeat

Figures = Callable[[], Iterable[GaugeMetricFamily]]
_figures: dict[str, Figures] = {}


def register(name: str, figures: Figures) -> None:
    """Add figures; called once from an `AppConfig.ready()`."""
    _figures[name] = figures


class _All(Collector):
    def collect(self) -> Iterable[GaugeMetricFamily]:
        for figures in _figures.values():
            yield from figures()


@require_safe
def view(request: HttpRequest) -> HttpResponse:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_All())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def own_figures() -> Iterable[GaugeMetricFamily]:
    """The outbox and the signs of life."""
    now = clock.now()
    waiting = outbox.unpublished().order_by("not_before").values_list("not_before", flat=True)
    oldest = waiting.first()
    yield GaugeMetricFamily("allotment_outbox_hints", "Hints not yet published.", value=waiting.count())
    yield GaugeMetricFamily(
        "allotment_outbox_oldest_seconds",
        "How long the oldest due hint has been due.",
        value=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
    )
    beats = GaugeMetricFamily(
        "allotment_heartbeat_age_seconds", "Since the part last finished some work.", labels=["part"]
    )
    for row in Heartbeat.unscoped.order_by("name"):
        beats.add_metric([row.name], (now - row.at).total_seconds())
    yield beats
