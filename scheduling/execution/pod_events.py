"""Finds obstacles to a pod's start that only events report, such as a volume that can't be mounted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Final

import structlog
from django.db.models import Q, QuerySet

from clusters.backends.base import BackendUnavailable, ClusterBackend, PodEvent, TaskRef
from clusters.models import Cluster
from foundation.core import clock
from foundation.sql.prepared import PreparedQuery
from scheduling.engine_input.volume_claims import claim_names
from scheduling.models import Allocation, ClaimPhase, MountedClaim, Task, TaskState
from scheduling.services.obstacles import EVENTS, PROVISIONING_FAILED

log = structlog.get_logger(__name__)
_SLOW: Final = timedelta(seconds=20)
_AT_ONCE: Final = 20
_EVERY_S: Final = 15.0
_STARTING: Final = (TaskState.BOUND, TaskState.STARTING)
_GOES_ON: Final = ("Pulling", "Pulled", "Created", "Started")
"""Event reasons that follow once an obstacle is gone."""
_OF_EVENTS: Final = reduce(
    or_, (Q(task__message__startswith=one) for one in sorted(EVENTS)), Q(task__message="")
)
_asked: Final[dict[uuid.UUID, float]] = {}


def _silent(cluster: uuid.UUID, before: datetime) -> QuerySet[Allocation, tuple[Any, ...]]:
    """Return allocations whose pods were created before `before`, have not started, and have no message other
    than one from events."""
    return (
        Allocation.unscoped.filter(
            node__cluster=cluster,
            ensured_at__lt=before,
            removal_asked_at__isnull=True,
            released_at__isnull=True,
            task__state__in=_STARTING,
        )
        .filter(_OF_EVENTS)
        .order_by("-ensured_at", "pk")
        .values_list(
            *("task_id", "namespace", "pod_name", "task__message", "ensured_at"),
            *("attempt__job__workspace_id", "attempt__job__volumes"),
        )[:_AT_ONCE]
    )


_SILENT: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(_silent)


def note_events(cluster: Cluster, backend: ClusterBackend) -> int:
    """Write the latest event about the start of its pod to each task's message; return how many changed."""
    now = time.monotonic()
    if now - _asked.get(cluster.pk, -_EVERY_S) < _EVERY_S:
        return 0
    _asked[cluster.pk] = now  # a cluster may be observed several times a second
    rows = _SILENT(cluster.pk, clock.now() - _SLOW)
    if not rows:
        return 0
    try:
        events = backend.list_pod_events([TaskRef(row[1], row[2]) for row in rows])
        failures = _list_failures(cluster, backend, rows)
    except BackendUnavailable as error:
        log.warning("events of pods could not be read", cluster=cluster.name, error=str(error))
        return 0
    latest: dict[tuple[str, str], PodEvent] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.reason in EVENTS or event.reason in _GOES_ON:
            latest[event.ref.namespace, event.ref.name] = event
    changed = 0
    for task, space, name, message, *_ in rows:
        found = failures.get(name) or latest.get((space, name))
        if found is None:
            continue
        text = f"{found.reason}: {found.message}"[:2000] if found.reason in EVENTS else ""
        if text != message:
            waiting = Task.unscoped.filter(pk=task, state__in=_STARTING, message=message)
            changed += waiting.update(message=text)
    return changed


def _list_failures(
    cluster: Cluster, backend: ClusterBackend, rows: Sequence[tuple[Any, ...]]
) -> Mapping[str, PodEvent]:
    """Return, by the name of a pod, why the volume of a claim that it mounts couldn't be created for it.

    Raises: BackendUnavailable.
    """
    mounting = [row for row in rows if claim_names(row[-1])]
    if not mounting:
        return {}
    unprovisioned = MountedClaim.unscoped.filter(cluster=cluster, phase=ClaimPhase.UNPROVISIONED)
    pending = set(unprovisioned.values_list("workspace_id", "name"))
    pods = {
        row[2]: [TaskRef(row[1], name) for name in claim_names(row[-1]) if (row[-2], name) in pending]
        for row in mounting
    }
    refs = list(dict.fromkeys(ref for claims in pods.values() for ref in claims))
    failures: dict[tuple[str, str], PodEvent] = {}
    for event in sorted(backend.list_claim_events(refs) if refs else (), key=lambda event: event.at):
        if event.reason == PROVISIONING_FAILED:
            failures[event.ref.namespace, event.ref.name] = event
    return {
        row[2]: failure
        for row in mounting
        for ref in pods[row[2]]
        if (failure := failures.get((ref.namespace, ref.name))) and failure.at >= row[4]
    }
