"""This module evaluates what a job would get in the present state of the snapshot: flavors, nodes, and
victims.

Quota comes first, then room. If a flavor has quota but no room, the queue's other flavors are tried; if that
fails too, victims may be needed for room alone. Of a job with elastic roles the largest possible size is
taken, the full one even with victims; a smaller one where only that leaves the headroom that the job owes.
Source: Kueue's `nominate` and flavor assigner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial

from scheduling.engine.actions.admission.nominated_job import NominatedJob, refuse_protected
from scheduling.engine.actions.admission.readmission_headroom import (
    find_headroom_refusal,
    must_leave_headroom,
)
from scheduling.engine.actions.lasting_refusals import infeasible_flavors_of
from scheduling.engine.gang import GangPlacer, RefusalCache, find_uniform_minimum, smallest_gang
from scheduling.engine.model import Allocation, Job, Preference, Queue, Reason, ResourceName, WhenCan
from scheduling.engine.placement.index.clusters import CLUSTERS
from scheduling.engine.preemption.oracle import PreemptionOracle
from scheduling.engine.preemption.trials.targets import CountedShape, PlacementCheck, Preemptor, TargetSet
from scheduling.engine.quota.assign import assign_flavors
from scheduling.engine.quota.assignment import SEVERITY, Assignment, AssignmentMode, Refusal
from scheduling.engine.quota.one_cluster import FlavorFilter
from scheduling.engine.quota.partial_admission import RoleCounts, count_surplus, find_largest_size
from scheduling.engine.session.session import Session
from scheduling.engine.state.statement import Statement

RequiredFlavors = Mapping[str, Mapping[ResourceName, str]]
"""The flavors to which a job is confined, by role and resource."""

RoleFlavors = frozenset[tuple[str, str]]
"""Pairs of a role and a flavor that an evaluation skips."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The conditions of one evaluation.

    With `may_preempt` victims are allowed. The job stays in `required_flavors`, if given, and uses none of
    `excluded_flavors`. `infeasible` are flavors whose nodes could never hold a role; they are computed if not
    given. `refusals` knows shapes without slots; it is valid for one state from which nothing is released.
    """

    refusals: RefusalCache
    may_preempt: bool = True
    required_flavors: RequiredFlavors | None = None
    excluded_flavors: frozenset[str] = frozenset()
    infeasible: RoleFlavors | None = None


class Nominator:
    """Evaluates jobs of one session. It changes nothing but what it places in a statement."""

    def __init__(self, session: Session, *, may_preempt: bool) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._may_preempt = may_preempt
        self._oracle = PreemptionOracle(session.victims) if may_preempt else None

    def evaluate_job(
        self, statement: Statement, queue: Queue, job: Job, request: EvaluationRequest
    ) -> NominatedJob:
        """Return what the job would get. A job that fits is left placed in the statement; other jobs leave
        nothing there."""
        mark = statement.checkpoint()
        if self._session.config.elastic.start_at_minimum:
            return self._evaluate_within_caps(statement, queue, job, request, smallest_gang(job))
        full = self._evaluate_within_caps(statement, queue, job, request, None)
        if full.refusal is None and not self._must_shrink_for_headroom(full):
            return full

        least: Refusal | None = None

        def try_counts(counts: RoleCounts, *, headroom: bool) -> RoleCounts | None:
            nonlocal least
            statement.rollback(mark)
            reduced = self._evaluate_within_caps(statement, queue, job, request, counts)
            if reduced.refusal is not None and least is None:
                # The smallest size is tried first, so its shortage is the reason to wait.
                least = reduced.refusal
            fits = reduced.refusal is None and not (headroom and self._must_shrink_for_headroom(reduced))
            return counts if fits else None

        # A size without headroom is refused by the caller, with the numbers of the rule.
        for headroom in (True, False) if must_leave_headroom(self._session, job) else (False,):
            counts = find_largest_size(job, partial(try_counts, headroom=headroom))
            statement.rollback(mark)
            if counts is not None:
                return self._evaluate_size(statement, queue, job, request, counts)
            if full.refusal is None:
                return self._evaluate_size(statement, queue, job, request, None)
        return full if least is None else replace(full, refusal=least)

    def _must_shrink_for_headroom(self, nominated: NominatedJob) -> bool:
        """Return whether an elastic job would leave too little headroom at this size."""
        job = nominated.job
        return (
            any(count_surplus(job).values())
            and must_leave_headroom(self._session, job)
            and find_headroom_refusal(self._session, nominated, charged=nominated.fits) is not None
        )

    def has_quota(self, queue: Queue, job: Job) -> bool:
        """Return whether quota suffices for the job's smallest size without victims."""
        found = self.assign_smallest(queue, job)
        return found.refusal is None and found.mode is AssignmentMode.FIT

    def assign_smallest(
        self,
        queue: Queue,
        job: Job,
        excluded_flavors: Set[str] = frozenset(),
        *,
        infeasible: RoleFlavors | None = None,
    ) -> Assignment:
        """Return the assignment of a job's smallest size over all flavors but the excluded ones, without
        victims; `infeasible` is as in `EvaluationRequest`."""
        request = EvaluationRequest(RefusalCache(), may_preempt=False)
        skipped = self._skipped_flavors(queue, job, excluded_flavors, infeasible)
        return self._assignment(queue, job, request, smallest_gang(job), skipped)

    def place_nominated(
        self, statement: Statement, nominated: NominatedJob, full: RefusalCache | None = None
    ) -> tuple[Allocation, ...] | Refusal:
        """Place a nominated job's tasks by its assignment, inside the statement."""
        placer = GangPlacer(self._snapshot, self._session.placer, full)
        return placer.place_job(statement, nominated.queue, nominated.job, nominated.assignment)

    def _skipped_flavors(
        self, queue: Queue, job: Job, excluded_flavors: Set[str], infeasible: RoleFlavors | None
    ) -> RoleFlavors:
        """Return the pairs of role and flavor to skip; `infeasible` is as in `EvaluationRequest`."""
        found = infeasible_flavors_of(self._session, queue, job) if infeasible is None else infeasible
        return found | {(role.name, flavor) for role in job.roles for flavor in excluded_flavors}

    def _evaluate_within_caps(
        self,
        statement: Statement,
        queue: Queue,
        job: Job,
        request: EvaluationRequest,
        counts: RoleCounts | None,
    ) -> NominatedJob:
        """Evaluate one size, and refuse it if the user's caps do not allow it."""
        mark = statement.checkpoint()
        nominated = self._evaluate_size(statement, queue, job, request, counts)
        over = (
            self._session.allowances.find_exceeded_cap(job, nominated.assignment.usage)
            if job.allowances
            else None
        )
        if over is None or nominated.refusal is not None:
            return nominated
        statement.rollback(mark)
        return replace(nominated, refusal=over, placed=(), target_set=TargetSet())

    def _evaluate_size(
        self,
        statement: Statement,
        queue: Queue,
        job: Job,
        request: EvaluationRequest,
        counts: RoleCounts | None,
    ) -> NominatedJob:
        """Evaluate one size: flavor after flavor until the job fits, or victims can be found."""
        skipped = self._skipped_flavors(queue, job, request.excluded_flavors, request.infeasible)

        def nominate_without(skipped: RoleFlavors) -> NominatedJob:
            assignment = self._assignment(queue, job, request, counts, skipped)
            return NominatedJob(job=job, queue=queue, assignment=assignment, refusal=assignment.refusal)

        search = (
            self._search_flavor_by_flavor
            if self._stops_at_preemption(queue, request)
            else self._search_all_flavors
        )
        return search(statement, request, nominate_without, skipped)

    def _search_all_flavors(
        self,
        statement: Statement,
        request: EvaluationRequest,
        nominate_without: Callable[[RoleFlavors], NominatedJob],
        skipped: RoleFlavors,
    ) -> NominatedJob:
        """Examine all flavors before victims are chosen in one of them."""
        without_room: NominatedJob | None = None
        while True:
            nominated = nominate_without(skipped)
            if nominated.mode is not AssignmentMode.FIT:
                break
            nominated = self._with_placement(statement, nominated, request)
            if nominated.refusal is None:
                return nominated
            without_room = without_room or nominated
            failed_here = _role_without_room(nominated.refusal)
            if not self._may_continue(nominated, failed_here, skipped):
                return self._with_victims(statement, without_room, None, request)
            skipped |= failed_here
        if without_room is not None:
            return self._with_victims(
                statement, nominated, _naming_clusters(without_room, nominated.assignment), request
            )
        return (
            nominated
            if nominated.mode is AssignmentMode.NO_FIT
            else self._with_victims(statement, nominated, None, request)
        )

    def _search_flavor_by_flavor(
        self,
        statement: Statement,
        request: EvaluationRequest,
        nominate_without: Callable[[RoleFlavors], NominatedJob],
        skipped: RoleFlavors,
    ) -> NominatedJob:
        """Choose victims in a flavor before the next one is examined.

        In Kueue the next flavor comes in the next cycle, which continues behind the flavor that is remembered
        (`MayStopSearch` of `whenCanPreempt`).
        """
        nearest: NominatedJob | None = None
        while (nominated := nominate_without(skipped)).mode is not AssignmentMode.NO_FIT:
            failed_here = _contested(nominated)
            if nominated.mode is AssignmentMode.FIT:
                nominated = self._with_placement(statement, nominated, request)
                if nominated.refusal is None:
                    return nominated
                failed_here = _role_without_room(nominated.refusal)
            nominated = self._with_victims(statement, nominated, None, request)
            if nominated.refusal is None:
                return nominated
            if nearest is None or _severity(nominated) < _severity(nearest):
                nearest = nominated
            if not self._may_continue(nominated, failed_here, skipped):
                break
            skipped |= failed_here
        return nearest or nominated

    def _with_placement(
        self, statement: Statement, nominated: NominatedJob, request: EvaluationRequest
    ) -> NominatedJob:
        """Return a nomination that has quota with its placement, or with the refusal."""
        placed = self.place_nominated(statement, nominated, request.refusals)
        if isinstance(placed, Refusal):
            return replace(nominated, refusal=placed)
        return replace(nominated, placed=placed)

    def _may_continue(self, nominated: NominatedJob, failed_here: RoleFlavors, skipped: RoleFlavors) -> bool:
        """Return whether flavors are left to examine once these roles skip these flavors."""
        if not failed_here or failed_here <= skipped or not self._session.config.no_room.try_other_flavors:
            return False
        return _any_left(nominated.queue, nominated.job, skipped | failed_here)

    def _stops_at_preemption(self, queue: Queue, request: EvaluationRequest) -> bool:
        """Return whether victims are chosen in a flavor before the next one is examined."""
        asks = request.may_preempt and self._may_preempt
        return asks and queue.fungibility.when_can_preempt is WhenCan.MAY_STOP_SEARCH

    def _assignment(
        self,
        queue: Queue,
        job: Job,
        request: EvaluationRequest,
        counts: RoleCounts | None,
        skipped: RoleFlavors,
    ) -> Assignment:
        config = self._session.config
        return assign_flavors(
            self._snapshot,
            queue,
            job,
            oracle=self._oracle if self._needs_oracle(queue, request) else None,
            fair=config.fair_sharing is not None,
            counts=counts,
            allowed=_allowed(request.required_flavors, skipped),
            eviction_cap=config.preemption.eviction_cap,
            nominal_counts_non_preemptible_only=config.preemption.nominal_counts_non_preemptible_only,
            nominal_counts_unevictable_only=config.preemption.nominal_counts_unevictable_only,
            reassign_roles=config.no_room.try_other_flavors,
        )

    def _needs_oracle(self, queue: Queue, request: EvaluationRequest) -> bool:
        """Return whether flavor assignment must know what preemption would yield.

        It must where flavors are compared by it. A job without victims needs a flavor that fits alone, and
        unless the queue's fungibility says otherwise, that one is found and taken whatever preemption would
        yield in the others.
        """
        rules = queue.fungibility
        stops = rules.when_can_preempt is WhenCan.MAY_STOP_SEARCH
        if not request.may_preempt and not stops and rules.preference is Preference.BORROWING_OVER_PREEMPTION:
            return False
        return any(len(group.flavors) > 1 for group in queue.effective_groups)

    def _with_victims(
        self,
        statement: Statement,
        nominated: NominatedJob,
        without_room: NominatedJob | None,
        request: EvaluationRequest,
    ) -> NominatedJob:
        """Return the nomination with its victims, or with the reason why there are none.

        `without_room` is another nomination of the same job, which has quota but no room: it comes second.
        """
        nominated = self.prepare_victim_search(nominated)
        without_room = None if without_room is None else self.prepare_victim_search(without_room)
        refused = without_room or nominated
        if not (request.may_preempt and self._may_preempt):
            return refused
        found = TargetSet()
        for candidate in (nominated, without_room):
            if candidate is None or candidate.mode is AssignmentMode.NO_FIT:
                continue
            found = self._find_targets(candidate)
            placed = self._place_without(statement, candidate, found) if found.targets else None
            if placed is not None:
                return replace(candidate, target_set=found, placed=placed, refusal=None)
        final_refusal = refused.refusal or Refusal(Reason.WAITING_FOR_QUOTA)
        return replace(refused, refusal=refuse_protected(final_refusal, found))

    def prepare_victim_search(self, nominated: NominatedJob) -> NominatedJob:
        """Return a nomination without quota or room as the search for victims takes it. This is a hook."""
        return nominated

    def _find_targets(self, nominated: NominatedJob) -> TargetSet:
        """Return the victims that make the job fit, in quota and on nodes."""
        contested = nominated.assignment.contested
        if nominated.mode is AssignmentMode.FIT:
            contested = frozenset(key for key, amount in nominated.assignment.usage.items() if amount)
        preemptor = Preemptor(
            job=nominated.job,
            queue=nominated.queue,
            usage=nominated.assignment.usage,
            contested=contested,
        )

        def uniform_minimum() -> CountedShape | None:
            return find_uniform_minimum(
                self._snapshot, self._session.placer, nominated.job, nominated.assignment
            )

        return self._session.victims.find_victims(preemptor, self._room_check(nominated), uniform_minimum)

    def _room_check(self, nominated: NominatedJob) -> PlacementCheck | None:
        """Return a check of whether the job can be placed; None if its flavors have no nodes."""
        flavors = self._snapshot.flavors
        if not any(flavors[name].placed for role in nominated.assignment.roles for name in role.flavors):
            return None

        def has_room() -> bool:
            with self._snapshot.statement() as trial:
                return not isinstance(self.place_nominated(trial, nominated), Refusal)

        return has_room

    def _place_without(
        self, statement: Statement, nominated: NominatedJob, found: TargetSet
    ) -> tuple[Allocation, ...] | None:
        """Return the placement once the victims are released; nothing is left in the statement."""
        mark = statement.checkpoint()
        for target in found.targets:
            for key in target.tasks or tuple(held.id for held in self._snapshot.allocations_of(target.job)):
                statement.release(key)
        placed = self.place_nominated(statement, nominated)
        statement.rollback(mark)
        return None if isinstance(placed, Refusal) else placed


def _role_without_room(placed: Refusal) -> RoleFlavors:
    """Return the role without room and its flavor, if the refusal names both."""
    failed_here = (str(placed.known_numbers.get("role", "")), str(placed.known_numbers.get("flavor", "")))
    return frozenset({failed_here} if failed_here[1] else ())


def _contested(nominated: NominatedJob) -> RoleFlavors:
    """Return the roles and flavors whose quota victims would have to release."""
    return frozenset(
        (role.role, choice.flavor)
        for role in nominated.assignment.roles
        for choice in role.choices.values()
        if choice.mode is not AssignmentMode.FIT
    )


def _severity(nominated: NominatedJob) -> int:
    return 0 if nominated.refusal is None else SEVERITY.get(nominated.refusal.reason, 0)


def _naming_clusters(without_room: NominatedJob, last: Assignment) -> NominatedJob:
    """Return a nomination without room, with the clusters that were tried if no single one holds the job."""
    tried = None if last.refusal is None else last.refusal.known_numbers.get(CLUSTERS)
    if tried is None or without_room.refusal is None:
        return without_room
    return replace(without_room, refusal=without_room.refusal.with_numbers(**{CLUSTERS: tried}))


def _allowed(keep: RequiredFlavors | None, skipped: RoleFlavors) -> FlavorFilter | None:
    if keep is None and not skipped:
        return None

    def is_allowed(role: str, resource: ResourceName, flavor: str) -> bool:
        if (role, flavor) in skipped:
            return False
        return keep is None or keep.get(role, {}).get(resource) == flavor

    return is_allowed


def _any_left(queue: Queue, job: Job, skipped: RoleFlavors) -> bool:
    """Return whether each role has a flavor of the queue left to examine, as far as that is simple."""
    if len(job.roles) != 1:
        return True
    return any(
        (job.roles[0].name, name) not in skipped for group in queue.effective_groups for name in group.flavors
    )
