"""Nominates a head, with Kueue's topology-aware scheduling for flavors with a topology."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace

from scheduling.conformance.kueue.topology_aware.model import DomainAllocation, EnlargedJob, TopologyState
from scheduling.conformance.kueue.topology_aware.places import (
    DomainPlacer,
    TopologyAssignment,
    TopologyAssignments,
)
from scheduling.engine import Assignment, AssignmentMode, Refusal, RoleAssignment, Statement
from scheduling.engine.extension import (
    EvaluationRequest,
    NominatedJob,
    Nominator,
    RefusalCache,
    Session,
)
from scheduling.engine.model import Allocation, Job, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class WishedAssignment(Assignment):
    """An assignment that lacks quota or room. `wished` are the domains of its roles in topology-aware flavors
    if no tasks were placed by topology."""

    wished: Mapping[str, TopologyAssignment] = field(default_factory=dict)


class KueueNominator(Nominator):
    """The engine's nominator, which finds domains for roles in topology-aware flavors."""

    def __init__(self, session: Session, state: TopologyState) -> None:
        super().__init__(session, may_preempt=True)
        self._state = state
        # The allocations of the jobs that evaluated jobs replace, by evaluated job.
        self._previous: dict[str, tuple[Allocation, ...]] = {}

    def previous_of(self, job: Job) -> tuple[Allocation, ...]:
        """Return the allocations of the job that an evaluated job replaces."""
        return self._previous.get(job.id, ())

    def evaluate_job(
        self, statement: Statement, queue: Queue, job: Job, request: EvaluationRequest
    ) -> NominatedJob:
        """Evaluate a job; a job that replaces another one stays in its flavors and takes over its
        allocations."""
        if isinstance(job, EnlargedJob) and (held := self._snapshot.allocations_of(job.replaces)):
            self._previous[job.id] = held
            for task in held:
                statement.release(task.id)
            flavors = {
                task.role: {charge.resource: charge.flavor for charge in task.charges} for task in held
            }
            request = replace(request, required_flavors=flavors)
        return super().evaluate_job(statement, queue, job, request)

    def place_nominated(
        self, statement: Statement, entry: NominatedJob, full: RefusalCache | None = None
    ) -> tuple[Allocation, ...] | Refusal:
        """Place an entry's tasks by its assignment within the statement: domains first, then nodes."""
        domains, previous = DomainPlacer(self._snapshot, self._state), self.previous_of(entry.job)
        found = domains.find_domains(entry.queue, entry.job, entry.assignment, previous=previous)
        if isinstance(found, Refusal):
            return found
        placed = super().place_nominated(statement, entry, full)
        if isinstance(placed, Refusal):
            return placed
        return tuple(self._with_domains(statement, held, found.get(held.role)) for held in placed)

    def prepare_victim_search(self, entry: NominatedJob) -> NominatedJob:
        """Return an entry that lacks quota or room, adapted for its roles in topology-aware flavors.

        If these would not fit even without any task placed by topology, preemption is useless. Otherwise free
        capacity of their flavors may be scattered, so that any of their quota may have to be reclaimed.
        """
        domains = DomainPlacer(self._snapshot, self._state)
        roles = domains.roles_of(entry.assignment)
        if not roles or entry.mode is AssignmentMode.NO_FIT:
            return entry
        found = domains.find_domains(
            entry.queue, entry.job, entry.assignment, previous=self.previous_of(entry.job), if_empty=True
        )
        if isinstance(found, Refusal):
            lowered = _lowered(entry.assignment, roles, AssignmentMode.NO_FIT, {})
            return replace(entry, assignment=lowered, refusal=found)
        return replace(entry, assignment=_lowered(entry.assignment, roles, AssignmentMode.PREEMPT, found))

    def _needs_oracle(self, queue: Queue, ask: EvaluationRequest) -> bool:
        """Return true: Kueue simulates preemption for every head, because the order of heads depends on
        it."""
        return True

    def _with_domains(
        self, statement: Statement, held: Allocation, found: TopologyAssignment | None
    ) -> Allocation:
        if found is None:
            return held
        placed = DomainAllocation(
            job=held.job,
            queue=held.queue,
            role=held.role,
            index=held.index,
            flavor=found.flavor,
            node="",
            charges=held.charges,
            domains=found.domains,
            each=found.each,
        )
        statement.release(held.id)
        statement.allocate(placed)
        return placed


def wished_by(assignment: Assignment) -> TopologyAssignments:
    """Return the preferred domains of a head without room, for its roles in topology-aware flavors."""
    return assignment.wished if isinstance(assignment, WishedAssignment) else {}


def _lowered(
    assignment: Assignment, roles: Collection[str], mode: AssignmentMode, wished: TopologyAssignments
) -> WishedAssignment:
    """Return the assignment with the modes of some roles limited to `mode`, in all of their flavors."""
    given = {item.name: getattr(assignment, item.name) for item in fields(Assignment)}
    given["roles"] = tuple(
        _role_lowered(role, mode) if role.role in roles else role for role in assignment.roles
    )
    return WishedAssignment(**given, wished=wished)


def _role_lowered(role: RoleAssignment, mode: AssignmentMode) -> RoleAssignment:
    choices = {name: replace(choice, mode=min(choice.mode, mode)) for name, choice in role.choices.items()}
    return replace(role, choices=choices)
