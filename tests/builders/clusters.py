"""Cells, clusters, flavors, and nodes with their cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.models import BackendKind, Cell, Cluster, ClusterHealth, Device, Flavor, GpuMode, Node


def cell(name: str = "default") -> Cell:
    return Cell.unscoped.create(name=name)


def cluster(in_cell: Cell, name: str = "sim", backend: BackendKind = BackendKind.SIMULATED) -> Cluster:
    return Cluster.unscoped.create(cell=in_cell, name=name, backend=backend, health=ClusterHealth.HEALTHY)


def flavor(
    of: Cluster,
    name: str = "a100",
    *,
    card_model: str = "A100-40G",
    card_memory_mib: int = 40960,
    mode: GpuMode = GpuMode.WHOLE,
    node_selector: Mapping[str, str] | None = None,
    **fields: Any,
) -> Flavor:
    selector = {"pool": name} if node_selector is None else dict(node_selector)
    return Flavor.unscoped.create(
        cluster=of,
        name=name,
        card_model=card_model,
        card_memory_mib=card_memory_mib,
        gpu_mode=mode,
        node_selector=selector,
        **fields,
    )


def node(
    pool: Flavor,
    name: str = "node-1",
    *,
    cards: int = 8,
    cpu: int = 128_000,
    memory: int = 1_048_576,
    **fields: Any,
) -> Node:
    """A node of the flavor with that many cards; CPU in millicores, memory in MiB."""
    fields.setdefault("labels", dict(pool.node_selector))
    made = Node.unscoped.create(
        cluster=pool.cluster, flavor=pool, name=name, cpu_millicores=cpu, memory_mib=memory, **fields
    )
    Device.unscoped.bulk_create(
        Device(
            node=made,
            uuid=f"GPU-{pool.cluster.name}-{name}-{index}",
            index=index,
            model=pool.card_model,
            memory_mib=pool.card_memory_mib,
            memory_capacity=pool.card_memory_mib,
            mode=pool.gpu_mode,
        )
        for index in range(cards)
    )
    return made


def nodes(pool: Flavor, count: int, *, cards: int = 8, prefix: str = "node") -> list[Node]:
    return [node(pool, f"{prefix}-{number}", cards=cards) for number in range(1, count + 1)]
