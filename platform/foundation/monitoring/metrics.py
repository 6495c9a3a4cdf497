"""`/metrics` for Prometheus.

Every figure is read from the database on request, so that each web process answers the same and a restart
loses nothing. It is read as the platform itself, because no caller has a role on all tenants. So no tenant,
job or user is named, and a separate token gives access. An unknown value has no sample; it is not 0.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Final

import structlog
from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Q
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from foundation.core import clock
from foundation.messaging import outbox
from foundation.models import Heartbeat, Leased
from foundation.monitoring import counters
from foundation.sql import row_scope

log = structlog.get_logger(__name__)
Figures = Callable[[], Iterable[Metric]]
_OWN_WITHIN_S: Final = 0.25
"""How long a scraper waits until this process's counts are stored; later ones are in the next answer."""
_figures: dict[str, Figures] = {"measures": counters.counter_metrics}
_BEARER: Final = "Bearer "


def register_metrics(name: str, figures: Figures) -> None:
    """Add figures; called once from an `AppConfig.ready()`."""
    _figures[name] = figures


class _All(Collector):
    def collect(self) -> Iterable[Metric]:
        failed = GaugeMetricFamily(
            "allotment_figures_failed", "Whether these figures could not be read.", labels=["figures"]
        )
        for name, figures in _figures.items():
            # On PostgreSQL all figures are read in one transaction, which the failure of one would abort.
            apart = transaction.atomic() if connection.in_atomic_block else nullcontext()
            try:
                with apart:
                    found = list(figures())
                yield from found
                failed.add_metric([name], 0)
            except Exception:
                log.exception("figures cannot be read", figures=name)
                failed.add_metric([name], 1)
        yield failed


@require_safe
def metrics_view(request: HttpRequest) -> HttpResponse:
    """Return the figures to clients with the token of `ALLOTMENT_METRICS_TOKEN`."""
    if not _may_read(request):
        text = "Send the value of ALLOTMENT_METRICS_TOKEN as: Authorization: Bearer …\n"
        headers = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(text, status=401, content_type="text/plain; charset=utf-8", headers=headers)
    if (writing := counters.write_beside()) is not None:
        writing.join(_OWN_WITHIN_S)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_All())
    with row_scope.whole(), row_scope.read_transaction():
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    token = str(settings.ALLOTMENT_METRICS_TOKEN)
    if not token:
        return bool(settings.ALLOTMENT_EMBEDDED)  # it listens on the loopback address alone
    given = request.headers.get("Authorization", "")
    return given.startswith(_BEARER) and hmac.compare_digest(
        given.removeprefix(_BEARER).strip().encode(), token.encode()
    )


def own_figures() -> Iterable[Metric]:
    """Yield figures of the outbox, heartbeats, leases and connections."""
    yield from _outbox()
    now = clock.now()
    beats = GaugeMetricFamily(
        "allotment_heartbeat_age_seconds", "Since the part last finished some work.", labels=["part"]
    )
    for row in Heartbeat.unscoped.order_by("name"):
        beats.add_metric([row.name], (now - row.at).total_seconds())
    yield beats
    yield _leases()
    if connection.vendor == "postgresql":
        yield from _connections()


def _outbox() -> Iterable[Metric]:
    waiting = outbox.unpublished_hints().order_by("not_before").values_list("not_before", flat=True)
    oldest = waiting.first()
    yield GaugeMetricFamily("allotment_outbox_hints", "Hints not yet published.", value=waiting.count())
    yield GaugeMetricFamily(
        "allotment_outbox_oldest_seconds",
        "How long the oldest due hint has been due.",
        value=max(0.0, (clock.now() - oldest).total_seconds()) if oldest else 0.0,
    )


def _leases() -> Metric:
    leases = GaugeMetricFamily(
        "allotment_leases",
        "Cells and clusters by their lease; that of a lapsed one ran out before its holder was done.",
        labels=["kind", "state"],
    )
    for model in apps.get_models():
        if issubclass(model, Leased):
            counted = model._base_manager.aggregate(
                free=Count("pk", filter=Q(lease_until__isnull=True)),
                held=Count("pk", filter=Q(lease_until__gte=Now())),
                lapsed=Count("pk", filter=Q(lease_until__lt=Now())),
            )
            for state, count in counted.items():
                leases.add_metric([model._meta.model_name or "", state], count)
    return leases


def _connections() -> Iterable[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), current_setting('max_connections')::int"
            " FROM pg_stat_activity WHERE datname = current_database()"
        )
        used, most = cursor.fetchone()
    yield GaugeMetricFamily("allotment_database_connections", "Connections to the database.", value=used)
    yield GaugeMetricFamily(
        "allotment_database_connections_max", "Connections that its server allows to all.", value=most
    )
