"""Reads periodically which permissions the platform's account lacks in a cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from clusters.backends.base import AccessDenied, BackendUnavailable, ClusterBackend
from clusters.backends.registry import backend_for
from clusters.models import Cluster
from foundation.core import clock

log = structlog.get_logger(__name__)
READ_EVERY: Final = timedelta(minutes=10)
MISSING_READ_EVERY: Final = timedelta(minutes=1)
"""The shorter interval while a permission is missing, which an operator is about to grant, or unknown."""


def permissions_refresh(
    *, cluster: Cluster, backend: ClusterBackend, at_once: bool = False, denied: bool = False
) -> None:
    """Store which permissions the platform's account lacks in a cluster, if they were not read lately;
    `denied`: the cluster has just refused a call, so what was read more than a minute ago may be outdated.

    If the cluster does not answer, the stored permissions stay until the next time.
    """
    now = clock.now()
    every = READ_EVERY if cluster.missing_permissions == [] and not denied else MISSING_READ_EVERY
    if not at_once and cluster.permissions_at is not None and abs(now - cluster.permissions_at) < every:
        return
    try:
        found = backend.list_missing_permissions()
    except BackendUnavailable as error:
        log.warning("permissions were not read", cluster=cluster.name, error=str(error))
        missing = cluster.missing_permissions
    else:
        missing = None if found is None else list(found)
    if missing and missing != cluster.missing_permissions:
        log.warning("permissions are missing", cluster=cluster.name, missing=missing)
    Cluster.unscoped.filter(pk=cluster.pk).update(missing_permissions=missing, permissions_at=now)
    cluster.missing_permissions, cluster.permissions_at = missing, now


def permissions_refresh_denied(*, cluster: Cluster, error: BaseException | None) -> None:
    """Store which permissions the platform's account lacks, if a call failed because the cluster denied it.

    What ends a reading of the cluster also keeps it from the periodic refresh that follows the reading.
    """
    if isinstance(error, AccessDenied):
        backend = backend_for(cluster, disowned_too=True)
        permissions_refresh(cluster=cluster, backend=backend, denied=True)
