"""A cell as plain data: the input of an engine cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from scheduling.engine.model import (
    Allocation,
    Charge,
    Flavor,
    Job,
    JobState,
    Node,
    PlacementRules,
    Queue,
    QuotaNode,
    Role,
)

CARDS, CORES, CARD_MEMORY, CPU, MEMORY = "gpu.cards", "gpu.cores", "gpu.memory", "cpu", "memory"
CARD_UNITS = {CARDS: 1, CORES: 100}

Key = tuple[str, str]
"""A flavor and a resource."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The numbers of the platform's configuration that decide what a job may have."""

    eviction_cap: int | None = 3
    spare_permille: int = 16
    loss_budget_permille: int = 10
    headroom_permille: int = 100
    grace_s: int = 60
    hold_after_s: int = 3_600


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All that one cycle saw, and the instant at which it ran (epoch seconds)."""

    nodes: tuple[Node, ...]
    flavors: Mapping[str, Flavor]
    quota_nodes: Mapping[str, QuotaNode]
    queues: Mapping[str, Queue]
    jobs: Mapping[str, Job]
    held: tuple[Allocation, ...]
    now: float
    lost_ppm: int = 0
    rules: Rules = Rules()

    @cached_property
    def headroom(self) -> int:
        """Return what every borrower must keep unused of the whole tree, in thousandths: more than 0 beyond
        half of the loss budget of preemption, and all of `headroom_permille` at the full budget."""
        half = Fraction(self.rules.loss_budget_permille * 1_000, 2)
        share = (self.lost_ppm - half) / half
        return int(min(1, max(0, share)) * self.rules.headroom_permille)

    @cached_property
    def used(self) -> Mapping[str, Counter[Key]]:
        """Return the charges of the tasks of each leaf's queues."""
        found: dict[str, Counter[Key]] = {}
        for node in self.quota_nodes.values():
            found[node.id] = Counter({(c.flavor, c.resource): c.amount for c in node.usage})
        return found

    @cached_property
    def holds(self) -> Mapping[str, Counter[Key]]:
        """Return the charges of each job's tasks."""
        found: dict[str, Counter[Key]] = {}
        for task in self.held:
            mine = found.setdefault(task.job, Counter())
            for charge in task.charges:
                mine[charge.flavor, charge.resource] += charge.amount
        return found

    def without(self, name: str) -> Cell:
        """Return the cell once a job has released its quota."""
        gone = self.holds[name]
        leaf = self.queues[self.jobs[name].queue].quota_node
        left = tuple(
            Charge(c.flavor, c.resource, c.amount - gone[c.flavor, c.resource])
            for c in self.quota_nodes[leaf].usage
        )
        nodes = {**self.quota_nodes, leaf: replace(self.quota_nodes[leaf], usage=left)}
        return replace(self, quota_nodes=nodes, held=tuple(t for t in self.held if t.job != name))

    def waiting(self) -> Iterable[Job]:
        """Return the pending jobs, by id."""
        states = (JobState.QUEUED, JobState.SUSPENDED)
        return (self.jobs[name] for name in sorted(self.jobs) if self.jobs[name].state in states)


def rules_of(job: Job, role: Role) -> PlacementRules:
    """Return the placement rules of a role's tasks."""
    return job.rules if role.rules is None else role.rules


def least(role: Role) -> int:
    """Return the fewest tasks of a role that are useful and have not ended."""
    asked = role.replicas if role.min_replicas is None else role.min_replicas
    return max(0, asked - role.ended)


class Undecided(Exception):
    """A question that exhaustive search cannot answer in reasonable time."""
