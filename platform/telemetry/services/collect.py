"""Reads every cluster's readings and stores them, or stores why there are none."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from clusters.backends.base import BackendUnavailable, SampleSink
from clusters.backends.registry import BackendMissing, backend_for
from clusters.models import Cluster, ClusterHealth, Device
from foundation.core import clock
from foundation.models import Heartbeat
from telemetry.models import Channel, GapCause, NodeAgent, PendingBucket, Scope
from telemetry.services.receive import ACCEPTED_FOR, cluster_reports_store
from telemetry.store.database import DatabaseSink
from telemetry.store.gaps import gap_close, gap_note, gap_open
from telemetry.store.times import MINUTE_MS, floor_ms, to_ms

log = structlog.get_logger(__name__)
_MARK: Final = "samples"
_ABSENT: Final = timedelta(seconds=60)
_REPORTS_EVERY: Final = timedelta(seconds=25)


def samples_collect(sink: SampleSink | None = None) -> int:
    """Collect once from all clusters and return how many readings were new.

    A cluster that fails does not prevent the others from being read; an unexpected error is raised after all
    clusters were read. A cluster that was never reached is skipped: it has no gap, because it never had
    readings.
    """
    sink = sink or DatabaseSink()
    _note_absence()
    stored, failures = 0, []
    for cluster in Cluster.unscoped.exclude(health=ClusterHealth.UNKNOWN).order_by("name"):
        try:
            stored += _collect(cluster, sink)
        except Exception as error:  # reported below, together with the others
            error.add_note(f"while reading cluster {cluster.name}")
            failures.append(error)
    if failures:
        raise ExceptionGroup("samples of some clusters were lost", failures)
    return stored


def _note_absence() -> None:
    """Record a gap if there was no collection for more than a minute: the platform itself did not run.

    Agents keep their measurements for two hours; of clusters with agents, only earlier ones are lost.
    """
    now = clock.now()
    mark = Heartbeat.unscoped.filter(name=_MARK).first()
    Heartbeat.unscoped.update_or_create(name=_MARK, defaults={"at": now})
    if mark is None or now - mark.at <= _ABSENT:
        return
    known = Channel.unscoped.filter(scope=Scope.CLUSTER).values("cluster_id")
    seen = NodeAgent.unscoped.filter(devices_at__gte=mark.at - _ABSENT).values("node__cluster")
    for cluster in Cluster.unscoped.filter(pk__in=known):
        pushed = Cluster.unscoped.filter(pk=cluster.pk, pk__in=seen).exists()
        until = now - ACCEPTED_FOR if pushed else now
        if until > mark.at:
            gap_note(cluster.pk, GapCause.PLATFORM, mark.at, until)


def is_pushed(cluster: Cluster) -> bool:
    """Return whether measurements of the cluster were pushed in the last two minutes."""
    since = floor_ms(to_ms(clock.now()), MINUTE_MS) - MINUTE_MS
    return PendingBucket.unscoped.filter(
        cluster_id=cluster.pk, grain_ms=MINUTE_MS, sums=True, at_ms__gte=since
    ).exists()


def _collect(cluster: Cluster, sink: SampleSink) -> int:
    if is_pushed(cluster):
        # Its measurements arrive, whether its API answers or not.
        gap_close(cluster.pk)
        return 0
    if cluster.health != ClusterHealth.HEALTHY:
        gap_open(cluster.pk, GapCause.UNREACHABLE, cluster.health_message)
        return 0
    try:
        # A list: the backend may fail while it is read, and no network call happens in a transaction.
        backend = backend_for(cluster)
        samples = list(backend.read_samples())
        reports = backend.read_reports() if _reports_due(cluster) else ()
    except (BackendUnavailable, BackendMissing) as error:
        gap_open(cluster.pk, GapCause.UNREACHABLE, str(error))
        log.warning("samples_unavailable", cluster=cluster.name, error=str(error))
        return 0
    if not samples:
        # A cluster without cards has no readings, which is no gap.
        if Device.unscoped.filter(node__cluster=cluster, node__present=True).exists():
            gap_open(cluster.pk, GapCause.EMPTY, "")
        return 0
    stored = sink.write(str(cluster.pk), samples)
    if reports:
        cluster_reports_store(cluster=cluster, reports=reports)
    gap_close(cluster.pk)
    return stored


def _reports_due(cluster: Cluster) -> bool:
    """Return whether no node of the cluster was reported lately: facts and processes change slowly."""
    since = clock.now() - _REPORTS_EVERY
    return not NodeAgent.unscoped.filter(node__cluster=cluster, seen_at__gt=since).exists()
