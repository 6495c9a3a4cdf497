"""The check that a cluster answers, within seconds and concurrently with everything else that waits for
it.
"""

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
"""In one process. With the period of observation and two answers of 2 s that are waited for, silence is known
within 10 s."""
_checked: Final[dict[uuid.UUID, tuple[float, bool]]] = {}


def health_check(cluster: Cluster) -> bool:
    """Ask the cluster whether it is there, if it was not asked a moment ago; returns False if it is not.

    That it is there again is noted by whoever has read what has changed. Of a cluster that was silent no
    earlier answer is taken, which another process may know to be old.
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
    """Store how the cluster is; `health_since` moves only when that changes.

    That a cluster is not ours stands until it is known to be.
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
