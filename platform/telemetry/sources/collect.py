"""Reads all due sources, joins their samples, stores them, and records the results."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Q

from clusters.gpu.batches import MeasureBatch
from clusters.gpu.measures import MEASURES, Level
from clusters.models import Device
from foundation.core import clock
from foundation.core.sealed_text import CannotOpen, open_text
from telemetry.models import NodeAgent, SourceKind, SourceNode, SourceStatus, TelemetrySource
from telemetry.sources.declarations import MeasureOrigin
from telemetry.sources.directory import load_directory
from telemetry.sources.fetch import Access, SourceFailed, SourceProblem
from telemetry.sources.merge import Answer, Coverage, Merged, NodeAnswer, merge_answers
from telemetry.sources.reading import SourcePlan, SourceResult, read_sources
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms

log = structlog.get_logger(__name__)

Sink = Callable[[uuid.UUID, Sequence[MeasureBatch]], object]

_EARLY: Final = timedelta(seconds=1)
"""How early a source may be read: Celery beat is not exact to the millisecond."""
_NODE_RETENTION_MS: Final = 7 * 24 * 3600 * 1000
_UNKNOWN_NAMED: Final = 20
_AGENT_SAYS: Final = {
    level: frozenset((level, measure.name) for measure in MEASURES if level in measure.levels)
    for level in (Level.DEVICE, Level.SLICE)
}
_STATUS_FIELDS: Final = [
    field.name for field in SourceStatus._meta.concrete_fields if field.name not in ("source", "attempted_at")
]


def collect_sources(sink: Sink = store_batches) -> int:
    """Read every due source; return how many gave values.

    A failing source does not prevent others from being read, nor does a cluster whose values cannot be
    stored: unexpected errors are raised after all were tried.
    """
    now = clock.now()
    sources = _claim_due(now)
    if not sources:
        return 0
    plans, results = [], {}
    for source in sources:
        try:
            plans.append(make_plan(source))
        except SourceFailed as failed:
            results[str(source.pk)] = SourceResult(failed=failed)
    results |= read_sources(plans, now_ms=to_ms(now))
    by_cluster: dict[uuid.UUID, list[TelemetrySource]] = defaultdict(list)
    for source in sources:
        by_cluster[source.cluster_id].append(source)
    failures = []
    for cluster_id, of_cluster in by_cluster.items():
        try:
            _store(cluster_id, of_cluster, results, now, sink)
        except Exception as error:  # raised below, together with the others
            error.add_note(f"while storing what sources of cluster {cluster_id} said")
            failures.append(error)
    if failures:
        raise ExceptionGroup("measurements of some clusters were lost", failures)
    return sum(result.values > 0 for result in results.values())


def make_plan(source: TelemetrySource) -> SourcePlan:
    """Return the requests for a source, with its secret opened. Raises: SourceFailed."""
    try:
        secret = open_text(source.secret)
    except CannotOpen as error:
        raise SourceFailed(SourceProblem.CREDENTIAL) from error
    password = secret if source.user else ""
    access = Access("" if source.user else secret, source.user, password, source.authority)
    return SourcePlan(
        str(source.pk),
        SourceKind(source.kind),
        source.address,
        source.every_s,
        source.matchers,
        access,
        _gpu_nodes(source) if "{node}" in source.address else (),
    )


def _gpu_nodes(source: TelemetrySource) -> list[str]:
    rows = Device.unscoped.filter(node__cluster_id=source.cluster_id, node__present=True)
    return sorted(set(rows.values_list("node__name", flat=True)))


def _claim_due(now: datetime) -> list[TelemetrySource]:
    """Return the due sources; of two concurrent workers only one gets each."""
    enabled = TelemetrySource.unscoped.filter(enabled=True)
    fresh = [SourceStatus(source_id=key) for key in enabled.filter(status=None).values_list("pk", flat=True)]
    SourceStatus.unscoped.bulk_create(fresh, ignore_conflicts=True)
    claimed = []
    for source in enabled.select_related("status").order_by("cluster_id", "name"):
        before = now - timedelta(seconds=source.every_s) + _EARLY
        rows = SourceStatus.unscoped.filter(pk=source.pk)
        if rows.filter(Q(attempted_at__isnull=True) | Q(attempted_at__lte=before)).update(attempted_at=now):
            claimed.append(source)
    return claimed


def _store(
    cluster_id: uuid.UUID,
    sources: Sequence[TelemetrySource],
    results: dict[str, SourceResult],
    now: datetime,
    sink: Sink,
) -> None:
    now_ms = to_ms(now)
    answers = [
        Answer(str(source.pk), origin, readings, now_ms, results[str(source.pk)].period_ms(source.every_s))
        for source in sources
        for origin, readings in results[str(source.pk)].readings.items()
    ]
    rows = list(SourceNode.unscoped.filter(source__cluster_id=cluster_id, source__enabled=True))
    periods = dict(TelemetrySource.unscoped.filter(cluster_id=cluster_id).values_list("pk", "every_s"))
    covered = [entry for row in rows for entry in _coverage(row, 1000 * periods.get(row.source_id, 15))]
    merged = merge_answers(
        answers,
        load_directory(cluster_id),
        covered=[*covered, *_agent_coverage(cluster_id)],
        known_xids={(str(row.source_id), row.node): row.xids for row in rows},
        now_ms=now_ms,
    )
    try:
        if merged.batches:
            sink(cluster_id, merged.batches)
    finally:
        _note(sources, results, merged, now)


def _coverage(row: SourceNode, period_ms: int) -> Iterable[Coverage]:
    for origin, names in row.said.items():
        said = frozenset(
            (Level(level), measure) for level, _, measure in (name.partition(".") for name in names)
        )
        yield Coverage(str(row.source_id), MeasureOrigin(origin), row.node, said, row.at_ms, period_ms)


def _agent_coverage(cluster_id: uuid.UUID) -> Iterable[Coverage]:
    """Return what node agents cover of their nodes: GPUs or slices only while they measured some."""
    agents = NodeAgent.unscoped.filter(node__cluster_id=cluster_id, node__present=True)
    rows = agents.values_list("node__name", "interval_ms", "devices_at", "slices_at")
    for node, interval_ms, devices_at, slices_at in rows:
        for level, at in ((Level.DEVICE, devices_at), (Level.SLICE, slices_at)):
            if at is not None:
                said = _AGENT_SAYS[level]
                yield Coverage(
                    MeasureOrigin.AGENT.value, MeasureOrigin.AGENT, node, said, to_ms(at), interval_ms
                )


@transaction.atomic
def _note(
    sources: Sequence[TelemetrySource], results: dict[str, SourceResult], merged: Merged, now: datetime
) -> None:
    # A source that was deleted meanwhile has no status to update.
    locked = TelemetrySource.unscoped.select_for_update(no_key=True).filter(
        pk__in=[source.pk for source in sources]
    )
    alive = {source.pk: source.address for source in locked.order_by("pk")}
    sources = [source for source in sources if alive.get(source.pk) == source.address]
    for source in sources:
        result = results[str(source.pk)]
        status = source.status
        _note_result(status, result, sorted(merged.unknown.get(str(source.pk), ())), now)
        status.save(update_fields=_STATUS_FIELDS)
    said = [
        _node_row(source, node, found)
        for source in sources
        for node, found in merged.nodes.get(str(source.pk), {}).items()
    ]
    SourceNode.unscoped.bulk_create(
        said,
        update_conflicts=True,
        unique_fields=["source", "node"],
        update_fields=["at_ms", "devices", "values", "said", "xids"],
    )
    SourceNode.unscoped.filter(source__in=sources, at_ms__lt=to_ms(now) - _NODE_RETENTION_MS).delete()


def _note_result(status: SourceStatus, result: SourceResult, unknown: list[str], now: datetime) -> None:
    status.problem = result.failed.problem.value if result.failed else ""
    status.detail = result.failed.detail if result.failed else ""
    status.endpoints, status.endpoints_failed = result.endpoints, result.endpoints_failed
    status.samples, status.values, status.refused = result.samples, result.values, result.refused
    status.unknown = unknown[:_UNKNOWN_NAMED]
    if result.values:
        status.answered_at, status.failed_since = now, None
    elif status.failed_since is None:
        status.failed_since = now


def _node_row(source: TelemetrySource, node: str, found: NodeAnswer) -> SourceNode:
    said: dict[str, list[str]] = {
        origin.value: sorted(f"{level.value}.{name}" for level, name in names)
        for origin, names in found.said.items()
    }
    return SourceNode(
        source=source,
        node=node,
        at_ms=found.at_ms,
        devices=len(found.devices),
        values=found.values,
        said=said,
        xids={device: code for device, code in found.xids.items() if code},
    )
