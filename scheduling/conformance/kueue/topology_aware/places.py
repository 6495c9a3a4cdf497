"""Finds domains for the roles of a job in topology-aware flavors (KEP-2724).

A role gets one allocation for all its tasks, with their domains; the pod scheduler chooses the nodes within a
domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from scheduling.conformance.kueue.topology_aware.across import place_across
from scheduling.conformance.kueue.topology_aware.model import (
    DomainAllocation,
    DomainTasks,
    PodRequest,
    SlicedRule,
    TopologyState,
)
from scheduling.conformance.kueue.topology_aware.request import NodePreference, RoleRequest
from scheduling.conformance.kueue.topology_aware.result import (
    Failure,
    Misfit,
    Placement,
    Share,
    SliceLayer,
)
from scheduling.conformance.kueue.topology_aware.snapshot import PODS, TopologySnapshot
from scheduling.engine import Assignment, Refusal, RoleAssignment, Snapshot
from scheduling.engine.extension import requests_topology
from scheduling.engine.model import (
    Allocation,
    Extended,
    Help,
    HelpCode,
    Job,
    Queue,
    Reason,
    Request,
    Role,
    TopologyMode,
    TopologyRule,
)

ANYHOW = TopologyRule(mode=TopologyMode.UNCONSTRAINED)
# Failures that may pass when nodes are added, released or repaired.
PASSING = (Misfit.NO_ROOM, Misfit.NO_DOMAINS, Misfit.STALE_PLACEMENT, Misfit.NO_REPLACEMENT)


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """The domains of one role's tasks in a topology-aware flavor, and the footprint of each task."""

    flavor: str
    domains: tuple[DomainTasks, ...] = ()
    each: tuple[Extended, ...] = ()


TopologyAssignments = Mapping[str, TopologyAssignment]
"""The topology assignments of a job by role."""


class DomainPlacer:
    """Finds domains for roles in the current state of a snapshot, which it does not change."""

    def __init__(self, snapshot: Snapshot, state: TopologyState) -> None:
        self._snapshot = snapshot
        self._state = state
        self._topologies = TopologySnapshot(snapshot, apart=state.apart)

    def flavor_of(self, assigned: RoleAssignment) -> str | None:
        """Return the topology-aware flavor among those of a role, which has at most one."""
        return next((name for name in assigned.flavors if self._topologies.has_flavor(name)), None)

    def roles_of(self, assignment: Assignment) -> tuple[str, ...]:
        """Return the roles with tasks in topology-aware flavors."""
        return tuple(
            role.role for role in assignment.roles if role.count and self.flavor_of(role) is not None
        )

    def find_domains(
        self,
        queue: Queue,
        job: Job,
        assignment: Assignment,
        *,
        previous: Iterable[Allocation] = (),
        if_empty: bool = False,
    ) -> dict[str, TopologyAssignment] | Refusal:
        """Return the domains of all roles in topology-aware flavors, or why one of them gets none.

        A role that already has an allocation keeps it and is left out; a role whose nodes are not provisioned
        yet has no domains. `previous` are the allocations of the job that this one replaces. With `if_empty`
        domains are searched as if no tasks were placed by topology.
        """
        if not self._topologies:
            return {}
        refused = self._without_nodes(queue, job, assignment)
        aware = self.roles_of(assignment)
        if refused is not None or not aware:
            return refused or {}
        holding = {held.role for held in self._snapshot.allocations_of(job.id)}
        asked: dict[str, list[RoleRequest]] = {}
        found: dict[str, TopologyAssignment] = {}
        for assigned in assignment.roles:
            flavor = self.flavor_of(assigned)
            if flavor is None or assigned.role not in aware or assigned.role in holding:
                continue
            role = next(role for role in job.roles if role.name == assigned.role)
            found[role.name] = TopologyAssignment(flavor, each=task_footprint(role.request))
            if flavor not in self._state.on_order.get(queue.id, ()):
                request = role_request(job, role, assigned.count)
                asked.setdefault(flavor, []).append(self._following(request, flavor, previous))
        return self.place_roles(found, asked, if_empty=if_empty)

    def _following(self, request: RoleRequest, flavor: str, previous: Iterable[Allocation]) -> RoleRequest:
        """Return the request with the previous placement of the same role."""
        before = next((a for a in previous if a.role == request.name and a.flavor == flavor), None)
        if not isinstance(before, DomainAllocation) or not before.domains:
            return request
        levels = self._topologies[flavor].stock.tree.key_levels
        return replace(request, previous=placement_of(levels, before))

    def _without_nodes(self, queue: Queue, job: Job, assignment: Assignment) -> Refusal | None:
        """Return the refusal of a role with a topology request that has no flavor with nodes; None if there
        is none."""
        if not any(
            self._topologies.has_flavor(name) for group in queue.effective_groups for name in group.flavors
        ):
            return None
        flavors = self._snapshot.flavors
        for assigned in assignment.roles:
            role = next(role for role in job.roles if role.name == assigned.role)
            placed = any(flavors[name].placed for name in assigned.flavors)
            if assigned.count and not placed and requests_topology(job, role):
                return Refusal(
                    Reason.NEVER_FITS, {"role": role.name, "asked": assigned.count, "available": 0}
                )
        return None

    def place_roles(
        self, found: TopologyAssignments, asked: Mapping[str, list[RoleRequest]], *, if_empty: bool = False
    ) -> dict[str, TopologyAssignment] | Refusal:
        """Return `found` with the domains for the requests of each flavor, or why one gets none."""
        topologies = {name: self._topologies[name] for name in asked}
        outcomes = place_across(topologies, asked, self._state.options, if_empty=if_empty)
        for flavor in sorted(asked):
            for request in asked[flavor]:
                outcome = outcomes.get(request.name)
                if isinstance(outcome, Failure):
                    return build_refusal(outcome, request, flavor)
        return {
            name: TopologyAssignment(role.flavor, domains_of(outcomes.get(name)), role.each)
            for name, role in found.items()
        }


def role_request(job: Job, role: Role, tasks: int) -> RoleRequest:
    """Return the topology request of a role; without a level it is unconstrained."""
    rule = (job.topology if role.topology is None else role.topology) or ANYHOW
    rules = job.rules_of(role)
    return RoleRequest(
        name=role.name,
        tasks=tasks,
        per_task={item.resource: item.amount for item in task_footprint(role.request)},
        mode=rule.mode if rule.level else TopologyMode.UNCONSTRAINED,
        level=rule.level or None,
        layers=tuple(_layers(rule)),
        rules=rules,
        preferences=tuple(NodePreference(wish.weight, wish.expressions) for wish in rules.preferred_nodes),
        companions=rule.companions or None,
    )


def task_footprint(request: Request) -> tuple[Extended, ...]:
    """Return the resources that one task takes in its domain, including the pod itself."""
    assert isinstance(request, PodRequest)  # noqa: S101 - what is read from a PodSet
    return (*request.footprint, Extended(PODS, 1))


def placement_of(levels: tuple[str, ...], held: DomainAllocation) -> Placement:
    """Return the domains of an allocation as a placement."""
    return Placement(levels, tuple(Share(part.domain, part.tasks) for part in held.domains))


def domains_of(outcome: Placement | Failure | None) -> tuple[DomainTasks, ...]:
    """Return the domains of a placement; none if it failed."""
    if not isinstance(outcome, Placement):
        return ()
    return tuple(DomainTasks(share.domain, share.tasks) for share in outcome.shares)


def build_refusal(failure: Failure, request: RoleRequest, flavor: str) -> Refusal:
    """Return why a role gets no domains; a failure that no released capacity would change never fits."""
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


def allocations_of(
    queue: Queue, job: Job, found: TopologyAssignments, *, prefix: str
) -> Iterable[DomainAllocation]:
    """Yield allocations of the domains only, without quota, with prefixed roles."""
    for name, assigned in found.items():
        yield DomainAllocation(
            job=job.id,
            queue=queue.id,
            role=f"{prefix}{name}",
            index=0,
            flavor=assigned.flavor,
            node="",
            domains=assigned.domains,
            each=assigned.each,
        )


def _layers(rule: TopologyRule) -> Iterator[SliceLayer]:
    if rule.slice_level:
        yield SliceLayer(rule.slice_level, rule.slice_size)
    if isinstance(rule, SlicedRule):
        yield from rule.layers


def _fewer(request: RoleRequest, tasks: int) -> Iterator[Help]:
    if 0 < tasks < request.tasks:
        yield Help(HelpCode.ASK_FEWER_TASKS, {"role": request.name, "tasks": tasks})
