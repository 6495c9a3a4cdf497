"""Places for roles that hold quota in counted flavors and lack them, wholly or on a node that failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduling.engine.gang.counted import (
    Counting,
    Stand,
    domains_of,
    placement_of,
    refused,
    role_request,
)
from scheduling.engine.model import Allocation, DomainTasks, Job, Role
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.charges import demand
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.topology import (
    Failure,
    FlavorGround,
    GangPlacer,
    Placement,
    RoleRequest,
    Share,
    TopologyOptions,
    Usage,
    replace_leaf,
    usage_of,
)
from scheduling.engine.topology.stock import COUNTLESS

Moves = dict[str, Allocation]
"""What an allocation becomes, by its id."""


def lacks_places(snapshot: Snapshot, job: Job) -> bool:
    """Whether a job has something to be placed now."""
    return any(_lacks(snapshot, job, held) for held in snapshot.held(job.id))


def first_places(
    snapshot: Snapshot, job: Job, options: TopologyOptions, *, if_empty: bool = False
) -> Moves | Refusal:
    """Domains for the roles that hold quota and have none."""
    found: dict[str, Stand] = {}
    asked: dict[str, list[RoleRequest]] = {}
    bare = {held.role: held for held in snapshot.held(job.id) if _lacks(snapshot, job, held)}
    for role in job.roles:
        held = bare.get(role.name)
        if held is not None:
            found[role.name] = Stand(held.flavor, each=held.each)
            tasks = _tasks(snapshot, role, held)
            asked.setdefault(held.flavor, []).append(role_request(job, role, tasks))
    stands = Counting(snapshot, options).place(found, asked, if_empty=if_empty)
    if isinstance(stands, Refusal):
        return stands
    return {bare[name].id: replace(bare[name], domains=stand.domains) for name, stand in stands.items()}


def substitutes(snapshot: Snapshot, job: Job, options: TopologyOptions) -> Moves | Refusal:
    """Other domains for the tasks on the first of the job's lost nodes; all others stay.

    What the job held there still counts as taken.
    """
    moves: Moves = {}
    taken: list[Usage] = []
    placers: dict[str, GangPlacer] = {}
    broken = {held.role: held for held in snapshot.held(job.id) if _lacks(snapshot, job, held)}
    for role in job.roles:
        held = broken.get(role.name)
        if held is None:
            continue
        ground = snapshot.grounds[held.flavor]
        if held.flavor not in placers:
            placers[held.flavor] = _placer(ground, options, taken)
        tree = ground.stock.tree
        request = role_request(job, role, sum(part.tasks for part in held.domains))
        existing = placement_of(tree.key_levels, held)
        if options.avoid_lost:
            placers[held.flavor].take(_filled(existing, job.lost_nodes), request.per_task)
        found = replace_leaf(placers[held.flavor], tree, request, existing, job.lost_nodes[0])
        if isinstance(found, Failure):
            return refused(found, request, held.flavor)
        if tree.leaves_are_nodes:
            taken.extend(usage_of(found.moved, request.per_task))
        moves[held.id] = replace(held, domains=domains_of(found.placement))
    return moves


def added(before: Allocation, after: Allocation) -> Allocation:
    """The places alone that an allocation takes on top of those that it had."""
    had = {part.domain: part.tasks for part in before.domains}
    more = (DomainTasks(part.domain, part.tasks - had.get(part.domain, 0)) for part in after.domains)
    return replace(after, domains=tuple(part for part in more if part.tasks > 0), charges=())


def _filled(existing: Placement, lost: Iterable[str]) -> Placement:
    """As many tasks as stand nowhere, on the lost nodes: nobody else finds room there."""
    gone = {share.domain for share in existing.shares if share.domain[-1] in lost}
    return Placement(existing.levels, tuple(Share(domain, COUNTLESS) for domain in sorted(gone)))


def _placer(ground: FlavorGround, options: TopologyOptions, taken: Iterable[Usage]) -> GangPlacer:
    return GangPlacer(
        ground.stock,
        options,
        tolerations=ground.tolerations,
        assumed=tuple(taken) if ground.stock.tree.leaves_are_nodes else (),
        known=ground.known,
    )


def _lacks(snapshot: Snapshot, job: Job, held: Allocation) -> bool:
    if held.leaving or not snapshot.grounds.counts(held.flavor):
        return False
    if job.lost_nodes:
        return any(part.domain[-1] == job.lost_nodes[0] for part in held.domains)
    return job.unplaced and not held.domains and bool(held.charges)


def _tasks(snapshot: Snapshot, role: Role, held: Allocation) -> int:
    """For how many tasks an allocation was charged; the role may have been admitted at a smaller size."""
    each = demand(role.request, snapshot.flavors[held.flavor])
    counts = [charge.amount // each[charge.resource] for charge in held.charges if each.get(charge.resource)]
    return min(counts, default=role.replicas - role.ended)
