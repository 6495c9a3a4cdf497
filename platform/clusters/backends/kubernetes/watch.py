"""What has changed since a cursor, by the API's own watch; everything there is when it cannot tell.

A cursor is the versions of the two lists, pods and nodes, up to which all is known.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from clusters.backends.base import (
    BackendUnavailable,
    Inventory,
    NodeFact,
    NodeObservation,
    Observation,
    ObservedBatch,
    in_order,
)
from clusters.backends.kubernetes import pods
from clusters.backends.kubernetes.api import Api, Json, Refused
from clusters.backends.kubernetes.nodes import node_fact
from foundation import clock

log = structlog.get_logger(__name__)

PODS: Final = "/api/v1/pods"
_NODES: Final = "/api/v1/nodes"
_CURSOR: Final = re.compile(r"(\d{1,20})\.(\d{1,20})")
_IDLE_S: Final = 0.15  # what happened before the call comes at once; then nothing comes for a while
# While pods come and go all the time nothing is idle, and others wait for the lease under which this is read.
_LONGEST_S: Final = 0.6
_REST_S: Final = 0.3  # until what was left is read
_OTHERS_S: Final = 1.0  # where a pod has gone, others that were told to may go
_AT_MOST_S: Final = 5  # for the API server, which counts whole seconds
_GONE: Final = 410


class TooOld(Exception):
    """The API has forgotten what came after this version."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One kind of object: where it is listed, which of them, and how one is read."""

    path: str
    query: dict[str, str | int]
    read: Callable[[Api, Json, datetime, bool], Observation]


@dataclass(frozen=True, slots=True)
class Change:
    """The last state of an object, and when it was seen; `gone`: it was deleted, or is no longer selected."""

    item: Json
    gone: bool
    at: datetime


class Followed(NamedTuple):
    """What changed, the version reached, and whether it was stopped there while `more` came."""

    found: list[Change]
    version: str
    more: bool


def inventory(api: Api) -> Inventory:
    """Every node, in the order of their names."""
    nodes, _ = api.listing(_NODES)
    return Inventory(tuple(sorted((node_fact(node, api.cluster) for node in nodes), key=_name)))


def _name(fact: NodeFact) -> str:
    return fact.name


def observe(api: Api, cursor: str | None) -> ObservedBatch:
    """Changes since `cursor`; all there is if it is none, unknown or too old."""
    known = _CURSOR.fullmatch(cursor or "")
    if known is not None:
        try:
            return _changes(api, known[1], known[2])
        except TooOld:
            log.info("the cluster has forgotten the cursor; listing again", cursor=cursor)
    return _everything(api)


def _everything(api: Api) -> ObservedBatch:
    now = clock.now()
    found, pods_version = api.listing(PODS, **_OURS)
    nodes, nodes_version = api.listing(_NODES)
    seen = [_pod(api, item, now, False) for item in found]
    seen += [_node(api, item, now, False) for item in nodes]
    return ObservedBatch(in_order(seen), f"{pods_version}.{nodes_version}", complete=True)


def _changes(api: Api, pods_version: str, nodes_version: str) -> ObservedBatch:
    def follow(source: _Source, version: str) -> Followed:
        return changes(api, source.path, source.query, version)

    with ThreadPoolExecutor(max_workers=2) as both:
        pods_seen, nodes_seen = both.map(follow, _SOURCES, (pods_version, nodes_version))
    if _any_gone(pods_seen):
        # Who drains a node cordons it first: what led to an end is known with it, or the next attempt would
        # be placed there again.
        nodes_seen = _after(nodes_seen, follow(_ALL_NODES, nodes_seen.version))
    seen = [
        source.read(api, change.item, change.at, change.gone)
        for source, followed in zip(_SOURCES, (pods_seen, nodes_seen), strict=True)
        for change in followed.found
    ]
    cursor = f"{pods_seen.version}.{nodes_seen.version}"
    return ObservedBatch(in_order(seen), cursor, again_s=_again_s(pods_seen))


def _again_s(seen: Followed) -> float | None:
    if seen.more:
        return _REST_S
    return _OTHERS_S if _any_gone(seen) else None


def _any_gone(seen: Followed) -> bool:
    return any(change.gone for change in seen.found)


def _after(first: Followed, then: Followed) -> Followed:
    """Both as one; of an object that changed twice the later state."""
    latest = {change.item["metadata"]["uid"]: change for change in (*first.found, *then.found)}
    return Followed(list(latest.values()), then.version, then.more)


def changes(api: Api, path: str, query: Mapping[str, str | int], version: str) -> Followed:
    """The last state of each object that changed after `version`.

    Raises: TooOld; Refused; BackendUnavailable.
    """
    latest: dict[str, Change] = {}
    more = False
    watching = {**query, "watch": 1, "resourceVersion": version, "timeoutSeconds": _AT_MOST_S}
    until = time.monotonic() + _LONGEST_S
    try:
        for line in api.lines(path, _IDLE_S, **watching):
            kind, item = _event(line)
            version = str(item["metadata"]["resourceVersion"])
            latest[item["metadata"]["uid"]] = Change(item, kind == "DELETED", clock.now())
            if more := time.monotonic() > until:
                break
    except Refused as error:
        if error.status == _GONE:
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
        if item.get("code") == _GONE:
            raise TooOld
        raise BackendUnavailable(f"the watch ended: {item.get('message', '')}")
    return kind, item


def _pod(_: Api, item: Json, now: datetime, gone: bool) -> Observation:
    return pods.observation(item, now, gone=gone)


def _node(api: Api, item: Json, now: datetime, gone: bool) -> Observation:
    return NodeObservation(item["metadata"]["name"], None if gone else node_fact(item, api.cluster), now)


_OURS: Final[dict[str, str | int]] = {"labelSelector": pods.SELECTOR}
# A pod without a node is no news, and each event costs the API server as much as a call.
_PODS_ON_NODES: Final = _Source(PODS, {**_OURS, "fieldSelector": "spec.nodeName!="}, _pod)
_ALL_NODES: Final = _Source(_NODES, {}, _node)
_SOURCES: Final = (_PODS_ON_NODES, _ALL_NODES)
