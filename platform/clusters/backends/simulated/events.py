"""The events that a cluster would have of a simulated pod, derived from its phases."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from clusters.backends.base import PodEvent, TaskRef
from clusters.backends.simulated import life
from clusters.backends.simulated.state import ClusterState
from clusters.models import SimulatedPod


def list_pod_events(cluster_id: uuid.UUID, refs: Sequence[TaskRef]) -> list[PodEvent]:
    """Return the events of those pods, including deleted ones. Raises: BackendUnavailable."""
    moment = life.advance_cluster(cluster_id)
    wanted = {(ref.namespace, ref.name) for ref in refs}
    rows = SimulatedPod.unscoped.filter(simulation=moment.row, name__in=[ref.name for ref in refs])
    found = [pod for pod in rows.order_by("begun_ms", "id") if (pod.namespace, pod.name) in wanted]
    return [event for pod in found for event in _events(moment, pod)]


def _events(moment: ClusterState, pod: SimulatedPod) -> Iterator[PodEvent]:
    ref = TaskRef(pod.namespace, pod.name, pod.uid)
    real = moment.timeline.real_at
    bound = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node_name}"
    yield PodEvent(ref, real(pod.begun_ms), "Scheduled", bound)
    if pod.started_ms is not None:
        yield PodEvent(ref, real(pod.started_ms), "Started", "Started container main")
    if pod.reason and pod.ended_ms is not None:
        yield PodEvent(ref, real(pod.ended_ms), pod.reason, pod.message, warning=True)
