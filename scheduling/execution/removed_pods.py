"""Records the removal of pods whose job has ended. It changes nothing else, and is a third of the
observations of short jobs, so it is handled with few statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from clusters.backends.base import PodObservation, PodPhase
from clusters.models import Cluster
from foundation.sql.bulk import locking_in_order
from foundation.sql.prepared import PreparedQuery, PreparedUpdate
from scheduling.lifecycle.journal import JournalPod, log_pods
from scheduling.models import TERMINAL_STATES, Allocation, TaskState

_AT_REST: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda names, cluster: locking_in_order(
        Allocation.unscoped.filter(
            removed_at__isnull=True,
            released_at__isnull=False,
            restarting=False,
            node__cluster=cluster,
            pod_name__any_of=names,
            task__state__in=(TaskState.SUCCEEDED, TaskState.FAILED, TaskState.REMOVED),
            attempt__gathered_at__isnull=True,
            attempt__job__state__in=TERMINAL_STATES,
        )
    ).values_list("pk", "namespace", "pod_name", "pod_uid", "attempt__job_id")
)
_REMOVED: Final = PreparedUpdate(
    lambda keys, now: Allocation.unscoped.filter(pk__any_of=keys), lambda keys, now: {"removed_at": now}
)


def record_removed_pods(
    *, cluster: Cluster, observations: Sequence[PodObservation], now: datetime
) -> Sequence[PodObservation]:
    """Record the removal of pods with released allocations and ended jobs; return the other observations.

    Nothing else follows from it, so neither jobs nor tasks are locked.
    """
    removed = {
        (seen.ref.namespace, seen.ref.name): seen for seen in observations if seen.phase is PodPhase.REMOVED
    }
    if not removed:
        return observations
    with transaction.atomic():
        rows = _AT_REST([name for _, name in removed], cluster.pk)
        there = [row for row in rows if _is_it(removed.get((row[1], row[2])), row[3])]
        done = {(space, name) for _, space, name, *_ in there}
        if there:
            _REMOVED(sorted(row[0] for row in there), now)
            log_pods("gone", [JournalPod(job, space, name) for _, space, name, _, job in there])
    return [seen for seen in observations if (seen.ref.namespace, seen.ref.name) not in done]


def _is_it(seen: PodObservation | None, uid: str) -> bool:
    return seen is not None and (not uid or not seen.ref.uid or uid == seen.ref.uid)
