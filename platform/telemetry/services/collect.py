"""Asks every cluster for its readings and stores them, or stores why there are none."""

from __future__ import annotations

import structlog

from clusters.backends.base import BackendUnavailable, SampleSink
from clusters.backends.registry import BackendMissing, backend_for
from clusters.models import Cluster, ClusterHealth, Device
from telemetry.models import GapCause
from telemetry.store.database import DatabaseSink
from telemetry.store.gaps import gap_close, gap_open

log = structlog.get_logger(__name__)


def samples_collect(sink: SampleSink | None = None) -> int:
    """Collect once from all clusters and return how many readings were new.

    One cluster that fails does not keep the others from being read; what no backend is expected to raise
    is raised when all have had their turn. A cluster that nobody has reached yet is left alone: it has
    no gap, because it never had readings.
    """
    sink = sink or DatabaseSink()
    kept, failures = 0, []
    for cluster in Cluster.unscoped.exclude(health=ClusterHealth.UNKNOWN).order_by("name"):
        try:
            kept += _collect(cluster, sink)
        except Exception as error:  # reported below, together with the others
            error.add_note(f"while reading cluster {cluster.name}")
            failures.append(error)
    if failures:
        raise ExceptionGroup("samples of some clusters were lost", failures)
    return kept


def _collect(cluster: Cluster, sink: SampleSink) -> int:
    if cluster.health != ClusterHealth.HEALTHY:
        gap_open(cluster.pk, GapCause.UNREACHABLE, cluster.health_message)
        return 0
    try:
        # A list: the backend may fail while it is read, and no network call happens in a transaction.
        samples = list(backend_for(cluster).read_samples())
    except (BackendUnavailable, BackendMissing) as error:
        gap_open(cluster.pk, GapCause.UNREACHABLE, str(error))
        log.warning("samples_unavailable", cluster=cluster.name, error=str(error))
        return 0
    if not samples:
        # A cluster without cards has nothing to say, which is no gap.
        if Device.unscoped.filter(node__cluster=cluster, node__present=True).exists():
            gap_open(cluster.pk, GapCause.EMPTY, "")
        return 0
    kept = sink.write(str(cluster.pk), samples)
    gap_close(cluster.pk)
    return kept
