"""The shared objects of an attempt's pods in a cluster: noted before they are made, removed after the pods.

A worker that was paused beyond its lease may make it once more after that. Once a minute what is there is
compared with the attempts; what is left of an ended one without pods is noted again, and removed like any.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import structlog
from django.db.models import Exists, OuterRef, QuerySet

from clusters.backends.base import BackendUnavailable, ClusterBackend, GangRef, OutcomeKind, TaskSpec
from clusters.models import Cluster, ForeignPod
from clusters.services.ownership import backend_confirmed
from foundation.core import clock, faults
from foundation.messaging import outbox
from scheduling.execution.task_specs import LABEL_JOB
from scheduling.models import Allocation, Attempt
from scheduling.models.pod_names import gang_name

log = structlog.get_logger(__name__)
_BATCH: Final = 200


def note_gathered(wanted: Iterable[tuple[Allocation, TaskSpec]]) -> None:
    """Remember, before it is asked for, that something may be there to be dissolved."""
    common = {allocation.attempt for allocation, spec in wanted if spec.gang and not spec.gang.alone}
    fresh = sorted(attempt.pk for attempt in common if attempt.gathered_at is None)
    if fresh:
        Attempt.unscoped.filter(pk__in=fresh, gathered_at__isnull=True).update(gathered_at=clock.now())


def finished_attempts() -> QuerySet[Attempt]:
    """Attempts whose last pod is gone and whose gang is still there."""
    return _without_pods().filter(gathered_at__isnull=False)


def _without_pods() -> QuerySet[Attempt]:
    present = Allocation.unscoped.filter(attempt=OuterRef("pk"), removed_at__isnull=True)
    return Attempt.unscoped.filter(~Exists(present), ended_at__isnull=False)


def remove_finished_gangs(cluster: Cluster, backend: ClusterBackend) -> int:
    """Dissolve the gangs of attempts that are over; returns how many calls were answered."""
    here = Allocation.unscoped.filter(attempt=OuterRef("pk"), node__cluster=cluster)
    ended = finished_attempts().filter(Exists(here)).select_related("job").order_by("ended_at", "pk")[:_BATCH]
    attempts = _unseen(cluster, ended)
    if not attempts:
        return 0
    outcomes = backend.remove_gangs(_refs(attempts))
    faults.fault_point("execute.after_dissolve")
    pairs = zip(attempts, outcomes, strict=True)
    done = [attempt.pk for attempt, outcome in pairs if outcome.kind is OutcomeKind.DONE]
    Attempt.unscoped.filter(pk__in=done).update(gathered_at=None)
    return len(done)


def note_left_everywhere() -> None:
    """Look for what is left in every cluster; one that does not answer holds up no other."""
    for cluster in Cluster.unscoped.order_by("id"):
        try:
            note_left(cluster, backend_confirmed(cluster))
        except BackendUnavailable as error:
            log.warning("cluster did not answer", cluster=cluster.name, error=str(error))


def note_left(cluster: Cluster, backend: ClusterBackend) -> list[str]:
    """Have removed what is left of attempts that have ended and have no pods any more; returns its names.

    The job may be over or run again by now: what belongs to its next attempt has another name.

    What belongs to no attempt that is known here is left alone. Raises: BackendUnavailable.
    """
    if not backend.capabilities.gangs:
        return []
    there = {ref: labels.get(LABEL_JOB, "") for ref, labels in backend.list_gangs()}
    left: dict[uuid.UUID, str] = {}
    for some in _portions({key for key in map(_key, there.values()) if key is not None}):
        ended = _without_pods().filter(job__in=some, gathered_at__isnull=True)
        here = ended.filter(allocations__node__cluster=cluster).distinct().select_related("job")
        attempts = _unseen(cluster, here)
        refs = zip(attempts, _refs(attempts), strict=True)
        left |= {attempt.pk: ref.name for attempt, ref in refs if there.get(ref) == str(attempt.job_id)}
    if left:
        log.warning(
            "what jobs have left behind is removed", cluster=cluster.name, names=sorted(left.values())
        )
        Attempt.unscoped.filter(pk__in=left, gathered_at__isnull=True).update(gathered_at=clock.now())
        outbox.add_hint(outbox.Topic.EXECUTE, cluster.pk)
    return sorted(left.values())


def _unseen(cluster: Cluster, attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the attempts without a running pod that this database does not know: their shared object owns
    it.
    """
    found = list(attempts)
    jobs = {str(attempt.job_id) for attempt in found}
    seen = set(ForeignPod.unscoped.filter(cluster=cluster, job__in=jobs).values_list("job", "attempt"))
    return [attempt for attempt in found if (str(attempt.job_id), attempt.number) not in seen]


def _key(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _portions(keys: Iterable[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    ordered = sorted(keys)
    return (ordered[start : start + _BATCH] for start in range(0, len(ordered), _BATCH))


def _refs(attempts: Sequence[Attempt]) -> list[GangRef]:
    keys = [attempt.pk for attempt in attempts]
    namespaces = dict(
        Allocation.unscoped.filter(attempt__in=keys).order_by("pk").values_list("attempt_id", "namespace")
    )
    return [GangRef(namespaces[attempt.pk], gang_name(attempt.job, attempt.number)) for attempt in attempts]
