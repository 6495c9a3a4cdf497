"""The facts of a cell that are read completely for every cycle, because there are few."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from clusters.models import Cell
from foundation.sql.prepared import PreparedQuery
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.job_history import claims_of, usage_of
from scheduling.snapshots.cell_snapshot import Contradiction, pool_names
from scheduling.snapshots.inventory import engine_flavors
from scheduling.snapshots.tree import engine_queues, engine_quota_nodes

_MARKS: Final = PreparedQuery(
    lambda cell: Cell.unscoped.filter(pk=cell).values_list(
        "inventory_version", "cycle_number", "sharing", "lost_ppm", "workload"
    )
)
Usage = Mapping[em.FlavorResource, int]


@dataclass(slots=True)
class CellFacts:
    """The facts; `cycle` is the number of the next cycle, `inventory_version` the version of nodes and
    cards."""

    inventory_version: int
    cycle: int
    sharing: str
    names: dict[str, str]
    queues: list[em.Queue]
    tree: list[em.QuotaNode]
    flavors: list[em.Flavor]
    claims: dict[str, em.Claim]
    usage: dict[tuple[str, str], em.UserUsage]
    lost_ppm: int
    workload: em.TaskWorkload

    @classmethod
    def read_cell(cls, cell_id: uuid.UUID) -> CellFacts:
        """Read the facts with a fixed number of queries."""
        ((version, cycle, sharing, lost_ppm, workload),) = _MARKS(cell_id)
        return cls(
            inventory_version=version,
            cycle=cycle,
            sharing=sharing,
            names=pool_names(cell_id),
            queues=engine_queues(cell_id),  # before the tree, so that a new queue has its quota node
            tree=engine_quota_nodes(cell_id),
            flavors=engine_flavors(cell_id),
            claims=claims_of(cell_id),
            usage={(used.queue, used.user): used for used in usage_of(cell_id)},
            lost_ppm=lost_ppm,
            workload=engine.decode(em.TaskWorkload, workload),
        )

    def is_same_shape(self, other: CellFacts) -> bool:
        """Return whether changes can turn a snapshot of `other` into one of these facts: flavors, queues,
        limits and sharing are equal, and no user's usage record is missing.
        """
        limits, others = ([replace(node, usage=()) for node in frame.tree] for frame in (self, other))
        parts, theirs = ((frame.flavors, frame.queues, frame.sharing) for frame in (self, other))
        return limits == others and parts == theirs and self.usage.keys() >= other.usage.keys()

    def list_changes(self, snapshot: engine.Snapshot) -> Iterator[engine.Change]:
        """Yield the changes of claims, usage of users, lost GPU time and workload mix for the snapshot."""
        if snapshot.lost_ppm != self.lost_ppm:
            yield engine.LossPut(self.lost_ppm)
        if snapshot.workload != self.workload:
            yield engine.WorkloadPut(self.workload)
        for job, claim in self.claims.items():
            if snapshot.claims.get(job) != claim:
                yield engine.ClaimPut(claim)
        for job in snapshot.claims:
            if job not in self.claims:
                yield engine.ClaimRemoved(job)
        for key, used in self.usage.items():
            if snapshot.usage.get(key) != used:
                yield engine.UsagePut(used)

    def check_usage(self, snapshot: engine.Snapshot) -> None:
        """Check that the snapshot's usage of each queue is equal to the ledger's.

        Raises: Contradiction.
        """
        leaves = {queue.quota_node for queue in self.queues}
        for node in self.tree:
            if node.id in leaves:
                used = snapshot.quota.usages(node.id)
                if _amounts(node.usage) != {key: amount for key, amount in used.items() if amount}:
                    raise Contradiction(f"the ledger of {node.id} is not what its tasks hold")

    def check_charges(self, held: Iterable[em.Allocation]) -> None:
        """Check that the charges of allocations add up to the ledger's usage.

        Raises: Contradiction.
        """
        leaf = {queue.id: queue.quota_node for queue in self.queues}
        sums: dict[str, dict[em.FlavorResource, int]] = {node: {} for node in leaf.values()}
        for allocation in held:
            of = sums[leaf[allocation.queue]]
            for charge in allocation.charges:
                of[charge.key] = of.get(charge.key, 0) + charge.amount
        for node in self.tree:
            if node.id in sums:
                used = {key: amount for key, amount in sums[node.id].items() if amount}
                if _amounts(node.usage) != used:
                    raise Contradiction(f"the ledger of {node.id} is not what its tasks hold")


def _amounts(charges: Iterable[em.Charge]) -> Usage:
    return {charge.key: charge.amount for charge in charges if charge.amount}
