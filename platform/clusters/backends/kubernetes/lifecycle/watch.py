"""The changes since a cursor, by the API's own watch; a full list if the watch is too old.

A cursor is the versions of the two lists, pods and nodes, up to which all changes are known.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

import structlog

from clusters.backends.base import (
    BackendUnavailable,
    BoundPod,
    BoundPods,
    Inventory,
    NodeFact,
    NodeObservation,
    Observation,
    ObservedBatch,
    PodOnNode,
    in_order,
)
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.lifecycle.removing import pod_found
from clusters.backends.kubernetes.nodes.bound import bound_pod
from clusters.backends.kubernetes.nodes.nodes import node_fact
from clusters.backends.kubernetes.pods import pods
from foundation.core import clock

log = structlog.get_logger(__name__)

PODS: Final = "/api/v1/pods"
_NODES: Final = "/api/v1/nodes"
_CURSOR: Final = re.compile(r"(\d{1,20})\.(\d{1,20})")
_IDLE_S: Final = 0.15  # earlier changes come at once; a pause of this length ends the read
# While pods come and go all the time there is no pause, and others wait for the lease under which this runs.
_LONGEST_S: Final = 0.6
_REST_S: Final = 0.3  # until the rest is read
_OTHERS_S: Final = 1.0  # after one deletion, other terminating pods may be deleted soon
_AT_MOST_S: Final = 5  # the watch's timeout, which the API server takes in whole seconds
_EXPIRED: Final = 410


class TooOld(Exception):
    """The API no longer has the changes after this version."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The last state of an object, and when it was seen; `removed`: deleted, or no longer selected."""

    item: Json
    removed: bool
    at: datetime


class Followed(NamedTuple):
    """The changes, the version reached, and whether `more` were still arriving when the read ended."""

    found: list[ObjectChange]
    version: str
    more: bool


def read_inventory(api: KubernetesApi) -> Inventory:
    """Return every node, in the order of their names."""
    nodes, _ = api.list_objects(_NODES)
    return Inventory(tuple(sorted((node_fact(node, api.cluster) for node in nodes), key=_name)))


def _name(fact: NodeFact) -> str:
    return fact.name


def observe_pods(api: KubernetesApi, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
    """Return the changes since `cursor`; a complete batch if the cursor is None, malformed or too old.

    `whole`: in addition every pod of the platform and every node, read after the changes.
    """
    known = _CURSOR.fullmatch(cursor or "")
    if known is not None:
        try:
            changed = _changes(api, known[1], known[2])
            return _with_lists(api, changed) if whole else changed
        except TooOld:
            log.info("the cluster has forgotten the cursor; listing again", cursor=cursor)
    return _everything(api)


def _everything(api: KubernetesApi) -> ObservedBatch:
    # Watched from the version of the first list on, so changes made meanwhile are reported again.
    others, version = api.list_objects(PODS, **_OTHERS)
    batch, ours = _lists(api, version)
    # There are as many objects of others as the cluster has pods: they are released before the next list.
    theirs = tuple(_named(item, partial(_same, bound_pod(item))) for item in others if _holds(item))
    return replace(batch, bound=BoundPods(theirs + _bound_pods(ours), complete=True))


def _with_lists(api: KubernetesApi, changed: ObservedBatch) -> ObservedBatch:
    batch, ours = _lists(api, changed.cursor.partition(".")[0])
    listed = _bound_pods(ours)
    known = {pod.uid for pod in listed}
    older = tuple(pod for pod in changed.bound.pods if pod.uid not in known)
    bound = BoundPods(older + listed, changed.bound.removed - known)
    return replace(batch, bound=bound, again_s=changed.again_s)


def _lists(api: KubernetesApi, version: str) -> tuple[ObservedBatch, list[Json]]:
    """List every pod of the platform and every node; pods are watched from `version` on."""
    now = clock.now()
    ours, _ = api.list_objects(PODS, **_OURS)
    nodes, nodes_version = api.list_objects(_NODES)
    seen: list[Observation] = [pods.read_observation(item, now) for item in ours if _is_observed(api, item)]
    seen += [_node(api, item, now, False) for item in nodes]
    return ObservedBatch(in_order(seen), f"{version}.{nodes_version}", complete=True), ours


def _bound_pods(items: Iterable[Json]) -> tuple[PodOnNode, ...]:
    """Return the pods that hold capacity: from the moment they have a node until their containers have
    ended.
    """
    return tuple(_named(item, partial(bound_pod, item)) for item in items if _holds(item))


def _named(item: Json, read: Callable[[], BoundPod]) -> PodOnNode:
    metadata = item["metadata"]
    return PodOnNode(metadata["uid"], metadata["namespace"], metadata["name"], item["spec"]["nodeName"], read)


def _same(pod: BoundPod) -> BoundPod:
    return pod


def _holds(item: Json) -> bool:
    return bool(item["spec"].get("nodeName")) and not pods.has_ended(item)


def _is_observed(api: KubernetesApi, item: Json) -> bool:
    """Return whether a change of a pod may concern a task: the pod has the platform's scheduler name, which
    cannot be changed, and does not name another installation.
    """
    ours = item["spec"].get("schedulerName") == pods.SCHEDULER
    return ours and not pods.is_of_another(item, api.installation)


def _changes(api: KubernetesApi, pods_version: str, nodes_version: str) -> ObservedBatch:
    def follow_source(source: tuple[str, Mapping[str, str | int]], version: str) -> Followed:
        return follow_changes(api, *source, version)

    with ThreadPoolExecutor(max_workers=2) as both:
        pods_seen, nodes_seen = both.map(follow_source, _SOURCES, (pods_version, nodes_version))
    if _any_removed(api, pods_seen):
        # Draining a node cordons it first: the cordon must be known together with the end of its pods, or the
        # next attempt would be placed there again.
        nodes_seen = _after(nodes_seen, follow_source(_ALL_NODES, nodes_seen.version))
    changed = [_confirmed(api, change) for change in pods_seen.found]
    seen: list[Observation] = [
        pods.read_observation(change.item, change.at, removed=change.removed)
        for change in changed
        if _is_observed(api, change.item)
    ]
    seen += [_node(api, change.item, change.at, change.removed) for change in nodes_seen.found]
    there = [change.item for change in changed if not change.removed]
    held = _bound_pods(there)
    removed = {change.item["metadata"]["uid"] for change in changed} - {pod.uid for pod in held}
    bound = BoundPods(held, frozenset(removed))
    cursor = f"{pods_seen.version}.{nodes_seen.version}"
    return ObservedBatch(in_order(seen), cursor, again_s=_again_s(api, pods_seen), bound=bound)


def _confirmed(api: KubernetesApi, change: ObjectChange) -> ObjectChange:
    """Confirm a deletion by a read, for a pod that was neither terminating nor ended: a watch also reports a
    deletion when an object is only hidden from it, such as by a changed label."""
    metadata = change.item["metadata"]
    if not change.removed or metadata.get("deletionTimestamp") or not _holds(change.item):
        return change
    found = pod_found(api, metadata["namespace"], metadata["name"])
    if found is None or found["metadata"]["uid"] != metadata["uid"]:
        return change
    return replace(change, item=found, removed=False)


def _again_s(api: KubernetesApi, seen: Followed) -> float | None:
    if seen.more:
        return _REST_S
    return _OTHERS_S if _any_removed(api, seen) else None


def _any_removed(api: KubernetesApi, seen: Followed) -> bool:
    return any(change.removed and _is_observed(api, change.item) for change in seen.found)


def _after(first: Followed, then: Followed) -> Followed:
    """Combine both; of an object that changed twice the later state."""
    latest = {change.item["metadata"]["uid"]: change for change in (*first.found, *then.found)}
    return Followed(list(latest.values()), then.version, then.more)


def follow_changes(api: KubernetesApi, path: str, query: Mapping[str, str | int], version: str) -> Followed:
    """Return the last state of each object that changed after `version`.

    Raises: TooOld; RequestRefused; BackendUnavailable.
    """
    latest: dict[str, ObjectChange] = {}
    more = False
    watching = {**query, "watch": 1, "resourceVersion": version, "timeoutSeconds": _AT_MOST_S}
    until = time.monotonic() + _LONGEST_S
    try:
        for line in api.stream_lines(path, _IDLE_S, **watching):
            kind, item = _event(line)
            version = str(item["metadata"]["resourceVersion"])
            latest[item["metadata"]["uid"]] = ObjectChange(item, kind == "DELETED", clock.now())
            if more := time.monotonic() > until:
                break
    except RequestRefused as error:
        if error.status == _EXPIRED:
            raise TooOld from error
        raise
    return Followed(list(latest.values()), version, more)


def _event(line: bytes) -> tuple[str, Json]:
    try:
        event = json.loads(line)
        kind, item = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise BackendUnavailable("the watch sent a line that is no event") from error
    if kind == "ERROR":
        if item.get("code") == _EXPIRED:
            raise TooOld
        raise BackendUnavailable(f"the watch ended: {item.get('message', '')}")
    return kind, item


def _node(api: KubernetesApi, item: Json, now: datetime, removed: bool) -> Observation:
    return NodeObservation(item["metadata"]["name"], None if removed else node_fact(item, api.cluster), now)


# Selected by scheduler name, not by a label: a label can be removed from a running pod.
_OURS: Final[dict[str, str | int]] = {"fieldSelector": f"spec.schedulerName={pods.SCHEDULER}"}
_OTHERS: Final[dict[str, str | int]] = {
    "fieldSelector": f"spec.schedulerName!={pods.SCHEDULER},spec.nodeName!=,"
    "status.phase!=Succeeded,status.phase!=Failed"
}
# Pods without a node are ignored, because each event costs the API server as much as a call.
_PODS_ON_NODES: Final[tuple[str, dict[str, str | int]]] = (PODS, {"fieldSelector": "spec.nodeName!="})
_ALL_NODES: Final[tuple[str, dict[str, str | int]]] = (_NODES, {})
_SOURCES: Final = (_PODS_ON_NODES, _ALL_NODES)
