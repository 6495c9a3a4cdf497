"""Builds a quota tree from KAI's queues: `deserved` becomes nominal, `limit` the sum of nominal and borrowing
limit.

The own nominal of a parent is what it deserves beyond its children, and that of a node above all queues is
the capacity of the cluster that no queue deserves. So the usage over quota is limited by the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.conformance.kai.requests import CARD_CORES, gpus_of, mig_amounts
from scheduling.engine.model import (
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Queue,
    Quota,
    QuotaNode,
)

CLUSTER = "(cluster)"
UNLIMITED = -1
UNITS = {"gpu.cores": ("gpu", CARD_CORES), "cpu": ("cpu", 1), "memory": ("memory", 1_000_000)}
"""KAI's name of each of the engine's resources, and the amount of the engine's unit in one of KAI's."""

Amount = int | None


def build_tree(
    queues: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, int],
    free: Sequence[str],
    flavor: str,
    *,
    limited: bool,
) -> tuple[QuotaNode, ...]:
    """Return the quota nodes. `capacity` is that of the cluster, `free` are the resources without limits;
    without `limited` there are no quotas."""
    owned = _Owned(queues, limited=limited)
    nodes = [
        QuotaNode(
            id=name,
            parent=queues[name].get("parent") or CLUSTER,
            quotas=(
                *(owned.quota_of(name, resource, flavor) for resource in UNITS),
                *(Quota(flavor=flavor, resource=resource, own_nominal=None) for resource in free),
            ),
        )
        for name in sorted(queues)
    ]
    top = QuotaNode(
        id=CLUSTER,
        quotas=(
            *(owned.unowned_rest(resource, capacity.get(resource, 0), flavor) for resource in UNITS),
            *(Quota(flavor=flavor, resource=resource, own_nominal=None) for resource in free),
        ),
    )
    return (top, *nodes)


def build_queues(queues: Mapping[str, Mapping[str, Any]], flavors: tuple[str, ...]) -> tuple[Queue, ...]:
    """Return a queue for each of KAI's queues without children."""
    parents = {queue.get("parent") for queue in queues.values()}
    policy = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)
    return tuple(
        Queue(id=name, quota_node=name, flavors=flavors, preemption=policy)
        for name in sorted(queues)
        if name not in parents
    )


def capacity_of(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the capacity of all nodes; a MIG instance counts as the number of cards that KAI counts for
    it."""
    total = dict.fromkeys(UNITS, 0)
    for node in nodes.values():
        offered = node["allocatable"]
        cards = int(offered.get("gpu", 0)) + sum(
            gpus_of(profile) * count for profile, count in mig_amounts(offered).items()
        )
        total["gpu.cores"] += cards * CARD_CORES
        total["cpu"] += int(offered.get("cpu", 0))
        total["memory"] += int(offered.get("memory", 0))
    return total


class _Owned:
    """Computes the amounts that each queue deserves, its limits, and its own nominal."""

    def __init__(self, queues: Mapping[str, Mapping[str, Any]], *, limited: bool) -> None:
        self._queues = queues
        self._limited = limited
        self._children: dict[str, list[str]] = {}
        for name in sorted(queues):
            self._children.setdefault(queues[name].get("parent") or CLUSTER, []).append(name)

    def quota_of(self, name: str, resource: str, flavor: str) -> Quota:
        """Return the limits of one queue for one resource."""
        deserved, limit = self._deserved(name, resource), self._limit(name, resource)
        whole = self._whole(name, resource)
        own = None if deserved is None else max(0, deserved - self._below(name, resource))
        room = None if limit is None or whole is None else max(0, limit - whole)
        return Quota(flavor=flavor, resource=resource, own_nominal=own, borrowing_limit=room)

    def unowned_rest(self, resource: str, has: int, flavor: str) -> Quota:
        """Return the quota of the cluster's capacity that no queue deserves."""
        own = max(0, has - self._below(CLUSTER, resource)) if self._limited else None
        return Quota(flavor=flavor, resource=resource, own_nominal=own)

    def _below(self, name: str, resource: str) -> int:
        return sum(self._whole(child, resource) or 0 for child in self._children.get(name, ()))

    def _whole(self, name: str, resource: str) -> Amount:
        """Return the nominal quota of a queue including its descendants."""
        deserved = self._deserved(name, resource)
        return None if deserved is None else max(deserved, self._below(name, resource))

    def _deserved(self, name: str, resource: str) -> Amount:
        found = self._number(name, resource, "deserved")
        return self._bound(name, resource) if found is None else found

    def _bound(self, name: str, resource: str) -> Amount:
        """Return the bound of a queue with unlimited `deserved`: its own or the nearest ancestor's limit, if
        there is one.
        """
        at: str | None = name
        while at is not None and at in self._queues:
            limit = self._limit(at, resource)
            if limit is not None:
                return limit
            at = self._queues[at].get("parent")
        return None

    def _limit(self, name: str, resource: str) -> Amount:
        return self._number(name, resource, "limit")

    def _number(self, name: str, resource: str, what: str) -> Amount:
        word, unit = UNITS[resource]
        found = self._queues[name]["resources"][word].get(what, 0)
        return None if not self._limited or found == UNLIMITED else round(found * unit)
