"""The pipeline in one process: the work of worker and relay, without a broker and without waiting."""

from __future__ import annotations

from datetime import timedelta

import time_machine

from clusters.backends.registry import backend_for
from clusters.backends.simulated.seed import NodeGroup, build_cluster
from clusters.models import BackendKind, Cell, Cluster, Flavor, GpuMode
from clusters.services.inventory import inventory_sync
from foundation.core import clock
from foundation.models import Hint
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.services.cycle import cycle_run
from scheduling.services.sweep import sweep_cells, watch_starts


def simulated_cluster(
    cell: Cell, *, nodes: int = 2, cards: int = 8, mode: GpuMode = GpuMode.WHOLE, speed: float = 1.0
) -> tuple[Cluster, Flavor]:
    """A simulated cluster with machines, its flavor, and its inventory in rows."""
    cluster = Cluster.unscoped.create(cell=cell, name="sim", backend=BackendKind.SIMULATED)
    group = NodeGroup(
        prefix="node-", nodes=nodes, cards=cards, card_model="A100-40G", card_memory_mib=40_960, mode=mode
    )
    build_cluster(cluster, node_groups=[group], speed=speed)
    flavor = Flavor.unscoped.create(
        cluster=cluster, name="a100", card_model="A100-40G", card_memory_mib=40_960, gpu_mode=mode
    )
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return cluster, flavor


def step(cell: Cell, cluster: Cluster) -> None:
    """One round: sweep, cycle, execution, observation."""
    sweep_cells()
    watch_starts()
    cycle_run(cell_id=cell.pk)
    execute_cluster(cluster_id=cluster.pk)
    observe_cluster(cluster_id=cluster.pk)
    Hint.unscoped.all().delete()


def run_for(cell: Cell, cluster: Cluster, seconds: float, *, every_s: float = 3.0) -> None:
    """Let that much time pass, with a round every `every_s` seconds; no real time is spent."""
    start = clock.now()
    passed = 0.0
    while passed <= seconds:
        with time_machine.travel(start + timedelta(seconds=passed), tick=False):
            step(cell, cluster)
        passed += every_s
