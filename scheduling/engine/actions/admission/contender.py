"""A head of a queue among those of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource, Job

Tree = QuotaTree[FlavorResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A head of a queue. `leaf` is the queue's quota node, `usage` what the job would be charged."""

    job: Job
    leaf: str
    queue: str
    usage: Mapping[FlavorResource, int]
    borrow_level: int = 0


def reach(tree: Tree, leaf: str, usage: Mapping[FlavorResource, int]) -> int:
    """How far up the tree a leaf would have to reach for this much more; 0 inside its own quota."""
    return max((tree.borrow_level(leaf, key, amount) for key, amount in usage.items()), default=0)
