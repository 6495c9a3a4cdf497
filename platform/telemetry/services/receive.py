"""Takes what a node agent sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from clusters.gpu.batches import AgentReport
from clusters.models import Node
from foundation.core import clock
from foundation.sql import row_scope
from telemetry.models import NodeAgent
from telemetry.store.ingest import StoredBatches, store_batches
from telemetry.store.times import span_ms, to_ms

ACCEPTED_FOR: Final = timedelta(hours=2)
"""How long an agent keeps what it could not deliver; what is older is left out."""


@dataclass(frozen=True, slots=True)
class Received:
    """What was stored, and how many batches were too old."""

    stored: StoredBatches
    expired: int


@row_scope.whole()
def report_store(*, node: Node, report: AgentReport) -> Received:
    """Store the batches of a node's agent, its inventory, and that it was heard of."""
    now = clock.now()
    oldest = to_ms(now) - span_ms(ACCEPTED_FOR)
    fresh = [batch for batch in report.batches if batch.at_ms >= oldest]
    stored = store_batches(node.cluster_id, fresh)
    intervals = [batch.interval_ms for batch in report.batches]
    told: dict[str, Any] = {"seen_at": now}
    if intervals:
        told["interval_ms"] = intervals[-1]
    if report.inventory is not None:
        told |= {
            "inventory_at": now,
            "driver": report.inventory.driver,
            "nvml": report.inventory.nvml,
            "cuda": report.inventory.cuda,
            "devices": [asdict(device) for device in report.inventory.devices],
        }
    if report.unsupported:
        told["unsupported"] = {uuid: list(names) for uuid, names in report.unsupported.items()}
    if not NodeAgent.unscoped.filter(node=node).update(**told):
        NodeAgent.unscoped.update_or_create(node=node, defaults=told)
    return Received(stored, len(report.batches) - len(fresh))
