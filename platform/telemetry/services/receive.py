"""Stores the reports of node agents, and those that a cluster makes in place of agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Final

from clusters.gpu.batches import AgentReport, MeasureBatch
from clusters.models import Cluster, Node
from foundation.core import clock
from foundation.sql import row_scope
from telemetry.models import NodeAgent
from telemetry.store.ingest import StoredBatches, store_batches
from telemetry.store.times import from_ms, span_ms, to_ms

ACCEPTED_FOR: Final = timedelta(hours=2)
"""How long an agent keeps undelivered measurements; older ones are left out."""
MOST_EVENTS: Final = 256
"""The most events of a report that are stored: the newest."""


@dataclass(frozen=True, slots=True)
class Received:
    """The stored measurements, and the numbers of batches and events that were left out."""

    stored: StoredBatches
    expired: int
    dropped_events: int


@row_scope.whole()
def report_store(*, node: Node, report: AgentReport) -> Received:
    """Store the batches of a node's agent, its inventory, and the time of the report."""
    now = clock.now()
    oldest = to_ms(now) - span_ms(ACCEPTED_FOR)
    fresh, dropped = _drop_events([batch for batch in report.batches if batch.at_ms >= oldest], oldest)
    stored = store_batches(node.cluster_id, fresh)
    facts: dict[str, Any] = {"seen_at": now}
    measured = {"devices_at": stored.devices_at_ms, "slices_at": stored.slices_at_ms}
    facts |= {name: min(now, from_ms(at_ms)) for name, at_ms in measured.items() if at_ms is not None}
    _note_agent(node, report, facts)
    return Received(stored, len(report.batches) - len(fresh), dropped)


@row_scope.whole()
def cluster_reports_store(*, cluster: Cluster, reports: Sequence[AgentReport]) -> None:
    """Store the reports of a cluster about its own nodes, in one transaction for the measurements of all."""
    now = clock.now()
    nodes = {node.name: node for node in Node.unscoped.filter(cluster=cluster, present=True)}
    store_batches(cluster.pk, [batch for report in reports for batch in report.batches])
    for report in reports:
        if report.node in nodes:
            _note_agent(nodes[report.node], report, {"seen_at": now})


def _note_agent(node: Node, report: AgentReport, facts: dict[str, Any]) -> None:
    intervals = [batch.interval_ms for batch in report.batches]
    if intervals:
        facts["interval_ms"] = intervals[-1]
    if report.inventory is not None:
        facts |= {
            "inventory_at": facts["seen_at"],
            "driver": report.inventory.driver,
            "nvml": report.inventory.nvml,
            "cuda": report.inventory.cuda,
            "devices": [asdict(device) for device in report.inventory.devices],
        }
    if report.unsupported:
        facts["unsupported"] = {uuid: list(names) for uuid, names in report.unsupported.items()}
    if not NodeAgent.unscoped.filter(node=node).update(**facts):
        NodeAgent.unscoped.update_or_create(node=node, defaults=facts)


def _drop_events(batches: list[MeasureBatch], oldest_ms: int) -> tuple[list[MeasureBatch], int]:
    """Return batches with the newest events since `oldest_ms`, and how many were left out."""
    facts = sum(len(batch.events) for batch in batches)
    room, trimmed = MOST_EVENTS, []
    for batch in sorted(batches, key=lambda batch: batch.at_ms, reverse=True):
        newest = sorted(batch.events, key=lambda event: event.at_ms, reverse=True)
        events = tuple(event for event in newest if event.at_ms >= oldest_ms)[:room]
        room -= len(events)
        trimmed.append(replace(batch, events=events))
    return trimmed, facts - (MOST_EVENTS - room)
