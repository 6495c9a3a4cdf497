"""Pod events of the cluster's own components: FailedMount, BackOff, Evicted, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clusters.backends.base import PodEvent, TaskRef
from clusters.backends.kubernetes.client.api import Json, KubernetesApi
from clusters.backends.kubernetes.client.workers import Workers

_POD, _CLAIM = "Pod", "PersistentVolumeClaim"


def list_pod_events(api: KubernetesApi, refs: Sequence[TaskRef]) -> list[PodEvent]:
    """Return the events of each pod that the cluster still has, by default of an hour.

    Raises: BackendUnavailable.
    """
    return _list_events(api, _POD, refs)


def list_claim_events(api: KubernetesApi, refs: Sequence[TaskRef]) -> list[PodEvent]:
    """Return the events of volume claims. Raises: BackendUnavailable."""
    return _list_events(api, _CLAIM, refs)


def _list_events(api: KubernetesApi, kind: str, refs: Sequence[TaskRef]) -> list[PodEvent]:
    with Workers() as workers:
        found = list(workers.map(lambda ref: _of_object(api, kind, ref), refs))
    return [event for of_object in found for event in of_object]


def _of_object(api: KubernetesApi, kind: str, ref: TaskRef) -> list[PodEvent]:
    selector = f"involvedObject.kind={kind},involvedObject.name={ref.name}"
    items, _ = api.list_objects(f"/api/v1/namespaces/{ref.namespace}/events", fieldSelector=selector)
    return [_event(ref, item) for item in items]


def _event(ref: TaskRef, item: Json) -> PodEvent:
    """Read an event; older components count in the event itself, newer ones in its series."""
    series: Json = item.get("series") or {}
    at = (
        series.get("lastObservedTime")
        or item.get("lastTimestamp")
        or item.get("eventTime")
        or item["metadata"]["creationTimestamp"]
    )
    return PodEvent(
        ref=TaskRef(ref.namespace, ref.name, (item.get("involvedObject") or {}).get("uid") or ""),
        at=datetime.fromisoformat(at),
        reason=item.get("reason") or "",
        message=item.get("message") or "",
        warning=item.get("type") == "Warning",
        count=int(series.get("count") or item.get("count") or 1),
    )
