"""Reads a cluster by its key with a prepared query, because every observation and every pod needs it."""

from __future__ import annotations

import uuid
from typing import Final

from clusters.models import Cluster
from foundation.sql.prepared import PreparedQuery

_BY_KEY: Final = PreparedQuery(lambda pk: Cluster.unscoped.filter(pk=pk).order_by())


def cluster_by_key(pk: uuid.UUID) -> Cluster:
    """Return the cluster of that key. Raises: Cluster.DoesNotExist."""
    found = _BY_KEY.fetch_first(pk)
    if found is None:
        raise Cluster.DoesNotExist
    return found
