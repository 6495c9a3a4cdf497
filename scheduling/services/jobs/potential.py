"""Checks at submission whether a job could run in an empty cell.

Each process caches a snapshot of nodes, flavors and queues, and builds it again when the version of the
cell's inventory or quotas has changed. So a submission usually costs one small query.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from typing import Final

from clusters.models import Cell
from foundation.core import clock
from foundation.sql.prepared import PreparedQuery
from quotas.models import Queue
from scheduling import engine
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.jobs import asked_job
from scheduling.job_file import JobSpec
from scheduling.services.jobs.feasibility import JobMisfit
from scheduling.snapshots import empty_snapshot, names_in, with_names

Version = tuple[int, int]
_VERSION: Final = PreparedQuery(
    lambda cell: Cell.unscoped.filter(pk=cell).order_by().values_list("inventory_version", "quota_version")
)


@dataclass(slots=True)
class _Cached:
    version: Version
    snapshot: engine.Snapshot
    # The engine returns ids, users read names.
    names: dict[str, str]


_cache: Final[dict[uuid.UUID, _Cached]] = {}
# The engine changes the snapshot while it evaluates, so only one thread may use it at a time.
_lock = threading.Lock()


def find_misfit(spec: JobSpec, queue: Queue) -> JobMisfit | None:
    """Return why the job can never run in that queue; None if it could in an empty cell."""
    job = asked_job(spec, queue, priority=0, now=clock.now())
    with _lock:
        known = _known(queue.cell_id)
        if str(queue.pk) not in known.snapshot.queues:
            return None  # the queue is new; the next cycle evaluates the job
        outcome = engine.never_fits(known.snapshot, job, engine_config())
    if outcome is None:
        return None
    names = known.names
    helps = [{"code": item.code.value, "numbers": with_names(item.numbers, names)} for item in outcome.help]
    return JobMisfit(with_names(outcome.numbers, names), helps)


def _known(cell_id: uuid.UUID) -> _Cached:
    version: Version | None = _VERSION.fetch_first(cell_id)
    if version is None:
        raise Cell.DoesNotExist
    cached = _cache.get(cell_id)
    if cached is None or cached.version != version:
        cached = _cache[cell_id] = _Cached(version, empty_snapshot(cell_id), names_in(cell_id))
    return cached
