"""Obstacles to a pod's start that appear in its events alone, as a volume that does not come."""

from __future__ import annotations

import time
import uuid
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
from scheduling.models import Allocation, Task, TaskState
from scheduling.services.obstacles import EVENTS

log = structlog.get_logger(__name__)
_SLOW: Final = timedelta(seconds=20)
_AT_ONCE: Final = 20
_EVERY_S: Final = 15.0
_STARTING: Final = (TaskState.BOUND, TaskState.STARTING)
_GOES_ON: Final = ("Pulling", "Pulled", "Created", "Started")
"""What is noted once the obstacle is gone."""
_OF_EVENTS: Final = reduce(
    or_, (Q(task__message__startswith=one) for one in sorted(EVENTS)), Q(task__message="")
)
_asked: Final[dict[uuid.UUID, float]] = {}


def _silent(cluster: uuid.UUID, before: datetime) -> QuerySet[Allocation, tuple[Any, ...]]:
    """Pods that were made a while ago and of whose containers nothing is told but by events."""
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
        .values_list("task_id", "namespace", "pod_name", "task__message")[:_AT_ONCE]
    )


_SILENT: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(_silent)


def note_events(cluster: Cluster, backend: ClusterBackend) -> int:
    """Have tasks say what the latest event about the start of their pods is; returns how many changed."""
    now = time.monotonic()
    if now - _asked.get(cluster.pk, -_EVERY_S) < _EVERY_S:
        return 0
    _asked[cluster.pk] = now  # a cluster may be looked at several times a second
    rows = _SILENT(cluster.pk, clock.now() - _SLOW)
    if not rows:
        return 0
    try:
        events = backend.list_pod_events([TaskRef(space, name) for _, space, name, _ in rows])
    except BackendUnavailable as error:
        log.warning("the events of pods are not told", cluster=cluster.name, error=str(error))
        return 0
    latest: dict[tuple[str, str], PodEvent] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.reason in EVENTS or event.reason in _GOES_ON:
            latest[event.ref.namespace, event.ref.name] = event
    changed = 0
    for task, space, name, message in rows:
        found = latest.get((space, name))
        if found is None:
            continue
        text = f"{found.reason}: {found.message}"[:2000] if found.reason in EVENTS else ""
        if text != message:
            waiting = Task.unscoped.filter(pk=task, state__in=_STARTING, message=message)
            changed += waiting.update(message=text)
    return changed
