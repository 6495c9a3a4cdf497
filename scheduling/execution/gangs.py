"""What the pods of an attempt have in common in a cluster: noted before it is made, removed after them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from django.db.models import Exists, OuterRef, QuerySet

from clusters.backends.base import ClusterBackend, GangRef, OutcomeKind
from clusters.models import Cluster
from foundation import clock, faults
from scheduling.models import Allocation, Attempt
from scheduling.naming import gang_name

_BATCH: Final = 200


def note_gathered(attempts: Collection[Attempt]) -> None:
    """Remember, before it is asked for, that something may be there to be dissolved."""
    fresh = sorted(attempt.pk for attempt in attempts if attempt.gathered_at is None)
    if fresh:
        Attempt.unscoped.filter(pk__in=fresh, gathered_at__isnull=True).update(gathered_at=clock.now())


def over() -> QuerySet[Attempt]:
    """Attempts whose last pod is gone and whose gang is still there."""
    present = Allocation.unscoped.filter(attempt=OuterRef("pk"), removed_at__isnull=True)
    return Attempt.unscoped.filter(~Exists(present), gathered_at__isnull=False, ended_at__isnull=False)


def dissolve(cluster: Cluster, backend: ClusterBackend) -> int:
    """Dissolve the gangs of attempts that are over; returns how many calls were answered."""
    here = Allocation.unscoped.filter(attempt=OuterRef("pk"), node__cluster=cluster)
    attempts = list(over().filter(Exists(here)).select_related("job").order_by("ended_at", "pk")[:_BATCH])
    if not attempts:
        return 0
    outcomes = backend.dissolve(_refs(attempts))
    faults.point("execute.after_dissolve")
    pairs = zip(attempts, outcomes, strict=True)
    done = [attempt.pk for attempt, outcome in pairs if outcome.kind is OutcomeKind.DONE]
    Attempt.unscoped.filter(pk__in=done).update(gathered_at=None)
    return len(done)


def _refs(attempts: Sequence[Attempt]) -> list[GangRef]:
    keys = [attempt.pk for attempt in attempts]
    namespaces = dict(
        Allocation.unscoped.filter(attempt__in=keys).order_by("pk").values_list("attempt_id", "namespace")
    )
    return [GangRef(namespaces[attempt.pk], gang_name(attempt.job, attempt.number)) for attempt in attempts]
