"""One engine cycle of one cell: lease, snapshot, decide, commit."""

from __future__ import annotations

import uuid

import structlog

from clusters.models import Cell
from foundation import clock, faults, health, leases, outbox
from scheduling import commit, engine
from scheduling.commit import Committed
from scheduling.engine.model import Instant
from scheduling.snapshots import cell_snapshot

log = structlog.get_logger(__name__)
_RETRY_S = 0.3


def cycle_run(*, cell_id: uuid.UUID) -> Committed | None:
    """Run one cycle; None when another process is at it, in which case the hint is kept for later."""
    with leases.held(Cell, cell_id) as epoch:
        if epoch is None:
            # The change that woke us may be newer than the running cycle's snapshot.
            outbox.hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
            return None
        now = clock.now()
        taken = cell_snapshot(cell_id)
        result = engine.run_cycle(taken.snapshot, engine.EngineConfig(), Instant(now.timestamp()))
        faults.point("cycle.before_commit")
        try:
            done = commit.commit_cycle(cell_id=cell_id, epoch=epoch, taken=taken, result=result, now=now)
        except leases.LeaseLost as error:
            log.warning("cycle abandoned", cell=str(cell_id), why=str(error))
            outbox.hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
            return None
    faults.point("cycle.after_commit")
    if done.dropped:
        outbox.hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
    health.beat("cycle")
    if done.admitted or done.dropped:
        log.info(
            "cycle", cell=str(cell_id), admitted=done.admitted, dropped=done.dropped, jobs=len(taken.jobs)
        )
    return done
