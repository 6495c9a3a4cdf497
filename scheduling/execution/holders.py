"""Finds the pods that belong to allocations of this database, by name and uid and not by label."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.db.models import QuerySet

from clusters.backends.base import HOLD, BoundPods, PodOnNode
from clusters.models import Cluster
from foundation.models.installation import installation_id
from foundation.sql.prepared import PreparedQuery
from scheduling.execution.task_specs import LABEL_ATTEMPT, LABEL_JOB
from scheduling.models import Allocation

_PORTION: Final = 500


def _live(names: list[str], cluster: uuid.UUID) -> QuerySet[Allocation, Any]:
    return Allocation.unscoped.filter(
        node__cluster=cluster, released_at__isnull=True, removed_at__isnull=True, pod_name__any_of=names
    ).values_list(
        *("namespace", "pod_name", "pod_uid", "ensured_at", "node__name"),
        *("attempt__job_id", "attempt__number", "pk"),
    )


_LIVE: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(_live)


def find_own_pods(cluster: Cluster, bound: BoundPods) -> frozenset[str]:
    """Return the uids of the pods that belong to live allocations."""
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    names = sorted({pod.name for pod in bound.pods})
    for start in range(0, len(names), _PORTION):
        for namespace, name, *hold in _LIVE.for_any(names[start : start + _PORTION], cluster.pk):
            found[namespace, name] = tuple(hold)
    pairs = ((pod, found.get((pod.namespace, pod.name))) for pod in bound.pods)
    return frozenset(pod.uid for pod, hold in pairs if hold is not None and _is_it(pod, hold))


def _is_it(pod: PodOnNode, hold: tuple[Any, ...]) -> bool:
    """Return whether a pod is the one of an allocation.

    Until the answer to its creation is written, the pod's uid is unknown, and its labels for job, attempt and
    allocation are compared. An earlier uid of the allocation is that of a predecessor, which has ended.
    """
    uid, ensured_at, node, *meant, own = hold
    if pod.node != node:
        return False
    if ensured_at is not None:
        return bool(uid == pod.uid)
    read = pod.read()
    said = [read.labels.get(label) for label in (LABEL_JOB, LABEL_ATTEMPT)]
    ours = read.installation in ("", str(installation_id())) and read.labels.get(HOLD, str(own)) == str(own)
    return ours and said == [str(part) for part in meant] and pod.uid != uid
