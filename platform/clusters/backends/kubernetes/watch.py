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
from typing import Final

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
    found, pods_version = api.listing(PODS, **_PODS_OF_OURS.query)
    nodes, nodes_version = api.listing(_NODES)
    seen = [_pod(api, item, now, False) for item in found]
    seen += [_node(api, item, now, False) for item in nodes]
    return ObservedBatch(in_order(seen), f"{pods_version}.{nodes_version}", complete=True)


def _changes(api: Api, pods_version: str, nodes_version: str) -> ObservedBatch:
    with ThreadPoolExecutor(max_workers=2) as both:
        of_pods = both.submit(_follow, api, _PODS_OF_OURS, pods_version)
        of_nodes = both.submit(_follow, api, _ALL_NODES, nodes_version)
        (seen, pods_version), (seen_nodes, nodes_version) = of_pods.result(), of_nodes.result()
    return ObservedBatch(in_order([*seen, *seen_nodes]), f"{pods_version}.{nodes_version}")


def _follow(api: Api, source: _Source, version: str) -> tuple[list[Observation], str]:
    found, version = changes(api, source.path, source.query, version)
    return [source.read(api, change.item, change.at, change.gone) for change in found], version


def changes(api: Api, path: str, query: Mapping[str, str | int], version: str) -> tuple[list[Change], str]:
    """The last state of each object that changed after `version`, and the version reached.

    Raises: TooOld; Refused; BackendUnavailable.
    """
    latest: dict[str, Change] = {}
    watching = {**query, "watch": 1, "resourceVersion": version, "timeoutSeconds": _AT_MOST_S}
    until = time.monotonic() + _LONGEST_S
    try:
        for line in api.lines(path, _IDLE_S, **watching):
            kind, item = _event(line)
            version = str(item["metadata"]["resourceVersion"])
            latest[item["metadata"]["uid"]] = Change(item, kind == "DELETED", clock.now())
            if time.monotonic() > until:
                break  # what comes after is read from this version on
    except Refused as error:
        if error.status == _GONE:
            raise TooOld from error
        raise
    return list(latest.values()), version


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


_PODS_OF_OURS: Final = _Source(PODS, {"labelSelector": pods.SELECTOR}, _pod)
_ALL_NODES: Final = _Source(_NODES, {}, _node)
