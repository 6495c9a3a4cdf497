"""Versions and XID errors of nodes, as reported by agents or by labels of the nodes."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from clusters.gpu.nvidia import read_versions
from clusters.models import Device, Node
from foundation.core import clock
from telemetry.series.readings.agents import AgentVersions, count_xids, node_versions
from tenants.models import User

XIDS_WITHIN: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ReportedFacts:
    """The known facts about the GPUs of some nodes.

    `versions` are those of the nodes with an agent. XID errors are counted where the agent reported recently.
    """

    versions: Mapping[uuid.UUID, AgentVersions] = field(default_factory=dict)
    xids: Mapping[uuid.UUID, Counter[str]] = field(default_factory=dict)

    def find_versions(self, node: Node) -> tuple[str, str]:
        """Return driver and CUDA version of a node, each empty if neither its agent nor a label has it."""
        driver, cuda = read_versions(node.labels)
        reported = self.versions.get(node.pk)
        return (reported.driver or driver, reported.cuda or cuda) if reported else (driver, cuda)

    def count_on_node(self, node: Node) -> int | None:
        """Return the XID errors of the last 24 hours on a node; None where no agent reports them."""
        return self.xids.get(node.pk, Counter()).total() if self._are_counted(node.pk) else None

    def count_on_gpu(self, device: Device) -> int | None:
        """Return the XID errors of the last 24 hours of a GPU; None where no agent reports them."""
        if not self._are_counted(device.node_id):
            return None
        return self.xids.get(device.node_id, Counter())[device.gpu_uuid]

    def _are_counted(self, node_id: uuid.UUID) -> bool:
        reported = self.versions.get(node_id)
        return reported is not None and reported.seen_at > clock.now() - XIDS_WITHIN


def read_gpu_facts(who: User, node_ids: Iterable[uuid.UUID]) -> ReportedFacts:
    """Read the facts of some nodes, in two queries. Raises: PermissionDenied without `cluster.view`."""
    ids = set(node_ids)
    xids = count_xids(who, node_ids=ids, since=clock.now() - XIDS_WITHIN)
    return ReportedFacts(node_versions(who, ids), xids)
