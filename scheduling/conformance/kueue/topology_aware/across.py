"""Places a job whose roles have different flavors, which may share nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.conformance.kueue.topology_aware.eligibility import Known
from scheduling.conformance.kueue.topology_aware.place import DomainGangPlacer
from scheduling.conformance.kueue.topology_aware.request import RoleRequest, TopologyOptions
from scheduling.conformance.kueue.topology_aware.result import (
    Failure,
    Placement,
    RoleOutcome,
    Usage,
    usage_of,
)
from scheduling.conformance.kueue.topology_aware.stock import Stock
from scheduling.engine.model import Toleration


@dataclass(frozen=True, slots=True, eq=False)
class FlavorTopology:
    """The nodes of one flavor: free capacity, tolerations of the flavor, and eligible leaves.

    `known` caches eligible leaves; it is valid as long as the nodes do not change.
    """

    stock: Stock
    tolerations: tuple[Toleration, ...] = ()
    known: Known = field(default_factory=dict)


def place_across(
    topologies: Mapping[str, FlavorTopology],
    requests: Mapping[str, Sequence[RoleRequest]],
    options: TopologyOptions,
    *,
    if_empty: bool = False,
) -> dict[str, RoleOutcome]:
    """Place each role, flavor by flavor in the order of their names, up to the first failure.

    Flavors whose leaves are nodes count the usage of the job's other roles on the same nodes; a leaf that is
    a group of nodes belongs to one flavor only.
    """
    outcomes: dict[str, RoleOutcome] = {}
    taken: list[Usage] = []
    for flavor in sorted(requests):
        topology = topologies[flavor]
        shared = topology.stock.tree.leaves_are_nodes
        placer = DomainGangPlacer(
            topology.stock,
            options,
            tolerations=topology.tolerations,
            assumed=taken if shared else (),
            if_empty=if_empty,
            known=topology.known,
        )
        found = placer.place_roles(requests[flavor])
        outcomes.update(found)
        if any(isinstance(outcome, Failure) for outcome in found.values()):
            break
        if shared:
            for request in requests[flavor]:
                placed = found[request.name]
                if isinstance(placed, Placement):
                    taken.extend(usage_of(placed, request.per_task))
    return outcomes
