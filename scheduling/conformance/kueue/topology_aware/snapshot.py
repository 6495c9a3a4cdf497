"""The free capacity in the domains of topology-aware flavors: trees of nodes, and the usage of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from foundation.core.quantities import Resource
from scheduling.conformance.kueue.topology_aware.across import FlavorTopology
from scheduling.conformance.kueue.topology_aware.model import DomainAllocation
from scheduling.conformance.kueue.topology_aware.result import Usage
from scheduling.conformance.kueue.topology_aware.stock import COUNTLESS, Stock
from scheduling.conformance.kueue.topology_aware.tree import NODE_LABEL, TopologyNode, build_tree
from scheduling.engine import Snapshot
from scheduling.engine.model import Allocation, Flavor, Node

PODS = "pods"
"""The resource of which every task takes one; it limits the number of tasks on a node."""
NAME_FIELD = "metadata.name"
"""The key of a node's own name in expressions; no label can have it."""


class TopologySnapshot:
    """The topologies of a snapshot's topology-aware flavors with the free capacity of their domains at one
    moment."""

    def __init__(self, snapshot: Snapshot, *, apart: bool = False) -> None:
        self._flavors = {name: flavor for name, flavor in snapshot.flavors.items() if flavor.topology_aware}
        self._nodes = snapshot.fleet.nodes
        self._allocations = snapshot.allocations
        self._apart = apart
        self._built: dict[str, FlavorTopology] | None = None

    def __bool__(self) -> bool:
        return bool(self._flavors)

    def __getitem__(self, flavor: str) -> FlavorTopology:
        """Return the topology of a topology-aware flavor."""
        return self._all()[flavor]

    def has_flavor(self, flavor: str) -> bool:
        """Return whether a flavor is topology-aware."""
        return flavor in self._flavors

    def fits_all(self, allocations: Iterable[Allocation]) -> bool:
        """Return whether all these allocations together fit in their domains."""
        placed = [
            held
            for held in allocations
            if isinstance(held, DomainAllocation) and held.domains and self.has_flavor(held.flavor)
        ]
        by_flavor = {name: list(self._felt_in(name, placed)) for name in {held.flavor for held in placed}}
        return all(self[name].stock.fits_all(usages) for name, usages in by_flavor.items())

    def _all(self) -> dict[str, FlavorTopology]:
        if self._built is None:
            built = {name: self._topology(self._flavors[name]) for name in sorted(self._flavors)}
            for allocation in self._allocations.values():
                if isinstance(allocation, DomainAllocation) and allocation.flavor in built:
                    self._add_usage(built, allocation)
            self._built = built
        return self._built

    def _topology(self, flavor: Flavor) -> FlavorTopology:
        own = [node for node in self._nodes if _usable(node, flavor)]
        nodes = [_topology_node(node) for node in own]
        stock = Stock(build_tree(flavor.topology, nodes), nodes)
        for node in own:
            stock.occupy_node(node.id, _used(node))
        return FlavorTopology(stock, flavor.tolerations)

    def _add_usage(self, built: Mapping[str, FlavorTopology], allocation: DomainAllocation) -> None:
        usages = usages_of(allocation)
        for name, topology in built.items():
            if name == allocation.flavor or self._share(name, allocation.flavor):
                topology.stock.hold_usages(usages)

    def _felt_in(self, flavor: str, allocations: Iterable[DomainAllocation]) -> Iterator[Usage]:
        known = self[flavor].stock.tree.leaf_index
        for held in allocations:
            if held.flavor == flavor:
                yield from usages_of(held)
            elif self._share(flavor, held.flavor):
                yield from (usage for usage in usages_of(held) if usage.domain in known)

    def _share(self, one: str, other: str) -> bool:
        """Return whether two flavors count each other's tasks on the same nodes."""
        flavors = (self._flavors[one], self._flavors[other])
        if self._apart or flavors[0].cluster != flavors[1].cluster:
            return False
        return all(flavor.topology[-1:] == (NODE_LABEL,) for flavor in flavors)


def usages_of(allocation: DomainAllocation) -> list[Usage]:
    """Return the usage of an allocation in each of its domains."""
    each = {item.resource: item.amount for item in allocation.each}
    return [Usage(part.domain, each, part.tasks) for part in allocation.domains]


def _usable(node: Node, flavor: Flavor) -> bool:
    if not (node.ready and node.schedulable and node.cluster == flavor.cluster):
        return False
    return all(node.labels.get(key) == value for key, value in flavor.node_labels.items())


def _topology_node(node: Node) -> TopologyNode:
    amounts = {
        Resource.CPU: node.cpu,
        Resource.MEMORY: node.memory,
        PODS: COUNTLESS if node.pods is None else node.pods,
        **{item.resource: item.amount for item in node.extended},
    }
    labels = {**node.labels, NAME_FIELD: node.hostname}
    return TopologyNode(name=node.id, labels=labels, allocatable=amounts, taints=node.taints)


def _used(node: Node) -> dict[str, int]:
    return {
        Resource.CPU: node.used_cpu,
        Resource.MEMORY: node.used_memory,
        PODS: node.used_pods,
        **{item.resource: item.amount for item in node.used_extended},
    }
