"""One engine cycle of one cell: lease, snapshot, decide, commit."""

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
# Under a flood of submissions one cycle sees many of them; one for each would keep the database busy with
# nothing else. So a cycle leaves others the time that it took, within bounds, and several times as much when
# it gave nothing away: what is submitted to a full cell can wait. After a quiet moment the next still runs at
# once, and so it does when quota came back: cards that nobody uses wait for it. But not where each of its
# commits keeps every other writer waiting.
_SHARE, _SHARE_IN_VAIN = 2, 5
_BOUNDS_S, _BOUNDS_IN_VAIN_S = (0.1, 0.5), (0.5, 1.0)
_took_s: Final[dict[uuid.UUID, float]] = {}
_idle: Final[set[uuid.UUID]] = set()
_LAST: Final = PreparedQuery(lambda cell: Cell.unscoped.filter(pk=cell).values_list("last_cycle_at"))


def cycle_run(*, cell_id: uuid.UUID, freed: bool = False) -> Committed | None:
    """Run one cycle; None when another process is at it or the last one has only just ended.

    In both cases the hint is kept for later. `freed`: quota came back for it.
    """
    topic = outbox.Topic.FREED if freed else outbox.Topic.CYCLE
    at_once = freed and connection.vendor == "postgresql"
    if not at_once and (wait_s := find_pause(cell_id, clock.now(), freed=freed)) > 0:
        outbox.put_off(topic, cell_id, delay_s=wait_s)
        return None
    with leases.hold_lease(Cell, cell_id) as epoch, gc_paused():
        if epoch is None:
            # The change that woke us may be newer than the running cycle's snapshot.
            outbox.put_off(topic, cell_id, delay_s=_RETRY_S)
            return None
        now = clock.now()
        # For what somebody changed of a job the cycle that was asked for then still comes.
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
    """Begin the changes of slices, before others take the room that one of them needs back; then write the
    rest. Raises: LeaseLost."""
    for decision in result.decisions:
        if decision.kind is DecisionKind.RESIZE:
            resize_by_use(cell_id=cell_id, epoch=epoch, decision=decision, now=now)
    return commit.commit_cycle(cell_id=cell_id, epoch=epoch, taken=taken, result=result, now=now)


def _hint_at_next(cell_id: uuid.UUID, others: DelegatedScope, result: CycleResult, *, dropped: bool) -> None:
    """Hint at a cycle where one must follow, and at the placing of jobs that clusters admit themselves."""
    for cluster_id in sorted(others.clusters):
        # Whatever woke us, a job or a quota, may be theirs.
        outbox.add_hint(outbox.Topic.DELEGATE, cluster_id)
    if dropped:
        outbox.add_hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
    elif result.counters.get("unheard"):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id, delay_s=TRUSTED_FOR.total_seconds())


def _store_workload(cell_id: uuid.UUID, workload: TaskWorkload | None) -> None:
    """Store a new workload mix, from which the next cycles learn; if that fails, they count it again."""
    if workload is not None:
        Cell.unscoped.filter(pk=cell_id).update(workload=engine.encode(workload))


@lru_cache
def _name(cell_id: uuid.UUID) -> str:
    return Cell.unscoped.values_list("name", flat=True).get(pk=cell_id)


def find_pause(cell_id: uuid.UUID, now: datetime, *, freed: bool) -> float:
    """Return the seconds until the next cycle is due; zero or less if it is due now.

    A last cycle in the future, by a clock that was set back since, counts like one as far in the past: the
    cell would get no cycle until then.
    """
    ((last,),) = _LAST(cell_id)
    # Another process may have run the last one; what it took there is not known here.
    in_vain = cell_id in _idle and not freed
    share, (least_s, most_s) = (_SHARE_IN_VAIN, _BOUNDS_IN_VAIN_S) if in_vain else (_SHARE, _BOUNDS_S)
    spacing_s = min(max(share * _took_s.get(cell_id, 0.0), least_s), most_s)
    return 0.0 if last is None else spacing_s - abs((now - last).total_seconds())
