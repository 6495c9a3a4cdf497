"""A Prometheus server as a store: means per bucket of GPUs and of pods on them, for charts.

It has the same interface as the store in the database, and supplies what that one lacks: times before the
platform was installed, while it was down, or longer ago than its retention.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from django.core.cache import cache

from clusters.gpu.measures import BY_NAME
from telemetry.models import SourceKind, TelemetrySource
from telemetry.sources.collect import make_plan
from telemetry.sources.declarations import most_of
from telemetry.sources.fetch import SourceFailed, query_prometheus
from telemetry.sources.named_queries import device_query, slice_query
from telemetry.sources.prometheus import RangeSeries, read_range
from telemetry.sources.reading import SourcePlan

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 3.0
_RESTS_S: Final = 30
"""How many seconds a server that failed is not read, so that charts do not wait for it each time."""

DeviceMeans = Mapping[str, Mapping[int, float]]
"""Means by UUID of a GPU, then by the start of a bucket in milliseconds."""
SliceKey = tuple[str, str, str]
"""The UUID of a GPU, and the namespace and name of a pod."""
SliceMeans = Mapping[SliceKey, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of `step_ms` from `from_ms`, the start of the first, to `until_ms`, the end of the last."""

    from_ms: int
    until_ms: int
    step_ms: int


@dataclass(frozen=True, slots=True)
class PrometheusHistory:
    """The server of one cluster. Its methods raise SourceFailed."""

    plan: SourcePlan

    def device_means(self, measure: str, devices: Collection[str], buckets: Buckets) -> DeviceMeans:
        """Return a measure of these GPUs; values that the server lacks are absent."""
        query = device_query(measure, devices, self.plan.matchers, step_ms=buckets.step_ms)
        if query is None or not devices:
            return {}
        asked = set(devices)
        return {
            series.labels["device"]: _in_bounds(measure, series, buckets)
            for series in self._read(query, buckets)
            if series.labels.get("device") in asked
        }

    def slice_means(self, measure: str, slices: Collection[SliceKey], buckets: Buckets) -> SliceMeans:
        """Return a measure of these pods on these GPUs, and of no others."""
        pods = {(namespace, pod) for _, namespace, pod in slices}
        devices = {device for device, _, _ in slices}
        query = slice_query(measure, devices, pods, self.plan.matchers, step_ms=buckets.step_ms)
        if query is None or not slices:
            return {}
        asked, found = set(slices), {}
        for series in self._read(query, buckets):
            labels = series.labels
            key = (labels.get("device", ""), labels.get("ns", ""), labels.get("name", ""))
            if key in asked:
                found[key] = _in_bounds(measure, series, buckets)
        return found

    def _read(self, query: str, buckets: Buckets) -> Sequence[RangeSeries]:
        parameters = {
            "query": query,
            # The last millisecond of each bucket, so that a sample on a border belongs to one bucket alone.
            "start": _seconds(buckets.from_ms + buckets.step_ms - 1),
            "end": _seconds(buckets.until_ms - 1),
            "step": _seconds(buckets.step_ms),
        }
        data = query_prometheus(
            self.plan.address, "query_range", parameters, self.plan.access, timeout_s=TIMEOUT_S
        )
        return read_range(data)


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _in_bounds(measure: str, series: RangeSeries, buckets: Buckets) -> dict[int, float]:
    most = most_of(BY_NAME[measure])
    found = {}
    for at_ms, value in series.points.items():
        start_ms = at_ms + 1 - buckets.step_ms
        if 0 <= value <= most and buckets.from_ms <= start_ms < buckets.until_ms:
            found[start_ms] = value
    return found


def history_of(cluster_id: uuid.UUID) -> PrometheusHistory | None:
    """Return the server from which charts of a cluster are read, the first by name; None if none answers."""
    rows = TelemetrySource.unscoped.filter(
        cluster_id=cluster_id, kind=SourceKind.PROMETHEUS, history=True, enabled=True
    )
    source = rows.order_by("name").first()
    if source is None or cache.get(_resting(str(source.pk))):
        return None
    try:
        return PrometheusHistory(make_plan(source))
    except SourceFailed:
        return None


def rest_server(history: PrometheusHistory, failed: SourceFailed) -> None:
    """Do not read a failed server for a while."""
    log.warning("history_unavailable", source=history.plan.key, problem=failed.problem.value)
    cache.set(_resting(history.plan.key), True, _RESTS_S)


def _resting(key: str) -> str:
    return f"telemetry-history-rests:{key}"
