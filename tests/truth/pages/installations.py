"""Random installations: tenants, pools, quotas and jobs that real cycles have placed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

import time_machine

from clusters.backends.registry import backend_for
from clusters.backends.simulated.seed import NodeGroup, build_cluster
from clusters.models import BackendKind, Cell, Cluster, Flavor, GpuMode
from clusters.services.inventory import inventory_sync
from foundation.core import clock
from foundation.core.quantities import Resource
from quotas.models import Queue, QuotaNode
from scheduling.models import GpuRequestMode
from tenants.models import Role, Tenant, TenantKind, User
from tests.builders import clusters, jobs, pipeline, quotas, tenancy

_MODELS = (("A100-40G", 40_960, GpuMode.WHOLE), ("L40S", 46_068, GpuMode.SLICE))
_ROUNDS_S = (0, 3, 6, 40, 90)
"""Times of the cycles; jobs that run for 20 s have ended by the last one."""


@dataclass
class Installation:
    """One installation after its last cycle; `root` is the folder above all tenants."""

    cell: Cell
    cluster: Cluster
    pools: list[Flavor]
    root: Tenant
    folders: list[Tenant] = field(default_factory=list)
    people: dict[Tenant, list[User]] = field(default_factory=dict)
    queues: list[Queue] = field(default_factory=list)
    operator: User = field(init=False)

    @property
    def workspaces(self) -> list[Tenant]:
        """The workspaces, in the order in which they were made."""
        return list(self.people)

    @property
    def tenants(self) -> list[Tenant]:
        """All folders and workspaces."""
        return [self.root, *self.folders, *self.workspaces]


def build_installation(seed: int) -> Installation:
    """Draw an installation; the same one for the same seed."""
    draw = random.Random(seed)
    cell = clusters.cell()
    cluster, pools = _build_pools(draw, cell)
    made = Installation(cell, cluster, pools, tenancy.root())
    made.operator = tenancy.platform_admin()
    made.folders = [tenancy.folder("research")]
    if draw.random() < 0.5:
        made.folders.append(tenancy.folder("vision", draw.choice((made.root, made.folders[0]))))
    for number in range(draw.randint(2, 4)):
        workspace = tenancy.workspace(f"team-{number}", draw.choice((made.root, *made.folders)))
        users = [tenancy.user(f"u{number}-{at}", workspace, Role.EDITOR) for at in range(draw.randint(1, 2))]
        made.people[workspace] = users
        for at in range(draw.randint(1, 2)):
            made.queues.append(quotas.queue(cell, workspace, pools, name=f"q{at}"))
    for tenant in made.tenants:
        quotas.quota_node(cell, tenant)
    for node in QuotaNode.unscoped.filter(cell=cell):
        for pool in pools:
            _draw_quota(draw, node, pool)
    _run(draw, made)
    return made


def _build_pools(draw: random.Random, cell: Cell) -> tuple[Cluster, list[Flavor]]:
    models = _MODELS[: draw.randint(1, 2)]
    cluster = Cluster.unscoped.create(cell=cell, name="sim", backend=BackendKind.SIMULATED)
    groups = [
        NodeGroup(
            prefix=f"{model.lower()}-",
            nodes=draw.randint(1, 3),
            cards=draw.choice((1, 4, 8)),
            card_model=model,
            card_memory_mib=memory,
            mode=mode,
        )
        for model, memory, mode in models
    ]
    build_cluster(cluster, node_groups=groups)
    pools = [
        clusters.flavor(
            cluster,
            model.lower(),
            card_model=model,
            card_memory_mib=memory,
            mode=mode,
            node_selector={"nvidia.com/gpu.product": model},
        )
        for model, memory, mode in models
    ]
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return cluster, pools


def _draw_quota(draw: random.Random, node: QuotaNode, pool: Flavor) -> None:
    """Queues have most of the quota; tenants share a little, and some node may have no limit at all."""
    chance = draw.random()
    if not node.is_queue and chance < 0.5:
        return
    cards = None if chance > 0.97 else draw.randint(0, 6 if node.is_queue else 2)
    limits = {
        name: draw.randint(0, 300) if draw.random() < 0.15 else None
        for name in ("borrowing_limit", "lending_limit")
    }
    for resource, amount in {
        **quotas.AMPLE,
        Resource.GPU_CARDS: None,
        Resource.GPU_CORES: None if cards is None else 100 * cards,
        Resource.GPU_MEMORY: None,
    }.items():
        only = limits if resource == Resource.GPU_CORES else {}
        quotas.quota(node, pool, resource, amount, **only)


def _run(draw: random.Random, made: Installation) -> None:
    """Submit jobs between cycles. Some end, some run on, and some never start."""
    start = clock.now()
    for passed in _ROUNDS_S:
        with time_machine.travel(start + timedelta(seconds=passed), tick=False):
            if passed < 90:
                for _ in range(draw.randint(1, 5)):
                    _submit(draw, made)
            pipeline.step(made.cell, made.cluster)


def _submit(draw: random.Random, made: Installation) -> None:
    queue = draw.choice(made.queues)
    sliced = len(made.pools) > 1 and draw.random() < 0.4
    role = jobs.RoleOf(
        replicas=draw.randint(1, 3),
        cards=1 if sliced else draw.randint(1, 3),
        mode=GpuRequestMode.SLICE if sliced else GpuRequestMode.WHOLE,
        cores=draw.choice((10, 25, 50)) if sliced else 100,
        gpu_memory=draw.choice((4_096, 11_517)) if sliced else None,
    )
    run_s = draw.choice((20, 5_000))
    jobs.job(queue, draw.choice(made.people[queue.workspace]), roles=(role,), simulate={"run_s": run_s})


def is_below(tenant: Tenant, above: Tenant) -> bool:
    """True for a tenant and everything below it."""
    return tenant.path.startswith(above.path)


def has_kind(tenant: Tenant, kind: TenantKind) -> bool:
    """True where a tenant is a folder, or a workspace."""
    return tenant.kind == kind
