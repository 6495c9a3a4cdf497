"""Checks within seconds whether a cluster answers, independently of other calls that wait for it."""

from __future__ import annotations

import time
import uuid
from typing import Final

import structlog

from clusters.backends.base import BackendUnavailable
from clusters.backends.registry import backend_for
from clusters.models import Cluster, ClusterHealth
from foundation.core import clock

log = structlog.get_logger(__name__)
CHECK_EVERY_S: Final = 4.0
"""The least time between two checks by one process, in seconds. With the period of observation and two
timeouts of 2 s, an unreachable cluster is noticed within 10 s."""
_checked: Final[dict[uuid.UUID, tuple[float, bool]]] = {}


def health_check(cluster: Cluster) -> bool:
    """Check the cluster, unless it was checked less than `CHECK_EVERY_S` ago; return whether it answers.

    This records that a cluster is unreachable; the observation records that it is healthy again. For a
    cluster that is recorded as unreachable no earlier success is reused, because another process may have
    checked since.
    """
    now = time.monotonic()
    at, well = _checked.get(cluster.pk, (-CHECK_EVERY_S, True))
    if now - at < CHECK_EVERY_S and not (well and cluster.health == ClusterHealth.UNREACHABLE):
        return well
    try:
        backend_for(cluster, disowned_too=True).check_connection()
    except BackendUnavailable as error:
        _checked[cluster.pk] = (time.monotonic(), False)
        health_note(cluster, ClusterHealth.UNREACHABLE, str(error))
        return False
    _checked[cluster.pk] = (time.monotonic(), True)
    return True


def health_note(cluster: Cluster, health: ClusterHealth, message: str) -> None:
    """Write the health of a cluster; `health_since` changes only together with the health.

    A disowned cluster does not become unreachable: it stays disowned until its ownership is confirmed.
    """
    if (cluster.health, cluster.health_message) == (health, message):
        return
    if cluster.health == ClusterHealth.DISOWNED and health == ClusterHealth.UNREACHABLE:
        return
    log.warning("cluster health", cluster=cluster.name, health=health.value, message=message)
    since = cluster.health_since if cluster.health == health else clock.now()
    rows = Cluster.unscoped.filter(pk=cluster.pk).exclude(health=ClusterHealth.DISOWNED)
    if rows.update(health=health, health_message=message, health_since=since):
        cluster.health, cluster.health_message, cluster.health_since = health, message, since
