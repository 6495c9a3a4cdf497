"""An engine snapshot together with the rows and keys that a commit needs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from clusters.models import Cluster, Flavor, Node, Sharing
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from quotas.models import Queue
from scheduling import engine
from scheduling.engine import model as em
from scheduling.models import Job

_NO_JOBS: Final[Mapping[str, Job]] = {}
_FLAVORS: Final = PreparedQuery(
    lambda cell: Flavor.unscoped.filter(cluster__cell_id=cell).values_list("id", "name")
)
_CLUSTERS: Final = PreparedQuery(lambda cell: Cluster.unscoped.filter(cell_id=cell).values_list("id", "name"))
_QUEUES: Final = PreparedQuery(lambda cell: Queue.unscoped.filter(cell_id=cell).values_list("id", "name"))


@dataclass(frozen=True, slots=True)
class CellSnapshot:
    """An engine snapshot with the rows and keys that are needed to write its decisions."""

    snapshot: engine.Snapshot
    jobs: Mapping[str, Job]
    devices: Mapping[str, uuid.UUID]
    # Names of clusters, flavors, nodes and queues by id: the engine returns ids, users read names.
    names: Mapping[str, str]
    # The last outcome written for each pending job; `commit_reasons` updates it.
    reported: dict[str, em.JobOutcome] = field(default_factory=dict)
    # The rule by which the cell shares unused quota.
    sharing: str = Sharing.FAIR

    def with_names(self, numbers: em.Numbers) -> dict[str, int | str]:
        """Return the numbers of an outcome with ids, also those of jobs, replaced by names."""
        return with_names(numbers, self.names, self.jobs)


class Contradiction(RuntimeError):
    """Rows contradict each other: they were read at different moments, or the ledger is wrong."""


def with_names(
    numbers: em.Numbers, names: Mapping[str, str], jobs: Mapping[str, Job] = _NO_JOBS
) -> dict[str, int | str]:
    """Return the numbers of an outcome with ids, also comma-separated ones, replaced by names.

    The engine puts a job into the numbers of another job only if both are in one queue, so that every reader
    of one job may read the other's name.
    """

    def find_name(text: str) -> str:
        job = jobs.get(text)
        return names.get(text, text) if job is None else job.name

    return {
        key: ",".join(map(find_name, item.split(","))) if isinstance(item, str) else item
        for key, item in numbers.items()
    }


@row_scope.whole()
def names_in(cell_id: uuid.UUID) -> dict[str, str]:
    """Return the names of clusters, flavors, queues and nodes of a cell by id."""
    nodes = Node.unscoped.filter(cluster__cell_id=cell_id).values_list("id", "name")
    return pool_names(cell_id) | {str(pk): name for pk, name in nodes}


def pool_names(cell_id: uuid.UUID) -> dict[str, str]:
    """Return the names of clusters, flavors and queues of a cell by id."""
    return {str(pk): name for pk, name in (*_CLUSTERS(cell_id), *_FLAVORS(cell_id), *_QUEUES(cell_id))}
