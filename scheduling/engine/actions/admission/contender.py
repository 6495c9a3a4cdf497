"""A job among those of other queues, before it is known what it would get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource, Job, Queue
from scheduling.engine.quota.charges import asked_of

if TYPE_CHECKING:
    from scheduling.engine.session import Session, Usage

Tree = QuotaTree[FlavorResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A job of a queue. `leaf` is the queue's quota node, `usage` what the job would be charged."""

    job: Job
    leaf: str
    queue: str
    usage: Mapping[FlavorResource, int]
    borrow_level: int = 0


def reach(tree: Tree, leaf: str, usage: Mapping[FlavorResource, int]) -> int:
    """How far up the tree a leaf would have to reach for this much more; 0 inside its own quota."""
    return max((tree.borrow_level(leaf, key, amount) for key, amount in usage.items()), default=0)


def estimate(session: Session, tree: Tree, queue: Queue, job: Job) -> Contender:
    """A job as it would be if it got the first flavor of each group: its first choice."""
    usage, leaf = _first_choice(session, queue, job), queue.quota_node
    level = reach(tree, leaf, usage)
    return Contender(job=job, leaf=leaf, queue=queue.id, usage=usage, borrow_level=level)


def _first_choice(session: Session, queue: Queue, job: Job) -> Usage:
    known, key = session.first_choice, (queue.id, session.likes.asked_by(job))
    if key not in known:
        known[key] = _charged_first(session, queue, job)
    return known[key]


def _charged_first(session: Session, queue: Queue, job: Job) -> Usage:
    usage: dict[FlavorResource, int] = {}
    full = {role.name: max(0, role.replicas - role.ended) for role in job.roles}
    for group in queue.groups:
        known = (session.snapshot.flavors.get(name) for name in group.flavors)
        flavor = next((found for found in known if found is not None), None)
        if flavor is None:
            continue
        for key, amount in asked_of(job, full, flavor).items():
            if not group.resources or key.resource in group.resources:
                usage[key] = usage.get(key, 0) + amount
    return usage
