"""Metrics of the data sources that are read for GPU metrics."""

from __future__ import annotations

from datetime import datetime

from alerts.metrics.base import Observation
from telemetry.models import TelemetrySource
from telemetry.sources.overview import SourceState, describe_sources

_SOUND = (SourceState.FRESH, SourceState.PARTIAL)


def read_source_outages(now: datetime) -> list[Observation]:
    """Compute the seconds since each enabled data source failed or was last read; 0 while it answers, None
    before its first answer."""
    sources = TelemetrySource.unscoped.filter(enabled=True).select_related("cluster", "status").order_by("pk")
    found = []
    for line in describe_sources(sources):
        silent = None if line.since is None else max(0.0, (now - line.since).total_seconds())
        found.append(
            Observation(
                subject=str(line.source.pk),
                label=f"{line.source.cluster.name}, {line.source.name}",
                value=0.0 if line.state in _SOUND else silent,
                cluster_id=line.source.cluster_id,
                path="/ops/sources",
            )
        )
    return found
