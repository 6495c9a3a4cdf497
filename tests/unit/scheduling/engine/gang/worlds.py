"""Gangs for tests: an assignment as quota would return it, and the nodes of placed tasks."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.engine import Snapshot
from scheduling.engine.builtin import resolve_config
from scheduling.engine.gang import GangPlacer, PlacementExtent, RefusalCache
from scheduling.engine.model import Allocation, Job, Node, SubGang, TopologyMode, TopologyRule
from scheduling.engine.placement.placer import placer_for
from scheduling.engine.quota.assignment import (
    Assignment,
    AssignmentMode,
    FlavorChoice,
    Refusal,
    RoleAssignment,
)
from scheduling.engine.session.config import EngineConfig
from tests.unit.scheduling.engine.builders import flavor, node, world

LEVELS = ("zone", "rack")


def assigned(job: Job, counts: Mapping[str, int] | None = None, flavor_id: str = "a100") -> Assignment:
    """Every role in one flavor, at full size unless counts say otherwise."""
    return Assignment(
        roles=tuple(
            RoleAssignment(
                role=role.name,
                count=(counts or {}).get(role.name, role.replicas - role.ended),
                choices={
                    "cpu": FlavorChoice(flavor_id, AssignmentMode.FIT),
                    "gpu.cards": FlavorChoice(flavor_id, AssignmentMode.FIT),
                },
            )
            for role in job.roles
        )
    )


def place_job_alone(
    snapshot: Snapshot,
    job: Job,
    counts: Mapping[str, int] | None = None,
    *,
    extent: PlacementExtent = PlacementExtent.FULL,
    keep: bool = False,
    full: RefusalCache | None = None,
) -> tuple[Allocation, ...] | Refusal:
    """Place a job by the default rule; with `keep` the snapshot goes on with it."""
    placer = placer_for(snapshot.fleet, resolve_config(EngineConfig()).rule)
    with snapshot.statement() as statement:
        found = GangPlacer(snapshot, placer, full).place_job(
            statement, snapshot.queues[job.queue], job, assigned(job, counts), extent
        )
        if keep:
            statement.commit()
    return found


def on_nodes(found: tuple[Allocation, ...] | Refusal) -> dict[str, str]:
    """Task (role/index) to node; fails on a refusal."""
    assert not isinstance(found, Refusal), found
    return {f"{allocation.role}/{allocation.index}": allocation.node for allocation in found}


def racked(layout: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[Node]:
    """Nodes from zone -> rack -> node -> cards."""
    return [
        node(name, cards, labels={"zone": zone, "rack": rack})
        for zone, racks in layout.items()
        for rack, nodes in racks.items()
        for name, cards in nodes.items()
    ]


def racked_world(layout: Mapping[str, Mapping[str, Mapping[str, int]]], *jobs: Job) -> Snapshot:
    """A fleet with zones and racks that the flavor knows about."""
    return world(racked(layout), jobs, flavors=[flavor(topology=LEVELS)])


def required(level: str, **facts: object) -> TopologyRule:
    """All tasks in one domain of the level."""
    return TopologyRule(level=level, mode=TopologyMode.REQUIRED, **facts)  # type: ignore[arg-type]


def preferred(level: str) -> TopologyRule:
    """All tasks in one domain of the level where that is possible."""
    return TopologyRule(level=level, mode=TopologyMode.PREFERRED)


def part(name: str, parent: str | None = None, **facts: object) -> SubGang:
    """A part of a job."""
    return SubGang(name=name, parent=parent, **facts)  # type: ignore[arg-type]
