"""Runs one engine cycle of a cell: lease, snapshot, decisions, commit."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from functools import lru_cache
from typing import Final

import structlog
from django.db import connection

from clusters.models import Cell
from foundation.core import clock, faults
from foundation.core.garbage_collection import gc_paused
from foundation.messaging import leases, outbox
from foundation.monitoring import health
from foundation.sql.prepared import PreparedQuery
from scheduling import commit, engine
from scheduling.commit import Committed
from scheduling.engine.model import CycleResult, DecisionKind, Instant, TaskWorkload
from scheduling.engine_input.config import brief_config, engine_config
from scheduling.monitoring import counters
from scheduling.services.resizing.by_use import resize_by_use
from scheduling.snapshots import CellSnapshot
from scheduling.snapshots.cached_jobs import TRUSTED_FOR
from scheduling.snapshots.delegated import DelegatedScope, read_delegated
from scheduling.snapshots.snapshot_cache import checkin_snapshot, checkout_snapshot, is_trusted

log = structlog.get_logger(__name__)
_RETRY_S = 0.1
# One cycle evaluates many submissions; a cycle for each would occupy the database. So a pause follows each
# cycle: twice its duration within bounds, and five times if it admitted nothing, because jobs submitted to a
# full cell can wait. A cycle runs at once after a longer time without cycles, and when quota was released, so
# that cards don't stay unused. On SQLite it does not, because each commit blocks every other writer.
_SHARE, _SHARE_IN_VAIN = 2, 5
_BOUNDS_S, _BOUNDS_IN_VAIN_S = (0.1, 0.5), (0.5, 1.0)
_took_s: Final[dict[uuid.UUID, float]] = {}
_idle: Final[set[uuid.UUID]] = set()
_LAST: Final = PreparedQuery(lambda cell: Cell.unscoped.filter(pk=cell).values_list("last_cycle_at"))


def cycle_run(*, cell_id: uuid.UUID, freed: bool = False) -> Committed | None:
    """Run one cycle; None if another process runs one or the pause after the last one isn't over.

    In both cases the hint is postponed. `freed`: the cycle was requested because quota was released.
    """
    topic = outbox.Topic.FREED if freed else outbox.Topic.CYCLE
    at_once = freed and connection.vendor == "postgresql"
    if not at_once and (wait_s := find_pause(cell_id, clock.now(), freed=freed)) > 0:
        outbox.put_off(topic, cell_id, delay_s=wait_s)
        return None
    with leases.hold_lease(Cell, cell_id) as epoch, gc_paused():
        if epoch is None:
            # The change that requested this cycle may be newer than the running cycle's snapshot.
            outbox.put_off(topic, cell_id, delay_s=_RETRY_S)
            return None
        now = clock.now()
        # A brief cycle keeps the hint for the full cycle that a user's change of a job has requested.
        briefly = at_once and is_trusted(cell_id)
        outbox.clear_hints((topic,) if briefly else (outbox.Topic.CYCLE, outbox.Topic.FREED), cell_id)
        faults.fault_point("cycle.leased")
        begun = time.monotonic()
        others, cell = read_delegated(cell_id), _name(cell_id)
        with counters.SNAPSHOT.time_block(cell=cell):
            taken, cached = checkout_snapshot(cell_id, but=others, briefly=briefly)
        config = brief_config(taken.sharing) if briefly else engine_config(taken.sharing)
        with counters.DECISION.time_block(cell=cell):
            workload = engine.recount_workload(taken.snapshot, config)
            result = engine.run_cycle(taken.snapshot, config, Instant(now.timestamp()))
        faults.fault_point("cycle.before_commit")
        try:
            with counters.COMMIT.time_block(cell=cell):
                done = _commit(cell_id, epoch, taken, result, now)
                _store_workload(cell_id, workload)
        except leases.LeaseLost as error:
            log.warning("cycle abandoned", cell=str(cell_id), why=str(error))
            outbox.add_hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
            return None
    _took_s[cell_id] = time.monotonic() - begun
    counters.CYCLE.observe(_took_s[cell_id], cell=cell)
    (_idle.discard if done.admitted else _idle.add)(cell_id)
    faults.fault_point("cycle.after_commit")
    if cached is not None:
        checkin_snapshot(cached, result, dropped=done.dropped > 0)
    _hint_at_next(cell_id, others, result, dropped=done.dropped > 0)
    health.record_heartbeat("cycle")
    if done.admitted or done.evicted or done.promised or done.dropped:
        log.info(
            "cycle",
            cell=str(cell_id),
            admitted=done.admitted,
            evicted=done.evicted,
            promised=done.promised,
            dropped=done.dropped,
            jobs=len(taken.jobs),
        )
    return done


def _commit(
    cell_id: uuid.UUID, epoch: int, taken: CellSnapshot, result: CycleResult, now: datetime
) -> Committed:
    """Begin the changes of slices first, because a slice may need memory back that other decisions would
    take; then write the rest. Raises: LeaseLost."""
    for decision in result.decisions:
        if decision.kind is DecisionKind.RESIZE:
            resize_by_use(cell_id=cell_id, epoch=epoch, decision=decision, now=now)
    return commit.commit_cycle(cell_id=cell_id, epoch=epoch, taken=taken, result=result, now=now)


def _hint_at_next(cell_id: uuid.UUID, others: DelegatedScope, result: CycleResult, *, dropped: bool) -> None:
    """Add hints for the next cycle if one must follow, and for reconciling clusters that admit jobs
    themselves."""
    for cluster_id in sorted(others.clusters):
        # The change that requested this cycle, of a job or a quota, may concern those clusters.
        outbox.add_hint(outbox.Topic.DELEGATE, cluster_id)
    if dropped:
        outbox.add_hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
    elif result.counters.get("not_evaluated"):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id, delay_s=TRUSTED_FOR.total_seconds())


def _store_workload(cell_id: uuid.UUID, workload: TaskWorkload | None) -> None:
    """Store a new workload mix for the next cycles; if that fails, the next cycle computes it again."""
    if workload is not None:
        Cell.unscoped.filter(pk=cell_id).update(workload=engine.encode(workload))


@lru_cache
def _name(cell_id: uuid.UUID) -> str:
    return Cell.unscoped.values_list("name", flat=True).get(pk=cell_id)


def find_pause(cell_id: uuid.UUID, now: datetime, *, freed: bool) -> float:
    """Return the seconds until the next cycle is due; zero or less if it is due now.

    If the clock was set back, the last cycle is in the future; it then counts like one as far in the past.
    Otherwise the cell would get no cycle until that time.
    """
    ((last,),) = _LAST(cell_id)
    # Another process may have run the last cycle; its duration is then unknown here.
    in_vain = cell_id in _idle and not freed
    share, (least_s, most_s) = (_SHARE_IN_VAIN, _BOUNDS_IN_VAIN_S) if in_vain else (_SHARE, _BOUNDS_S)
    spacing_s = min(max(share * _took_s.get(cell_id, 0.0), least_s), most_s)
    return 0.0 if last is None else spacing_s - abs((now - last).total_seconds())
