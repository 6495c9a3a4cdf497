"""From the simulated cluster's own readings to a chart, through the task that beat wakes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from clusters.backends.base import DeviceGrant, TaskRef, TaskSpec
from clusters.backends.registry import backend_for
from clusters.backends.simulated.seed import NodeGroup, build_cluster
from clusters.models import BackendKind, Cluster, ClusterHealth, Flavor, Node
from clusters.services.inventory import inventory_sync
from scheduling.models import Allocation, DeviceSlice
from telemetry import tasks
from telemetry.series import cluster_series, job_series
from tests.builders import clusters, jobs, quotas, tenancy

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def simulated() -> tuple[Cluster, Flavor]:
    cluster = Cluster.unscoped.create(
        cell=clusters.cell(), name="sim", backend=BackendKind.SIMULATED, health=ClusterHealth.HEALTHY
    )
    group = NodeGroup(prefix="node-", nodes=1, cards=2, card_model="A100-40G", card_memory_mib=40_960)
    build_cluster(cluster, node_groups=[group])
    flavor = clusters.flavor(cluster)
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return cluster, flavor


def ensure(cluster: Cluster, allocation: Allocation) -> None:
    """Create the pod of an allocation in the simulated cluster."""
    slices = DeviceSlice.unscoped.filter(allocation=allocation).select_related("device")
    spec = TaskSpec(
        ref=TaskRef(allocation.namespace, allocation.pod_name),
        node=allocation.node.name,
        cpu_millicores=1000,
        memory_mib=1024,
        devices=tuple(DeviceGrant(part.device.uuid, part.cores, part.memory_mib) for part in slices),
        image="",
        command=(),
        environment={},
        labels={},
        workspace=str(allocation.attempt.job.workspace_id),
        simulate={"run_s": 3600, "gpu_utilisation": 0.8},
    )
    assert backend_for(cluster).ensure_pod(spec).kind == "done"


@pytest.mark.django_db
def test_a_job_of_the_simulated_cluster_has_series() -> None:
    with time_machine.travel(START, tick=False) as traveller:
        cluster, flavor = simulated()
        workspace, admin = tenancy.workspace(), tenancy.platform_admin()
        job = jobs.job(quotas.queue(cluster.cell, workspace, [flavor]), admin)
        jobs.allocate(job, Node.unscoped.get(), flavor=flavor)
        ensure(cluster, Allocation.unscoped.get())
        for tick in range(60):
            traveller.move_to(START + timedelta(seconds=10 * tick))
            tasks.collect_samples()
        end = START + timedelta(minutes=10)
        traveller.move_to(end)
        found = job_series(admin, job, START, end)
        used = found.get("utilisation", "average")
        assert used is not None
        assert used.points[-1][1] is not None
        assert 50 < used.points[-1][1] <= 100
        whole = cluster_series(admin, cluster, START, end)
        allocated = whole.get("cards_allocated")
        assert allocated is not None
        assert {value for _, value in allocated.points} == {1.0}
        assert whole.gaps == ()
