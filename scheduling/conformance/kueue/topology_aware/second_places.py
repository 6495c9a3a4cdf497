"""Finds domains for roles with quota in topology-aware flavors that have none, or whose node has failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduling.conformance.kueue.topology_aware.across import FlavorTopology
from scheduling.conformance.kueue.topology_aware.model import DomainAllocation, DomainTasks, TopologyState
from scheduling.conformance.kueue.topology_aware.place import DomainGangPlacer
from scheduling.conformance.kueue.topology_aware.places import (
    DomainPlacer,
    TopologyAssignment,
    build_refusal,
    domains_of,
    placement_of,
    role_request,
)
from scheduling.conformance.kueue.topology_aware.replace import replace_leaf
from scheduling.conformance.kueue.topology_aware.request import RoleRequest, TopologyOptions
from scheduling.conformance.kueue.topology_aware.result import Failure, Placement, Share, Usage, usage_of
from scheduling.conformance.kueue.topology_aware.snapshot import TopologySnapshot
from scheduling.conformance.kueue.topology_aware.stock import COUNTLESS
from scheduling.engine import Refusal, Snapshot, compute_demand
from scheduling.engine.model import Allocation, Job, Role

Moves = dict[str, DomainAllocation]
"""The new allocations by id of the old one."""


def lacks_places(snapshot: Snapshot, job: Job, state: TopologyState) -> bool:
    """Return whether a job has tasks that are to be placed now."""
    return bool(_lacking(snapshot, job, state))


def find_first_places(
    snapshot: Snapshot, job: Job, state: TopologyState, *, if_empty: bool = False
) -> Moves | Refusal:
    """Return domains for the roles that hold quota without domains, or why one of them gets none."""
    found: dict[str, TopologyAssignment] = {}
    asked: dict[str, list[RoleRequest]] = {}
    without_places = _lacking(snapshot, job, state)
    for role in job.roles:
        held = without_places.get(role.name)
        if held is not None:
            found[role.name] = TopologyAssignment(held.flavor, each=held.each)
            tasks = _tasks(snapshot, role, held)
            asked.setdefault(held.flavor, []).append(role_request(job, role, tasks))
    placed = DomainPlacer(snapshot, state).place_roles(found, asked, if_empty=if_empty)
    if isinstance(placed, Refusal):
        return placed
    return {
        without_places[name].id: replace(without_places[name], domains=role.domains)
        for name, role in placed.items()
    }


def find_substitutes(snapshot: Snapshot, job: Job, state: TopologyState) -> Moves | Refusal:
    """Return other domains for the tasks on the first of the job's failed nodes; all other tasks stay.

    The job's usage of failed nodes still counts as taken.
    """
    moves: Moves = {}
    taken: list[Usage] = []
    placers: dict[str, DomainGangPlacer] = {}
    topologies = TopologySnapshot(snapshot, apart=state.apart)
    broken, lost = _lacking(snapshot, job, state), state.lost_nodes[job.id]
    for role in job.roles:
        held = broken.get(role.name)
        if held is None:
            continue
        topology = topologies[held.flavor]
        if held.flavor not in placers:
            placers[held.flavor] = _placer(topology, state.options, taken)
        tree = topology.stock.tree
        request = role_request(job, role, sum(part.tasks for part in held.domains))
        existing = placement_of(tree.key_levels, held)
        if state.options.avoid_lost:
            placers[held.flavor].take_placement(_filled(existing, lost), request.per_task)
        found = replace_leaf(placers[held.flavor], tree, request, existing, lost[0])
        if isinstance(found, Failure):
            return build_refusal(found, request, held.flavor)
        if tree.leaves_are_nodes:
            taken.extend(usage_of(found.moved, request.per_task))
        moves[held.id] = replace(held, domains=domains_of(found.placement))
    return moves


def added_places(before: DomainAllocation, after: DomainAllocation) -> DomainAllocation:
    """Return an allocation of only the domains that were added, without quota."""
    had = {part.domain: part.tasks for part in before.domains}
    more = (DomainTasks(part.domain, part.tasks - had.get(part.domain, 0)) for part in after.domains)
    return replace(after, domains=tuple(part for part in more if part.tasks > 0), charges=())


def _filled(existing: Placement, lost: Iterable[str]) -> Placement:
    """Return a placement that fills the failed nodes, so that no task fits there."""
    removed = {share.domain for share in existing.shares if share.domain[-1] in lost}
    return Placement(existing.levels, tuple(Share(domain, COUNTLESS) for domain in sorted(removed)))


def _placer(topology: FlavorTopology, options: TopologyOptions, taken: Iterable[Usage]) -> DomainGangPlacer:
    return DomainGangPlacer(
        topology.stock,
        options,
        tolerations=topology.tolerations,
        assumed=tuple(taken) if topology.stock.tree.leaves_are_nodes else (),
        known=topology.known,
    )


def _lacking(snapshot: Snapshot, job: Job, state: TopologyState) -> dict[str, DomainAllocation]:
    """Return the allocations of a job that are to get domains now, by role."""
    return {
        held.role: held
        for held in snapshot.allocations_of(job.id)
        if isinstance(held, DomainAllocation) and _lacks(snapshot, job, held, state)
    }


def _lacks(snapshot: Snapshot, job: Job, held: DomainAllocation, state: TopologyState) -> bool:
    if held.leaving or not snapshot.flavors[held.flavor].topology_aware:
        return False
    lost = state.lost_nodes.get(job.id)
    if lost:
        return any(part.domain[-1] == lost[0] for part in held.domains)
    return job.id in state.unplaced and not held.domains and bool(held.charges)


def _tasks(snapshot: Snapshot, role: Role, held: Allocation) -> int:
    """Return the number of tasks that an allocation is charged for; the role may be admitted at a smaller
    size."""
    each = compute_demand(role.request, snapshot.flavors[held.flavor])
    counts = [charge.amount // each[charge.resource] for charge in held.charges if each.get(charge.resource)]
    return min(counts, default=role.replicas - role.ended)
