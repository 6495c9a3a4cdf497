"""The configurations in which a trace is replayed: one partition for each tenant, or one pool for all.

A policy of `replay` is such a configuration: flavors, quota, queues and their order. With `quota` all tenants
share one pool, and the nominal quota of each is the size of its partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foundation.core.quantities import Resource
from scheduling.engine import (
    BackfillOptions,
    ConsolidationOptions,
    EngineConfig,
    ExplainScope,
    FairSharing,
    Snapshot,
)
from scheduling.engine.model import (
    Device,
    Flavor,
    GpuRequest,
    Instant,
    Job,
    Node,
    PreemptionPolicy,
    PreemptOthers,
    Queue,
    Quota,
    QuotaNode,
    Request,
    Role,
    Strategy,
)
from scheduling.simulation.errors import UsageError
from scheduling.simulation.philly import TraceJob, TraceTenant

ROOT = "root"
SHARED = "shared"
LABEL = "partition"


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """The way in which a policy of `replay` divides nodes and orders jobs."""

    partitioned: bool
    ordering: str
    strategy: Strategy
    guaranteed: bool = False

    @property
    def by_tenant(self) -> bool:
        """True if each tenant has its own queue."""
        return self.partitioned or self.guaranteed


POLICIES = {
    "static-fifo": PoolPolicy(True, "fifo", Strategy.STRICT_FIFO),
    "static-sjf": PoolPolicy(True, "shortest", Strategy.STRICT_FIFO),
    "shared-fifo": PoolPolicy(False, "fifo", Strategy.STRICT_FIFO),
    "shared-fifo-skip": PoolPolicy(False, "fifo", Strategy.BEST_EFFORT_FIFO),
    "shared-sjf": PoolPolicy(False, "shortest", Strategy.STRICT_FIFO),
    "quota": PoolPolicy(False, "fifo", Strategy.BEST_EFFORT_FIFO, guaranteed=True),
}
SHARING = EngineConfig(heads_per_queue=None, explain=ExplainScope.CONSIDERED)
GUARANTEEING = EngineConfig(
    actions=("admit", "consolidate"),
    heads_per_queue=None,
    explain=ExplainScope.CONSIDERED,
    fair_sharing=FairSharing(),
    # A moved job starts again here, so none is moved for a borrower. For a job within its nominal quota the
    # search is not limited in time, because the duration of a cycle doesn't matter in virtual time.
    consolidation=ConsolidationOptions(max_loss_s=0, max_node_sets=32, placement_budget=None),
    backfill=BackfillOptions(reservation_after_s=None),
)


def pool_policy(name: str) -> PoolPolicy:
    """Return the policy of that name.

    Raises:
        UsageError: for an unknown name; the message lists the policies.
    """
    policy = POLICIES.get(name)
    if policy is not None:
        return policy
    raise UsageError(f"policy {name!r} not found; choose from {', '.join(POLICIES)}")


def build_config(policy: PoolPolicy) -> EngineConfig:
    """Build the engine configuration of a policy."""
    return GUARANTEEING if policy.guaranteed else SHARING


def build_world(tenants: Sequence[TraceTenant], policy: PoolPolicy) -> Snapshot:
    """Return an empty cluster of all tenants' nodes, divided by the policy."""
    pools = [tenant.name for tenant in tenants] if policy.partitioned else [SHARED]
    nodes = _nodes(tenants, policy)
    cards = dict.fromkeys(pools, 0)
    for node in nodes:
        cards[node.labels[LABEL]] += len(node.devices)
    shares = {tenant.name: tenant.gpus for tenant in tenants} if policy.by_tenant else cards
    reclaim = PreemptOthers.ANY if policy.guaranteed else PreemptOthers.NEVER
    return Snapshot(
        nodes=nodes,
        flavors=[Flavor(id=pool, node_labels={LABEL: pool}) for pool in pools],
        quota_nodes=[
            QuotaNode(id=ROOT),
            *(
                QuotaNode(id=name, parent=ROOT, quotas=_quotas(_pool(name, policy), nominal))
                for name, nominal in shares.items()
            ),
        ],
        queues=[
            Queue(
                id=name,
                quota_node=name,
                flavors=(_pool(name, policy),),
                strategy=policy.strategy,
                ordering=policy.ordering,
                preemption=PreemptionPolicy(reclaim=reclaim),
            )
            for name in shares
        ],
    )


def _pool(queue: str, policy: PoolPolicy) -> str:
    return queue if policy.partitioned else SHARED


def engine_job(job: TraceJob, policy: PoolPolicy, cards_per_node: int) -> Job:
    """Return the engine's job: one task if it fits on a node, otherwise tasks of whole nodes.

    Only an order by length may use the duration; for that it is the job's run-time limit.
    """
    tasks, cards = 1, job.gpus
    if job.gpus > cards_per_node:
        tasks, cards = -(-job.gpus // cards_per_node), cards_per_node
    return Job(
        id=f"{job.row:08d}",
        queue=job.tenant if policy.by_tenant else SHARED,
        user=job.tenant,
        submitted_at=Instant(job.submit_s),
        roles=(Role(name="worker", replicas=tasks, request=Request(gpu=GpuRequest(cards=cards))),),
        max_run_s=job.duration_s if policy.ordering == "shortest" else None,
    )


def _nodes(tenants: Sequence[TraceTenant], policy: PoolPolicy) -> list[Node]:
    nodes: list[Node] = []
    for tenant in tenants:
        for _ in range(tenant.nodes):
            name = f"node-{len(nodes):04d}"
            devices = tuple(
                Device(uuid=f"{name}/{index}", index=index, model="")
                for index in range(tenant.cards_per_node)
            )
            partition = tenant.name if policy.partitioned else SHARED
            nodes.append(Node(id=name, rank=len(nodes), labels={LABEL: partition}, devices=devices))
    return nodes


def _quotas(flavor: str, cards: int) -> tuple[Quota, ...]:
    unlimited = (Resource.GPU_CORES, Resource.GPU_MEMORY)
    return (
        Quota(flavor=flavor, resource=Resource.GPU_CARDS, own_nominal=cards),
        *(Quota(flavor=flavor, resource=resource, own_nominal=None) for resource in unlimited),
    )
