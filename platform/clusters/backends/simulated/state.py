"""Reads one simulated cluster, and holds the lock under which it changes.

All changes of a cluster happen one after the other under the lock of its row, so change numbers have no gaps
and an observer that reads up to a number has seen all changes up to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from clusters.backends.base import BackendUnavailable
from clusters.backends.simulated.timeline import Timeline
from clusters.models import SimulatedCluster
from foundation.core import clock
from foundation.sql.prepared import PreparedQuery


@dataclass(slots=True)
class ClusterState:
    """A simulated cluster at one moment: real time `at`, simulated time `sim_ms`."""

    row: SimulatedCluster
    timeline: Timeline
    at: datetime
    sim_ms: int

    @classmethod
    def from_row(cls, row: SimulatedCluster) -> ClusterState:
        timeline, at = Timeline.from_json(row.anchors), clock.now()
        return cls(row, timeline, at, timeline.sim_at(at))

    def next_change(self) -> int:
        """Take the next change number; it is stored when the lock is released."""
        self.row.last_change += 1
        return self.row.last_change


def _rows(cluster: uuid.UUID) -> QuerySet[SimulatedCluster]:
    return SimulatedCluster.unscoped.filter(cluster_id=cluster).order_by()


_ROW: Final = PreparedQuery(_rows)
_LOCKED_ROW: Final = PreparedQuery(lambda cluster: _rows(cluster).select_for_update())


def read_state(cluster_id: uuid.UUID) -> ClusterState:
    """Read the cluster without locking it. Raises: BackendUnavailable if it does not answer."""
    row = _ROW.fetch_first(cluster_id)
    return ClusterState.from_row(_answering(row))


@contextmanager
def lock_state(cluster_id: uuid.UUID, *, even_unreachable: bool = False) -> Iterator[ClusterState]:
    """Lock the cluster in one transaction; the caller's changes of `row` are saved at its end.

    Raises: BackendUnavailable if the cluster does not answer, unless `even_unreachable`.
    """
    with transaction.atomic():
        row = _LOCKED_ROW.fetch_first(cluster_id)
        if row is None or not even_unreachable:
            row = _answering(row)
        before = (row.last_change, row.pruned_at, row.reachable, row.anchors)
        yield ClusterState.from_row(row)
        if before != (row.last_change, row.pruned_at, row.reachable, row.anchors):
            row.save(update_fields=["last_change", "pruned_at", "pruned_to", "reachable", "anchors"])


def _answering(row: SimulatedCluster | None) -> SimulatedCluster:
    if row is None:
        raise BackendUnavailable("this simulated cluster has not been built yet")
    if not row.reachable:
        raise BackendUnavailable("the simulated API server is unreachable (simulate api fail)")
    return row
