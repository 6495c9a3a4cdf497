"""Builds a quota tree with the fair share of each queue as its own nominal, by KAI-Scheduler's division.

KAI reclaims for a queue up to its fair share, which is what it deserves and its part of the rest that no
queue deserves. The engine reclaims up to nominal quota; so for reclaiming, the fair share is the nominal
quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduling.conformance.kai.division import UNLIMITED, Claimant, divide_shares
from scheduling.conformance.kai.queues import CLUSTER, UNITS
from scheduling.conformance.kai.world import Status, World
from scheduling.engine.model import Quota, QuotaNode

K_VALUE = 1.0
OVER = (Status.FAILED, Status.SUCCEEDED, Status.RELEASING)

Queues = Mapping[str, Mapping[str, Any]]


def with_fair_shares(world: World) -> tuple[QuotaNode, ...]:
    """Return the world's quota nodes with fair shares as nominal quota.

    The own nominal of a queue is the larger of what it deserves and its share; that of a parent is 0.
    """
    if not world.limited:
        return world.quota_nodes
    shares = {resource: fair_shares(world, resource) for resource in UNITS}
    parents = {node.parent for node in world.quota_nodes}
    nodes = []
    for node in world.quota_nodes:
        if node.id != CLUSTER:
            quotas = (_quota(world, node, quota, shares, inner=node.id in parents) for quota in node.quotas)
            node = replace(node, quotas=tuple(quotas))
        nodes.append(node)
    return tuple(nodes)


def _quota(
    world: World, node: QuotaNode, quota: Quota, shares: Mapping[str, Mapping[str, float]], *, inner: bool
) -> Quota:
    if quota.resource not in UNITS:
        return quota
    word, unit = UNITS[quota.resource]
    limits = world.facts[node.id]["resources"][word]
    share = max(float(limits.get("deserved", 0)), shares[quota.resource][node.id])
    room = None if limits["limit"] == UNLIMITED else max(0.0, limits["limit"] - share)
    return replace(
        quota,
        own_nominal=0 if inner else round(share * unit),
        borrowing_limit=None if room is None else round(room * unit),
    )


def fair_shares(world: World, resource: str) -> dict[str, float]:
    """Return the fair share of each queue, in KAI's units, computed from the cluster down."""
    word, unit = UNITS[resource]
    asked = _asked(world, resource, unit)
    found: dict[str, float] = {}
    _below(world.facts, None, world.capacity[resource] / unit, asked, word, found)
    return found


def _below(
    queues: Queues,
    parent: str | None,
    total: float,
    asked: Mapping[str, float],
    word: str,
    found: dict[str, float],
) -> None:
    children = [name for name in sorted(queues) if queues[name].get("parent") == parent]
    if not children:
        return
    claimants = [_claimant(name, queues[name], asked.get(name, 0.0), word) for name in children]
    shares, _ = divide_shares(total, claimants, K_VALUE)
    found.update(shares)
    for name in children:
        _below(queues, name, shares[name], asked, word, found)


def _claimant(name: str, queue: Mapping[str, Any], asked: float, word: str) -> Claimant:
    limits = queue["resources"][word]
    return Claimant(
        id=name,
        deserved=float(limits.get("deserved", 0)),
        limit=float(limits.get("limit", 0)),
        weight=float(limits.get("overQuotaWeight", 0)),
        request=asked,
        priority=int(queue.get("priority", 0)),
        created=int(queue.get("createdOffsetSeconds", 0)),
    )


def _asked(world: World, resource: str, unit: int) -> dict[str, float]:
    """Return the requests of the tasks of each queue and its descendants, in KAI's units."""
    total: dict[str, float] = {}
    for gang in world.gangs.values():
        amount = sum(task.demand.get(resource, 0) for task in gang.tasks if task.status not in OVER)
        at: str | None = gang.job.queue
        while at is not None and at in world.facts:
            total[at] = total.get(at, 0.0) + amount / unit
            at = world.facts[at].get("parent")
    return total
