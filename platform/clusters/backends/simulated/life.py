"""The life of pods: pending, starting, running, succeeded or failed, gone.

No process runs the simulated cluster. Each caller first carries out the transitions that have become due
since the last call. Pods do not influence each other once they are admitted, so each kind of transition is
one UPDATE over all pods for which it is due, and a pod with several due transitions (after a long pause, at a
high speed) passes through them in order.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, Final

from django.db.models import Case, F, Max, QuerySet, Value, When

from clusters.backends.simulated.state import ClusterState, lock_state, read_state
from clusters.models import SimulatedPhase, SimulatedPod
from foundation.sql.prepared import PreparedQuery

Pods = QuerySet[SimulatedPod]

SOONEST_S: Final = 0.05
"""Changes closer together than this are reported together."""
_PRUNE_EVERY: Final = timedelta(minutes=5)
_TOMBSTONE_RETENTION: Final = timedelta(hours=1)


def advance_cluster(cluster_id: uuid.UUID) -> ClusterState:
    """Carry out every transition that is due. If none is due, nothing is locked or written."""
    moment = read_state(cluster_id)
    if not _is_due(moment):
        return moment
    with lock_state(cluster_id) as moment:
        advance_locked(moment)
    return moment


def advance_locked(moment: ClusterState) -> None:
    """Carry out every transition that is due, for a caller that holds the lock."""
    if not _is_due(moment):
        return
    change = moment.next_change()
    due = _due(moment)
    due.filter(terminating=False, phase=SimulatedPhase.PENDING).update(
        phase=SimulatedPhase.STARTING,
        changed_ms=F("next_ms"),
        next_ms=F("next_ms") + F("start_ms"),
        change=change,
    )
    due.filter(terminating=False, phase=SimulatedPhase.STARTING).update(
        phase=SimulatedPhase.RUNNING,
        started_ms=F("next_ms"),
        changed_ms=F("next_ms"),
        next_ms=F("next_ms") + F("run_ms"),  # null without a run time: runs until removed
        change=change,
    )
    finish_pods(due.filter(terminating=False, phase=SimulatedPhase.RUNNING), change)
    due.filter(terminating=True).update(
        phase=SimulatedPhase.REMOVED,
        holds=False,
        ended_ms=Case(When(ended_ms=None, then=F("next_ms")), default=F("ended_ms")),
        changed_ms=F("next_ms"),
        next_ms=None,
        change=change,
    )
    _prune(moment)


def next_in_s(moment: ClusterState) -> float | None:
    """Return the real seconds until the next transition, `SOONEST_S` at least; None if none is planned."""
    found = _NEXT.fetch_first(moment.row.pk)
    if found is None:
        return None
    (next_ms,) = found
    return max((moment.timeline.real_at(next_ms) - moment.at).total_seconds(), SOONEST_S)


def finish_pods(pods: Pods, change: int, *, ended_ms: int | None = None) -> int:
    """End running pods with their exit code, at `ended_ms` or else when they were due."""
    ended = F("next_ms") if ended_ms is None else Value(ended_ms)
    return pods.update(
        phase=Case(
            When(exit_code=0, then=Value(SimulatedPhase.SUCCEEDED.value)),
            default=Value(SimulatedPhase.FAILED.value),
        ),
        holds=False,
        ended_code=F("exit_code"),
        ended_ms=ended,
        changed_ms=ended,
        next_ms=None,
        frozen_ms=None,
        change=change,
    )


def fail_pods(
    pods: Pods, moment: ClusterState, change: int, *, reason: str, message: str, code: int | None = None
) -> int:
    """End pods now, in any phase; a removal under way continues."""
    return pods.update(
        phase=SimulatedPhase.FAILED,
        holds=False,
        ended_code=code,
        ended_ms=moment.sim_ms,
        changed_ms=moment.sim_ms,
        next_ms=Case(When(terminating=True, then=F("next_ms")), default=None),
        frozen_ms=None,
        reason=reason,
        message=message,
        change=change,
    )


def _due_at(simulation: uuid.UUID, sim_ms: int) -> Pods:
    return SimulatedPod.unscoped.filter(simulation=simulation, next_ms__lte=sim_ms)


def _due(moment: ClusterState) -> Pods:
    return _due_at(moment.row.pk, moment.sim_ms)


_ANY_DUE: Final = PreparedQuery(
    lambda simulation, sim_ms: _due_at(simulation, sim_ms).order_by().values_list("pk")[:1]
)
_NEXT: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda simulation: (
        SimulatedPod.unscoped.filter(simulation=simulation, next_ms__isnull=False)
        .order_by("next_ms")
        .values_list("next_ms")[:1]
    )
)


def _is_due(moment: ClusterState) -> bool:
    return bool(_ANY_DUE(moment.row.pk, moment.sim_ms))


def _prune(moment: ClusterState) -> None:
    row = moment.row
    if row.pruned_at is not None and moment.at - row.pruned_at < _PRUNE_EVERY:
        return
    row.pruned_at = moment.at
    long_ago = moment.timeline.sim_at(moment.at - _TOMBSTONE_RETENTION)
    old = SimulatedPod.unscoped.filter(simulation=row, phase=SimulatedPhase.REMOVED, changed_ms__lt=long_ago)
    newest = old.aggregate(newest=Max("change"))["newest"]
    if newest is not None:
        row.pruned_to = max(row.pruned_to, newest)
        old.delete()
