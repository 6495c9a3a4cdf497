"""Roles in counted flavors: how many of their tasks stand in which domain.

Nothing is seated here. A role gets one hold for all its tasks, with the domains they stand in; who runs
on which node of a domain is left to whoever starts them. Source of the rules: Kueue's topology-aware
scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from foundation.core.quantities import Resource
from scheduling.engine.model import (
    Allocation,
    DomainTasks,
    Extended,
    Help,
    HelpCode,
    Job,
    Queue,
    Reason,
    Request,
    Role,
    SliceLayer,
    TopologyMode,
    TopologyRule,
)
from scheduling.engine.quota.assignment import Assignment, Refusal, RoleAssignment
from scheduling.engine.quota.flavors import wishes_topology
from scheduling.engine.state.grounds import PODS
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.topology import (
    Failure,
    Misfit,
    Placement,
    Preference,
    RoleRequest,
    Share,
    TopologyOptions,
    place_across,
)

ANYHOW = TopologyRule(mode=TopologyMode.UNCONSTRAINED)
# Nodes come, go and fail: what is missing today may be there tomorrow.
PASSING = (Misfit.NO_ROOM, Misfit.NO_DOMAINS, Misfit.STALE_PLACEMENT, Misfit.NO_REPLACEMENT)


@dataclass(frozen=True, slots=True)
class Stand:
    """Where the tasks of one role stand in a counted flavor, and what each of them takes there."""

    flavor: str
    domains: tuple[DomainTasks, ...] = ()
    each: tuple[Extended, ...] = ()


Stands = Mapping[str, Stand]
"""By role."""


class Counting:
    """Answers where roles would stand in the present state of a snapshot; changes nothing."""

    def __init__(self, snapshot: Snapshot, options: TopologyOptions) -> None:
        self._snapshot = snapshot
        self._options = options

    def flavor(self, assigned: RoleAssignment) -> str | None:
        """The counted flavor among those of a role; a role never has two."""
        return next((name for name in assigned.flavors if self._snapshot.grounds.counts(name)), None)

    def roles(self, assignment: Assignment) -> tuple[str, ...]:
        """The roles with tasks in counted flavors."""
        return tuple(role.role for role in assignment.roles if role.count and self.flavor(role) is not None)

    def stands(
        self,
        queue: Queue,
        job: Job,
        assignment: Assignment,
        *,
        previous: Iterable[Allocation] = (),
        if_empty: bool = False,
    ) -> dict[str, Stand] | Refusal:
        """Where all roles in counted flavors stand, or why one of them cannot.

        A role that holds something already keeps what it has and is left out; one whose machines are
        still to be ordered has no domains yet. `previous` is what was held by the job that this one
        replaces. With `if_empty`, as if all counted tasks had left.
        """
        if not self._snapshot.grounds:
            return {}
        homeless = self._homeless(queue, job, assignment)
        counted = self.roles(assignment)
        if homeless is not None or not counted:
            return homeless or {}
        holding = {held.role for held in self._snapshot.held(job.id)}
        asked: dict[str, list[RoleRequest]] = {}
        found: dict[str, Stand] = {}
        for assigned in assignment.roles:
            flavor = self.flavor(assigned)
            if flavor is None or assigned.role not in counted or assigned.role in holding:
                continue
            role = next(role for role in job.roles if role.name == assigned.role)
            found[role.name] = Stand(flavor, each=footprint(role.request))
            if flavor not in queue.on_order:
                request = role_request(job, role, assigned.count)
                asked.setdefault(flavor, []).append(self._following(request, flavor, previous))
        return self.place(found, asked, if_empty=if_empty)

    def _following(self, request: RoleRequest, flavor: str, previous: Iterable[Allocation]) -> RoleRequest:
        """A request that starts from where the same role stood before."""
        before = next((a for a in previous if a.role == request.name and a.flavor == flavor), None)
        if before is None or not before.domains:
            return request
        levels = self._snapshot.grounds[flavor].stock.tree.key_levels
        return replace(request, previous=placement_of(levels, before))

    def _homeless(self, queue: Queue, job: Job, assignment: Assignment) -> Refusal | None:
        """A role that asks for a level of topology, and of which nothing comes from a flavor with nodes."""
        if not any(self._snapshot.grounds.counts(name) for group in queue.groups for name in group.flavors):
            return None
        flavors = self._snapshot.flavors
        for assigned in assignment.roles:
            role = next(role for role in job.roles if role.name == assigned.role)
            placed = any(flavors[name].placed for name in assigned.flavors)
            if assigned.count and not placed and wishes_topology(job, role):
                return Refusal(
                    Reason.NEVER_FITS, {"role": role.name, "asked": assigned.count, "available": 0}
                )
        return None

    def place(
        self, found: Stands, asked: Mapping[str, list[RoleRequest]], *, if_empty: bool = False
    ) -> dict[str, Stand] | Refusal:
        """Give the stands of `found` the domains that are found for the requests of each flavor."""
        grounds = {name: self._snapshot.grounds[name] for name in asked}
        outcomes = place_across(grounds, asked, self._options, if_empty=if_empty)
        for flavor in sorted(asked):
            for request in asked[flavor]:
                outcome = outcomes.get(request.name)
                if isinstance(outcome, Failure):
                    return refused(outcome, request, flavor)
        return {
            name: Stand(stand.flavor, domains_of(outcomes.get(name)), stand.each)
            for name, stand in found.items()
        }


def role_request(job: Job, role: Role, tasks: int) -> RoleRequest:
    """What a role asks of a topology; one that names no level is free to spread."""
    rule = (job.topology if role.topology is None else role.topology) or ANYHOW
    rules = job.rules_of(role)
    return RoleRequest(
        name=role.name,
        tasks=tasks,
        per_task={item.resource: item.amount for item in footprint(role.request)},
        mode=rule.mode if rule.level else TopologyMode.UNCONSTRAINED,
        level=rule.level or None,
        layers=tuple(_layers(rule)),
        rules=rules,
        preferences=tuple(Preference(wish.weight, wish.expressions) for wish in rules.preferred_nodes),
        companions=rule.companions or None,
    )


def footprint(request: Request) -> tuple[Extended, ...]:
    """What one task takes of its domain, itself included. Cards are counted whole."""
    if request.footprint is not None:
        return (*request.footprint, Extended(PODS, 1))
    cards = 0 if request.gpu is None else request.gpu.cards
    plain = ((Resource.CPU, request.cpu), (Resource.MEMORY, request.memory), (Resource.GPU_CARDS, cards))
    named = (Extended(name, amount) for name, amount in plain if amount)
    return (*named, *request.extended, Extended(PODS, 1))


def placement_of(levels: tuple[str, ...], held: Allocation) -> Placement:
    """Where an allocation stands, in the topology's own terms."""
    return Placement(levels, tuple(Share(part.domain, part.tasks) for part in held.domains))


def domains_of(outcome: Placement | Failure | None) -> tuple[DomainTasks, ...]:
    """The domains of a placement; none where there is none."""
    if not isinstance(outcome, Placement):
        return ()
    return tuple(DomainTasks(share.domain, share.tasks) for share in outcome.shares)


def refused(failure: Failure, request: RoleRequest, flavor: str) -> Refusal:
    """Why a role finds no domains; what no freed place would change never fits."""
    fitting = failure.fitting * failure.slice_size if failure.misfit is Misfit.NO_ROOM else 0
    numbers: dict[str, int | str] = {
        "flavor": flavor,
        "role": request.name,
        "asked": request.tasks,
        "available": fitting,
        "limit": request.tasks,
        "misfit": failure.misfit.value,
    }
    if failure.level:
        numbers["level"] = failure.level
    reason = Reason.NO_ROOM if failure.misfit in PASSING else Reason.NEVER_FITS
    return Refusal(reason, numbers, tuple(_fewer(request, fitting)))


def holds_of(queue: Queue, job: Job, stands: Stands, *, prefix: str) -> Iterable[Allocation]:
    """The places alone, without quota, under roles of their own."""
    for name, stand in stands.items():
        yield Allocation(
            job=job.id,
            queue=queue.id,
            role=f"{prefix}{name}",
            index=0,
            flavor=stand.flavor,
            node="",
            domains=stand.domains,
            each=stand.each,
        )


def _layers(rule: TopologyRule) -> Iterator[SliceLayer]:
    if rule.slice_level:
        yield SliceLayer(rule.slice_level, rule.slice_size)
    yield from rule.layers


def _fewer(request: RoleRequest, tasks: int) -> Iterator[Help]:
    if 0 < tasks < request.tasks:
        yield Help(HelpCode.ASK_FEWER_TASKS, {"role": request.name, "tasks": tasks})
