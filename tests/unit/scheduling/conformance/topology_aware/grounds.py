"""Small topologies for tests: nodes are written as block/rack/name with their cpu in cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.conformance.kueue.topology_aware import (
    NODE_LABEL,
    DomainGangPlacer,
    Failure,
    Placement,
    RoleRequest,
    Stock,
    TopologyNode,
    TopologyOptions,
    Usage,
    build_tree,
)
from scheduling.engine.model import Taint

LEVELS = ("block", "rack", NODE_LABEL)
ONE_CORE = {"cpu": 1}


def node(place: str, cpu: int, taints: tuple[Taint, ...] = (), **amounts: int) -> TopologyNode:
    """A node at block/rack/name."""
    labels = dict(zip(LEVELS, place.split("/"), strict=True))
    return TopologyNode(
        name=labels[NODE_LABEL], labels=labels, allocatable={"cpu": cpu, **amounts}, taints=taints
    )


def ground(cores: Mapping[str, int], levels: tuple[str, ...] = LEVELS) -> Stock:
    """Free capacity of nodes given as {"b1/r1/x1": cores}."""
    nodes = [node(place, cpu) for place, cpu in cores.items()]
    return Stock(build_tree(levels, nodes), nodes)


def placed(
    stock: Stock,
    *requests: RoleRequest,
    options: TopologyOptions | None = None,
    assumed: Iterable[Usage] = (),
) -> dict[str, dict[str, int] | Failure]:
    """Tasks per leaf of each role, or its failure."""
    outcomes = DomainGangPlacer(stock, options or TopologyOptions(), assumed=assumed).place_roles(requests)
    return {
        name: spots(outcome) if isinstance(outcome, Placement) else outcome
        for name, outcome in outcomes.items()
    }


def spots(placement: Placement) -> dict[str, int]:
    """Tasks per leaf."""
    return {"/".join(share.domain): share.tasks for share in placement.shares}
