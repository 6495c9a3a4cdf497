"""The state of every source of a cluster: fresh, stale, failing or missing, per source and per node."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from clusters.models import Device, Node
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from telemetry.models import SourceKind, SourceNode, SourceStatus, TelemetrySource
from telemetry.sources.fetch import SourceFailed, problem_text
from telemetry.sources.merge import FRESH_PERIODS
from telemetry.sources.reading import WINDOW_S, SourceResult
from telemetry.store.times import from_ms, to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission


class SourceState(StrEnum):
    """The state of a source. `partial`: not for every node with GPUs. `waiting`: it was not read yet."""

    FRESH = "fresh"
    PARTIAL = "partial"
    STALE = "stale"
    FAILING = "failing"
    WAITING = "waiting"
    DISABLED = "disabled"


class NodeState(StrEnum):
    """The state of one node in one source. `missing`: the source never measured it."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node of a source; `at` is None if the source never measured it."""

    node: str
    state: NodeState
    at: datetime | None
    devices: int
    values: int


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source with its state. `since` is when it began to fail or last answered, depending on the state.

    `measures` lists what it measured lately, as `level.measure`.
    """

    source: TelemetrySource
    status: SourceStatus | None
    state: SourceState
    since: datetime | None
    samples_per_minute: float | None
    nodes: tuple[NodeLine, ...]
    measures: tuple[str, ...]

    def count_nodes(self, state: NodeState) -> int:
        """Return how many nodes are in a state."""
        return sum(line.state == state for line in self.nodes)


@dataclass(frozen=True, slots=True)
class AgentLine:
    """A node with GPUs, and the last report of its agent; `at` is None for a node without an agent."""

    cluster: str
    node: str
    state: NodeState
    at: datetime | None
    driver: str
    cuda: str


_GRACE_S: Final = 10
_AGENT_COLUMNS: Final = (
    *("cluster__name", "name"),
    *(f"agent__{name}" for name in ("seen_at", "interval_ms", "driver", "cuda")),
)


SOURCE_COLUMNS: Final = {
    "name": Column("name"),
    "cluster": Column("cluster.name"),
    "kind": Column("kind"),
    "enabled": Column("enabled", ColumnKind.FLAG),
}
"""The columns by which a list of sources can be filtered."""


def source_list(*, viewer: Actor, cluster: str | None = None) -> QuerySet[TelemetrySource]:
    """Return the sources by cluster and name. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = TelemetrySource.unscoped.select_related("cluster", "status").order_by("cluster__name", "name")
    return rows if cluster is None else rows.filter(cluster__name=cluster)


def source_get(*, viewer: Actor, pk: uuid.UUID) -> TelemetrySource:
    """Return one source. Raises: PermissionDenied, NotFound."""
    found = source_list(viewer=viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Data source not found."))
    return found


def describe_sources(sources: Iterable[TelemetrySource]) -> list[SourceLine]:
    """Return the state of sources, in two queries for all of them. The caller has checked the viewer's
    permission.
    """
    listed, now = list(sources), clock.now()
    clusters = {source.cluster_id for source in listed}
    expected: dict[uuid.UUID, set[str]] = defaultdict(set)
    devices = Device.unscoped.filter(node__cluster__in=clusters, node__present=True)
    for cluster_id, node in devices.values_list("node__cluster_id", "node__name").distinct():
        expected[cluster_id].add(node)
    rows: dict[uuid.UUID, list[SourceNode]] = defaultdict(list)
    for row in SourceNode.unscoped.filter(source__in=listed).order_by("node"):
        rows[row.source_id].append(row)
    return [_line(source, rows[source.pk], expected[source.cluster_id], now) for source in listed]


def describe_agents(viewer: Actor, *, cluster: str | None = None) -> list[AgentLine]:
    """Return the agent of every node with GPUs, those without reports first. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    devices = Device.unscoped.filter(node=OuterRef("pk"))
    nodes = Node.unscoped.filter(Exists(devices), present=True)
    if cluster is not None:
        nodes = nodes.filter(cluster__name=cluster)
    now = clock.now()
    # As tuples: the models of all nodes take ten times as long.
    rows = nodes.order_by("cluster__name", "name").values_list(*_AGENT_COLUMNS)
    lines = [_agent_line(now, *row) for row in rows]
    return sorted(lines, key=lambda line: line.state == NodeState.FRESH)


def _agent_line(
    now: datetime,
    cluster: str,
    node: str,
    seen_at: datetime | None,
    interval_ms: int,
    driver: str | None,
    cuda: str | None,
) -> AgentLine:
    if seen_at is None:
        return AgentLine(cluster, node, NodeState.MISSING, None, "", "")
    fresh = now - seen_at <= timedelta(milliseconds=FRESH_PERIODS * interval_ms, seconds=_GRACE_S)
    state = NodeState.FRESH if fresh else NodeState.STALE
    return AgentLine(cluster, node, state, seen_at, driver or "", cuda or "")


def fresh_for(source: TelemetrySource) -> timedelta:
    """Return the greatest age of a fresh source's newest sample; Prometheus scrapes by its own clock."""
    seconds = FRESH_PERIODS * source.every_s + _GRACE_S
    return timedelta(seconds=max(seconds, WINDOW_S) if source.kind == SourceKind.PROMETHEUS else seconds)


def _line(source: TelemetrySource, rows: list[SourceNode], expected: set[str], now: datetime) -> SourceLine:
    status: SourceStatus | None = getattr(source, "status", None)
    oldest_ms = to_ms(now - fresh_for(source))
    nodes = [_node_line(row, oldest_ms) for row in rows if row.node in expected]
    reporting = {line.node for line in nodes}
    nodes += [NodeLine(node, NodeState.MISSING, None, 0, 0) for node in expected - reporting]
    state, since = _state(source, status, nodes, now)
    fresh = [row for row in rows if row.at_ms >= oldest_ms]
    per_minute = None
    if status is not None and state in (SourceState.FRESH, SourceState.PARTIAL):
        per_minute = status.samples * 60 / source.every_s
    return SourceLine(
        source,
        status,
        state,
        since,
        per_minute,
        tuple(sorted(nodes, key=lambda line: line.node)),
        tuple(sorted({name for row in fresh for names in row.said.values() for name in names})),
    )


def _node_line(row: SourceNode, oldest_ms: int) -> NodeLine:
    state = NodeState.FRESH if row.at_ms >= oldest_ms else NodeState.STALE
    return NodeLine(row.node, state, from_ms(row.at_ms), row.devices, row.values)


def _state(
    source: TelemetrySource, status: SourceStatus | None, nodes: list[NodeLine], now: datetime
) -> tuple[SourceState, datetime | None]:
    if not source.enabled:
        return SourceState.DISABLED, None
    if status is None or status.attempted_at is None:
        return SourceState.WAITING, None
    if status.failed_since is not None:
        return SourceState.FAILING, status.failed_since
    if status.answered_at is None or now - status.answered_at > fresh_for(source):
        # The source was not read: the worker is down, and the source may be well.
        return SourceState.STALE, status.answered_at
    if status.problem or any(line.state != NodeState.FRESH for line in nodes):
        return SourceState.PARTIAL, status.answered_at
    return SourceState.FRESH, status.answered_at


def describe_result(result: SourceResult) -> dict[str, Any]:
    """Return the result of a test, for the API and the console."""
    failed: SourceFailed | None = result.failed
    measures = {said for readings in result.readings.values() for said in readings.list_measures()}
    return {
        "ok": failed is None and result.values > 0,
        "problem": failed.problem.value if failed else "",
        "message": problem_text(failed.problem.value, failed.detail) if failed else "",
        "endpoints": result.endpoints,
        "endpoints_failed": result.endpoints_failed,
        "samples": result.samples,
        "refused": result.refused,
        "exporters": [origin.value for origin in result.readings],
        "measures": sorted(f"{level.value}.{name}" for level, name in measures),
    }
