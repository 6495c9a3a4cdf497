"""The values of a PromQL query, asked of the Prometheus servers that are configured as data sources."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.cache import cache

from alerts.metrics.base import Observation
from clusters.models import Cluster
from telemetry.models import SourceKind, TelemetrySource
from telemetry.sources.collect import make_plan
from telemetry.sources.fetch import SourceFailed, SourceProblem, query_prometheus
from telemetry.sources.prometheus import RangeSeries, read_range

QUERY_MAX: Final = 1_000
_SERIES_MAX: Final = 1_000
_LABEL_MAX: Final = 300
_TIMEOUT_S: Final = 5.0
_BOUNDS: Final = {"timeout": "4s", "limit": str(_SERIES_MAX)}
"""The server itself ends a query that takes too long, so that only one which does not answer at all rests."""
_REST_S: Final = 30
Past = Sequence[tuple[datetime, float | None]]


def list_servers(cluster_id: uuid.UUID | None) -> list[TelemetrySource]:
    """Return the Prometheus servers of a cluster, or of all: the first by name of each cluster."""
    rows = TelemetrySource.unscoped.filter(kind=SourceKind.PROMETHEUS, enabled=True)
    if cluster_id is not None:
        rows = rows.filter(cluster_id=cluster_id)
    found: dict[uuid.UUID, TelemetrySource] = {}
    for source in rows.select_related("cluster").order_by("name"):
        found.setdefault(source.cluster_id, source)
    return list(found.values())


def read_query(query: str, cluster_id: uuid.UUID | None, now: datetime) -> list[Observation]:
    """Read the value of each series of a query now. Raises: SourceFailed."""
    parameters = {"query": query, "time": f"{now.timestamp():.3f}"}
    return [
        _observe(source.cluster, series.labels, next(iter(series.points.values()), None))
        for source, series in _ask("query", parameters, cluster_id)
    ]


def read_query_past(
    query: str, cluster_id: uuid.UUID | None, start: datetime, end: datetime, *, points: int
) -> list[Past]:
    """Read the values of each series of a query over a time. Raises: SourceFailed."""
    step_s = max(1, round((end - start).total_seconds() / points))
    times = [start + timedelta(seconds=step_s * place) for place in range(1, points + 1)]
    parameters = {
        "query": query,
        "start": f"{times[0].timestamp():.3f}",
        "end": f"{times[-1].timestamp():.3f}",
        "step": str(step_s),
    }
    return [
        [(at, series.points.get(round(at.timestamp() * 1000))) for at in times]
        for _source, series in _ask("query_range", parameters, cluster_id)
    ]


def _ask(
    path: str, parameters: Mapping[str, str], cluster_id: uuid.UUID | None
) -> Iterator[tuple[TelemetrySource, RangeSeries]]:
    for source in list_servers(cluster_id):
        for series in read_range(_fetch(source, path, parameters))[:_SERIES_MAX]:
            yield source, series


def _fetch(source: TelemetrySource, path: str, parameters: Mapping[str, str]) -> Any:
    """Ask one server; one that did not answer lately is left alone, so that it delays no other rule."""
    resting = f"promql-resting-{source.pk}"
    problem = cache.get(resting)
    if problem is not None:
        raise SourceFailed(SourceProblem(problem))
    plan = make_plan(source)
    try:
        return query_prometheus(
            plan.address, path, {**parameters, **_BOUNDS}, plan.access, timeout_s=_TIMEOUT_S
        )
    except SourceFailed as failed:
        if failed.problem != SourceProblem.QUERY_FAILED:
            cache.set(resting, str(failed.problem), _REST_S)
        raise


def _observe(cluster: Cluster, labels: Mapping[str, str], value: float | None) -> Observation:
    """Return the observation of one series; its labels are its subject."""
    text = ", ".join(f"{name}={labels[name]}" for name in sorted(labels))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Observation(
        subject=f"{cluster.pk}/{digest}",
        label=f"{cluster.name} {{{text}}}"[:_LABEL_MAX],
        value=value,
        cluster_id=cluster.pk,
        path="/ops/sources",
    )
