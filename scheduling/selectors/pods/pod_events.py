"""Reads the events of a job's pods from the clusters."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from clusters.backends.base import BackendUnavailable, TaskRef
from clusters.backends.registry import backend_for
from foundation.core.actor import Actor
from scheduling.models import Allocation, Job
from scheduling.selectors.pods.pods import pods_asked, task_name, unreachable_conflict
from tenants.access import permissions
from tenants.access.permissions import Permission

log = structlog.get_logger(__name__)
EVENTS_MAX: Final = 200
"""The maximum number of events that are returned, the latest."""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event of the pod of `task` (`<role>-<index>`), which occurred `count` times, the last time `at`."""

    task: str
    pod: str
    at: datetime
    reason: str
    message: str
    warning: bool
    count: int


def job_pod_events(*, viewer: Actor, job: Job, task: str = "", attempt: int | None = None) -> list[TaskEvent]:
    """Return the events of one attempt, by default the latest, newest first; of one task, or of all.

    Clusters delete events after a while, Kubernetes after an hour. Raises: PermissionDenied; NotFound;
    Conflict when a cluster does not answer, or the job has too many tasks for one request.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    by_cluster: defaultdict[uuid.UUID, list[Allocation]] = defaultdict(list)
    for pod in pods_asked(job, task=task, attempt=attempt):
        by_cluster[pod.node.cluster_id].append(pod)
    found = [event for pods in by_cluster.values() for event in _cluster_events(pods)]
    found.sort(key=lambda event: (event.at, event.task, event.reason), reverse=True)
    return found[:EVENTS_MAX]


def _cluster_events(pods: list[Allocation]) -> list[TaskEvent]:
    """Return the events of pods of one cluster."""
    cluster = pods[0].node.cluster
    tasks = {(pod.namespace, pod.pod_name): task_name(pod) for pod in pods}
    try:
        events = backend_for(cluster, disowned_too=True).list_pod_events([TaskRef(*key) for key in tasks])
    except BackendUnavailable as error:
        log.warning("events of pods could not be read", cluster=cluster.name, error=str(error))
        raise unreachable_conflict(cluster) from error
    return [
        TaskEvent(
            task=tasks[event.ref.namespace, event.ref.name],
            pod=event.ref.name,
            at=event.at,
            reason=event.reason,
            message=event.message,
            warning=event.warning,
            count=event.count,
        )
        for event in events
    ]
