"""One engine cycle of one cell: lease, snapshot, decide, commit."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import Final

import structlog
from django.db import connection

from clusters.models import Cell
from foundation import clock, faults, health, leases, outbox
from foundation.garbage import uncollected
from foundation.kept import Kept
from scheduling import commit, engine
from scheduling.commit import Committed
from scheduling.delegation.delegated import elsewhere
from scheduling.engine.model import Instant
from scheduling.engine_config import engine_config
from scheduling.snapshots.kept import borrow, keep

log = structlog.get_logger(__name__)
_RETRY_S = 0.1
# Under a flood of submissions one cycle sees many of them; one for each would keep the database busy with
# nothing else. So a cycle leaves others the time that it took, within bounds, and the longest time when it
# gave nothing away: what is submitted to a full cell can wait. After a quiet moment the next still runs at
# once, and so it does when quota came back: cards that nobody uses wait for it. But not where each of its
# commits keeps every other writer waiting.
_SHARE: Final = 2
_CLOSEST_S: Final = 0.1
_FARTHEST_S: Final = 0.5
_took_s: Final[dict[uuid.UUID, float]] = {}
_idle: Final[set[uuid.UUID]] = set()
_LAST: Final = Kept(lambda cell: Cell.unscoped.filter(pk=cell).values_list("last_cycle_at"))


def cycle_run(*, cell_id: uuid.UUID, freed: bool = False) -> Committed | None:
    """Run one cycle; None when another process is at it or the last one has only just ended.

    In both cases the hint is kept for later. `freed`: quota came back for it.
    """
    topic = outbox.Topic.FREED if freed else outbox.Topic.CYCLE
    with leases.held(Cell, cell_id) as epoch:
        if epoch is None:
            # The change that woke us may be newer than the running cycle's snapshot.
            outbox.hint(topic, cell_id, delay_s=_RETRY_S)
            return None
        now = clock.now()
        at_once = freed and connection.vendor == "postgresql"
        if not at_once and (wait_s := _too_soon(cell_id, now, freed=freed)) > 0:
            outbox.hint(topic, cell_id, delay_s=wait_s)
            return None
        outbox.answered((outbox.Topic.CYCLE, outbox.Topic.FREED), cell_id)
        faults.point("cycle.leased")
        begun = time.monotonic()
        with uncollected():
            others = elsewhere(cell_id)
            taken, kept = borrow(cell_id, but=others)
            result = engine.run_cycle(taken.snapshot, engine_config(), Instant(now.timestamp()))
        faults.point("cycle.before_commit")
        try:
            done = commit.commit_cycle(cell_id=cell_id, epoch=epoch, taken=taken, result=result, now=now)
        except leases.LeaseLost as error:
            log.warning("cycle abandoned", cell=str(cell_id), why=str(error))
            outbox.hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
            return None
    _took_s[cell_id] = time.monotonic() - begun
    (_idle.discard if done.admitted else _idle.add)(cell_id)
    faults.point("cycle.after_commit")
    if kept is not None:
        keep(kept, dropped=done.dropped > 0)
    for cluster_id in sorted(others.clusters):
        # Whatever woke us, a job or a quota, may be theirs.
        outbox.hint(outbox.Topic.DELEGATE, cluster_id)
    if done.dropped:
        outbox.hint(outbox.Topic.CYCLE, cell_id, delay_s=_RETRY_S)
    health.beat("cycle")
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


def _too_soon(cell_id: uuid.UUID, now: datetime, *, freed: bool) -> float:
    """Seconds until the next cycle is due; zero or less when it is now."""
    ((last,),) = _LAST(cell_id)
    # Another process may have run the last one; what it took there is not known here.
    in_vain = cell_id in _idle and not freed
    own_s = _FARTHEST_S if in_vain else _SHARE * _took_s.get(cell_id, 0.0)
    spacing_s = min(max(own_s, _CLOSEST_S), _FARTHEST_S)
    return 0.0 if last is None else spacing_s - (now - last).total_seconds()
