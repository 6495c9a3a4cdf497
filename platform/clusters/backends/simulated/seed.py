"""Builds a simulated cluster from groups of machines."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import transaction

from clusters.backends.simulated.timeline import Timeline
from clusters.gpu.nvidia import GPU_TAINT, PRODUCT_LABEL
from clusters.models import Cluster, GpuMode, SimulatedCluster, SimulatedDevice, SimulatedNode
from foundation.core import clock

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
RACK_LABEL: Final = "allotment.io/rack"
_GPU_TAINT: Final = {"key": GPU_TAINT, "value": "present", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal machines, named `prefix` + 01, 02, … CPU in millicores, memory in MiB per node and per card.

    Nodes are distributed to `zones` and racks in blocks of `nodes_per_rack`.
    """

    prefix: str
    nodes: int
    cards: int = 0
    card_model: str = ""
    card_memory_mib: int = 0
    mode: str = GpuMode.WHOLE
    cpu_millicores: int = 128_000
    memory_mib: int = 1024 * 1024
    zones: Sequence[str] = ("zone-a", "zone-b")
    nodes_per_rack: int = 4
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()

    def node_names(self) -> list[str]:
        """The names of the nodes, with two digits at least, so that they sort by number."""
        width = max(2, len(str(self.nodes)))
        return [f"{self.prefix}{number:0{width}d}" for number in range(1, self.nodes + 1)]


DEMO: Final = (
    NodeGroup(
        prefix="gpu-a", nodes=12, cards=8, card_model="A100-40G", card_memory_mib=40_960, taints=(_GPU_TAINT,)
    ),
    NodeGroup(
        prefix="gpu-l",
        nodes=4,
        cards=4,
        card_model="L40S",
        card_memory_mib=46_068,
        mode=GpuMode.SLICE,
        cpu_millicores=64_000,
        memory_mib=512 * 1024,
        taints=(_GPU_TAINT,),
    ),
)


def large_cluster(nodes: int = 200) -> tuple[NodeGroup, ...]:
    """Return a cluster of `nodes` machines with eight A100 each, for benchmarks."""
    return (
        NodeGroup(
            prefix="node-",
            nodes=nodes,
            cards=8,
            card_model="A100-40G",
            card_memory_mib=40_960,
            nodes_per_rack=8,
        ),
    )


@transaction.atomic
def build_cluster(
    cluster: Cluster, *, node_groups: Sequence[NodeGroup] = DEMO, speed: float = 1.0
) -> SimulatedCluster:
    """Create the machines of a cluster. A second run adds missing machines and changes nothing else.

    `speed`: simulated seconds per second, for a new cluster. Raises: ValueError if it is out of range.
    """
    simulation, _ = SimulatedCluster.unscoped.select_for_update().get_or_create(
        cluster=cluster, defaults={"anchors": Timeline.start_at(clock.now(), speed).to_json()}
    )
    present = set(SimulatedNode.unscoped.filter(simulation=simulation).values_list("name", flat=True))
    nodes: list[SimulatedNode] = []
    devices: list[SimulatedDevice] = []
    sim_ms = Timeline.from_json(simulation.anchors).sim_at(clock.now())
    for group in node_groups:
        for position, name in enumerate(group.node_names()):
            if name not in present:
                simulation.last_change += 1
                node = _node(simulation, group, position, name, sim_ms)
                nodes.append(node)
                devices += _devices(node, group, cluster.name)
    SimulatedNode.unscoped.bulk_create(nodes)
    SimulatedDevice.unscoped.bulk_create(devices)
    simulation.save(update_fields=["last_change"])
    return simulation


def _node(
    simulation: SimulatedCluster, group: NodeGroup, position: int, name: str, sim_ms: int
) -> SimulatedNode:
    rack = position // group.nodes_per_rack
    labels = {
        "kubernetes.io/hostname": name,
        RACK_LABEL: f"{group.prefix.rstrip('-')}-rack-{rack + 1:02d}",
        ZONE_LABEL: group.zones[rack % len(group.zones)],
        **({PRODUCT_LABEL: group.card_model} if group.cards else {}),
        **group.labels,
    }
    return SimulatedNode(
        simulation=simulation,
        name=name,
        labels=labels,
        taints=[dict(taint) for taint in group.taints],
        cpu_millicores=group.cpu_millicores,
        memory_mib=group.memory_mib,
        change=simulation.last_change,
        changed_ms=sim_ms,
    )


def _devices(node: SimulatedNode, group: NodeGroup, cluster_name: str) -> list[SimulatedDevice]:
    return [
        SimulatedDevice(
            node=node,
            # Derived from names alone: the same cluster built elsewhere has the same cards.
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node.name}.{cluster_name}')}",
            index=index,
            model=group.card_model,
            memory_mib=group.card_memory_mib,
            mode=group.mode,
        )
        for index in range(group.cards)
    ]
