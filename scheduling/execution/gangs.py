"""Removes the shared objects of a gang's pods from a cluster after the pods have ended.

The attempt records the object before it is created. A worker that was paused beyond its lease may create the
object again after its removal. So once a minute the existing objects are compared with the attempts; an
object of an ended attempt without pods is recorded again and removed.
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
    """Record in the attempts, before their shared objects are created, that these may exist."""
    common = {allocation.attempt for allocation, spec in wanted if spec.gang and not spec.gang.alone}
    fresh = sorted(attempt.pk for attempt in common if attempt.gathered_at is None)
    if fresh:
        Attempt.unscoped.filter(pk__in=fresh, gathered_at__isnull=True).update(gathered_at=clock.now())


def finished_attempts() -> QuerySet[Attempt]:
    """Return the ended attempts without pods whose shared object may still exist."""
    return _without_pods().filter(gathered_at__isnull=False)


def _without_pods() -> QuerySet[Attempt]:
    present = Allocation.unscoped.filter(attempt=OuterRef("pk"), removed_at__isnull=True)
    return Attempt.unscoped.filter(~Exists(present), ended_at__isnull=False)


def remove_finished_gangs(cluster: Cluster, backend: ClusterBackend) -> int:
    """Remove the shared objects of ended attempts without pods; return how many were removed."""
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
    """Call `note_left` for every cluster; a cluster that does not answer is skipped."""
    for cluster in Cluster.unscoped.order_by("id"):
        try:
            note_left(cluster, backend_confirmed(cluster))
        except BackendUnavailable as error:
            log.warning("cluster did not answer", cluster=cluster.name, error=str(error))


def note_left(cluster: Cluster, backend: ClusterBackend) -> list[str]:
    """Mark the remaining shared objects of ended attempts without pods for removal; return their names.

    The job may have ended or run again: the object of its next attempt has another name. Objects of unknown
    attempts are not removed. Raises: BackendUnavailable.
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
    """Return the attempts without foreign pods. The shared object owns the pods of its attempt, also those
    that this database does not know, so its removal would end them.
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
