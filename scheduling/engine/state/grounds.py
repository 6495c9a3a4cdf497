"""What is free in the domains of counted flavors: nodes sorted into trees, and what stands where.

Trees are built when they are first asked for, and then follow every allocation that comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from foundation.core.quantities import Resource
from scheduling.engine.model import Allocation, Flavor, Node
from scheduling.engine.topology import NODE_LABEL, FlavorGround, Stock, TopologyNode, Usage, build_tree
from scheduling.engine.topology.stock import COUNTLESS

PODS = "pods"
"""The resource of which every task takes one: how many tasks a node runs."""
NAME_FIELD = "metadata.name"
"""The key under which conditions see a node's own name; no label can be called so."""


class Grounds:
    """The grounds of a snapshot's counted flavors. `allocations` is the snapshot's own, live mapping."""

    def __init__(
        self, flavors: Mapping[str, Flavor], nodes: Iterable[Node], allocations: Mapping[str, Allocation]
    ) -> None:
        self._flavors = {name: flavor for name, flavor in flavors.items() if flavor.counted}
        self._nodes = nodes
        self._allocations = allocations
        self._built: dict[str, FlavorGround] | None = None

    def __bool__(self) -> bool:
        return bool(self._flavors)

    def __getitem__(self, flavor: str) -> FlavorGround:
        """The ground of a counted flavor."""
        return self._all()[flavor]

    def counts(self, flavor: str) -> bool:
        """Whether a flavor's tasks are counted by domain."""
        return flavor in self._flavors

    def put(self, allocation: Allocation, sign: int = 1) -> None:
        """Tasks came (or left, with `sign` -1)."""
        if self._built is not None and allocation.domains:
            self._book(self._built, allocation, sign)

    def fits(self, allocations: Iterable[Allocation]) -> bool:
        """Whether all of these together would find room where they say they stand."""
        standing = [held for held in allocations if held.domains and self.counts(held.flavor)]
        by_flavor = {name: list(self._felt_in(name, standing)) for name in {a.flavor for a in standing}}
        return all(self[name].stock.fits(usages) for name, usages in by_flavor.items())

    def _all(self) -> dict[str, FlavorGround]:
        if self._built is None:
            built = {name: self._ground(self._flavors[name]) for name in sorted(self._flavors)}
            for allocation in self._allocations.values():
                self._book(built, allocation, 1)
            self._built = built
        return self._built

    def _ground(self, flavor: Flavor) -> FlavorGround:
        own = [node for node in self._nodes if _usable(node, flavor)]
        nodes = [_topology_node(node) for node in own]
        stock = Stock(build_tree(flavor.topology, nodes), nodes)
        for node in own:
            stock.occupy(node.id, _used(node))
        return FlavorGround(stock, flavor.tolerations)

    def _book(self, built: Mapping[str, FlavorGround], allocation: Allocation, sign: int) -> None:
        if not allocation.domains or allocation.flavor not in built:
            return
        usages = usages_of(allocation)
        for name, ground in built.items():
            if name == allocation.flavor or self._share(name, allocation.flavor):
                if sign > 0:
                    ground.stock.hold(usages)
                else:
                    ground.stock.release(usages)

    def _felt_in(self, flavor: str, allocations: Iterable[Allocation]) -> Iterator[Usage]:
        known = self[flavor].stock.tree.leaf_index
        for held in allocations:
            if held.flavor == flavor:
                yield from usages_of(held)
            elif self._share(flavor, held.flavor):
                yield from (usage for usage in usages_of(held) if usage.domain in known)

    def _share(self, one: str, other: str) -> bool:
        """Whether two flavors see each other's tasks on the same nodes."""
        flavors = (self._flavors[one], self._flavors[other])
        if any(flavor.apart for flavor in flavors) or flavors[0].cluster != flavors[1].cluster:
            return False
        return all(flavor.topology[-1:] == (NODE_LABEL,) for flavor in flavors)


def usages_of(allocation: Allocation) -> list[Usage]:
    """What an allocation holds in each of its domains."""
    each = {item.resource: item.amount for item in allocation.each}
    return [Usage(part.domain, each, part.tasks) for part in allocation.domains]


def _usable(node: Node, flavor: Flavor) -> bool:
    if not (node.ready and node.schedulable and node.cluster == flavor.cluster):
        return False
    return all(node.labels.get(key) == value for key, value in flavor.node_labels.items())


def _topology_node(node: Node) -> TopologyNode:
    cards = sum(1 for device in node.devices if device.healthy)
    amounts = {
        Resource.CPU: node.cpu,
        Resource.MEMORY: node.memory,
        PODS: COUNTLESS if node.pods is None else node.pods,
        **({Resource.GPU_CARDS: cards} if node.devices else {}),
        **{item.resource: item.amount for item in node.extended},
    }
    labels = {**node.labels, NAME_FIELD: node.hostname}
    return TopologyNode(name=node.id, labels=labels, allocatable=amounts, taints=node.taints)


def _used(node: Node) -> dict[str, int]:
    return {
        Resource.CPU: node.used_cpu,
        Resource.MEMORY: node.used_memory,
        PODS: node.used_pods,
        Resource.GPU_CARDS: sum(1 for device in node.devices if device.healthy and device.holders),
        **{item.resource: item.amount for item in node.used_extended},
    }
