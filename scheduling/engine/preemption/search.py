"""The search for victims: the jobs to evict so that one job fits.

One object serves a whole cycle and caches what does not depend on the preemptor. Every search leaves the
snapshot unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from scheduling.engine.model import FlavorResource, Instant
from scheduling.engine.model.options import FairSharing, PreemptionOptions
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.preemption.candidates.candidates import CandidateIndex, UserLoad, VictimCandidate
from scheduling.engine.preemption.candidates.freeable_quota import FreeableQuota
from scheduling.engine.preemption.candidates.policy import allows_any_victim
from scheduling.engine.preemption.node_clearance import NodeClearance
from scheduling.engine.preemption.node_victims import NodeVictimIndex
from scheduling.engine.preemption.strategies.classical import ClassicalPreemption, QueuedCandidate
from scheduling.engine.preemption.strategies.fair import FairPreemption, Reorder
from scheduling.engine.preemption.strategies.preemptible_queues import (
    PreemptibleQueues,
    find_preemptible_queues,
)
from scheduling.engine.preemption.trials.collect import collect_victims
from scheduling.engine.preemption.trials.context import PreemptionContext, Victim, VictimSearchBudget
from scheduling.engine.preemption.trials.fill_back import fill_back, fill_back_by_cost, find_unjustified
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter, get_slot_counts, is_countable
from scheduling.engine.preemption.trials.targets import (
    CountedShape,
    PlacementCheck,
    Preemptor,
    Target,
    TargetSet,
)
from scheduling.engine.preemption.trials.trial import RemovalTrial
from scheduling.engine.state.snapshot import Snapshot

# The number of candidates that a second choice reorders, and the number of victims that may prove
# unjustified before the search ends without a result.
MAX_REORDERED = 256
MAX_RESTARTS = 16
# The number of times that nodes are cleared anew after a victim proved unjustified.
MAX_CLEARANCES = 4


class CandidateChoice(Enum):
    """The order in which an attempt takes candidates.

    `IN_ORDER`: by the configured victim order. `BY_COST_PER_GAIN`: the lowest eviction cost for the released
    amount first. `PAST_OVERUSE`: in order, but past the point where a queue exceeds its quota; the final
    check then restores what is not justified.
    """

    IN_ORDER = auto()
    BY_COST_PER_GAIN = auto()
    PAST_OVERUSE = auto()


@dataclass(frozen=True, slots=True)
class CandidateSurvey:
    """The whole jobs that may be evicted for a preemptor, and how many only guaranteed run time protects."""

    candidates: tuple[VictimCandidate, ...] = ()
    protected_jobs: int = 0


class VictimSearch:
    """The search over one snapshot at one moment; `fair` is None for classical preemption."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        options: PreemptionOptions,
        now: Instant,
        fair: FairSharing | None = None,
        user_load: UserLoad | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.options = options
        self.fair = fair
        self.index = CandidateIndex(snapshot, options, now, user_load)
        self._freeable_quota = FreeableQuota(self.index)
        bounded = fair is not None and options.max_loss_s is not None
        self._max_loss_s = float(options.max_loss_s or 0) if bounded else float("inf")
        self._victim_index: NodeVictimIndex | None = None

    def find_victims(
        self,
        preemptor: Preemptor,
        placement_check: PlacementCheck | None = None,
        counted_shape: Callable[[], CountedShape | None] | None = None,
        *,
        budget: int | None = None,
        any_victims: bool = False,
        only_jobs: frozenset[str] | None = None,
    ) -> TargetSet:
        """Return the victims that make a job fit; the result is empty if no legal set does.

        With `placement_check` the victims' nodes and cards are released as well when it is called, and it
        must return True. `counted_shape` returns the shape of the tasks if they are equal: free slots are
        counted for them where counting is exact. `budget` lowers the configured number of fit checks.
        `any_victims` accepts any victims instead of those with the least loss. `only_jobs` restricts the
        victims to these jobs.
        """
        context = self._new_context(preemptor)
        context.placement_check, context.only_jobs = placement_check, only_jobs
        context.any_victims = any_victims
        effort = context.search_budget
        if budget is not None:
            effort.lower_to(budget)
        asked = self._find_queues(context)
        if asked is None:
            return TargetSet()
        context.policies = asked.policies
        like = None if placement_check is None or counted_shape is None else counted_shape()
        context.slot_counter = slot_counter = None if like is None else self._build_slot_counter(*like)
        with ExitStack() as stack:
            simulated = placement_check is not None and slot_counter is None
            statement = stack.enter_context(self.snapshot.statement()) if simulated else None
            context.trial = RemovalTrial(self.snapshot, statement, slot_counter)
            victims = self._solve(context)
            if victims:
                if self._victim_index is not None:
                    self._victim_index.mark_evicted(victim.candidate for victim in victims)
                return _build_target_set(victims, effort)
            return TargetSet(
                protected_until=self._protected_until(context),
                steps=effort.steps,
                exhausted=effort.exhausted,
            )

    def could_find_victims(self, preemptor: Preemptor) -> bool:
        """Return whether rules and quota allow any victims at all, without looking at single jobs."""
        return self._find_queues(self._new_context(preemptor)) is not None

    def list_candidates(self, preemptor: Preemptor) -> CandidateSurvey:
        """Return the jobs that rules and shares allow to evict for a preemptor, whether or not they suffice.

        Those in their guaranteed run time are only counted.
        """
        context = self._new_context(preemptor)
        rules = preemptor.queue.preemption
        if not allows_any_victim(rules.within_queue) and not allows_any_victim(rules.reclaim):
            return CandidateSurvey()
        policies = find_preemptible_queues(context, self.fair, self._freeable_quota).policies
        found = tuple(
            candidate
            for queue in sorted(policies)
            for segment in self.index.queue_segments(queue)
            for candidate in segment
            if candidate.whole and context.is_eligible(candidate, policies[queue])
        )
        return CandidateSurvey(found, len(context.protected))

    def _new_context(self, preemptor: Preemptor) -> PreemptionContext:
        return PreemptionContext(
            index=self.index,
            preemptor=preemptor,
            trial=RemovalTrial(self.snapshot, None),
            search_budget=VictimSearchBudget(self.options.search_budget),
            max_loss_s=self._max_loss_s,
            protection_deadline=self._protection_deadline(preemptor),
        )

    def _find_queues(self, context: PreemptionContext) -> PreemptibleQueues | None:
        """Return the queues that may contain victims; None if there are none, or too few."""
        rules = context.preemptor.queue.preemption
        if not allows_any_victim(rules.within_queue) and not allows_any_victim(rules.reclaim):
            return None
        asked = find_preemptible_queues(context, self.fair, self._freeable_quota)
        return asked if asked.policies and not asked.is_infeasible(context) else None

    def _protection_deadline(self, preemptor: Preemptor) -> float:
        """Return the time until which a preemptor respects the protection of borrowed use.

        Each borrower is protected from its start. A preemptor inside its own quota would wait for one
        borrower after the other if some start while others are protected: it waits no longer for all of them
        together than for one.
        """
        tree, leaf = self.snapshot.quota, preemptor.queue.quota_node
        if any(tree.borrows(leaf, key, amount) for key, amount in preemptor.usage.items()):
            return float("inf")
        return preemptor.job.submitted_at + self.options.grace_s

    def _protected_until(self, context: PreemptionContext) -> float | None:
        """Return the time at which the job fits at the latest if only guaranteed run times prevent it."""
        if not context.protected or context.search_budget.exhausted:
            return None
        context.ignore_protection = True
        context.excluded.clear()
        ends = [context.protected_until(victim.candidate) for victim in self._solve(context)]
        guarded = [end for end in ends if end > self.index.now]
        return max(guarded, default=None)

    def _solve(self, context: PreemptionContext) -> list[Victim]:
        """Return the best set of victims, with all removals undone."""
        try:
            context.reordered_queues = None
            clearing = self._build_clearance(context)
            if clearing is not None and self.fair is not None:
                return self._clear_nodes(context, self.fair, clearing)
            best = self._justified_victims(context, CandidateChoice.IN_ORDER)
            if not best and context.placement_check is not None and self._may_pass_overuse(context):
                # The first candidates in order may all run on the wrong nodes.
                context.excluded.clear()
                best = self._justified_victims(context, CandidateChoice.PAST_OVERUSE)
            if (
                not best
                or context.any_victims
                or not self.index.least_loss
                or context.search_budget.exhausted
            ):
                return best
            if not any(victim.candidate.weighted_loss for victim in best):
                return best
            context.reordered_queues = frozenset(victim.candidate.queue for victim in best)
            other = self._justified_victims(context, CandidateChoice.BY_COST_PER_GAIN)
            return min(best, other, key=_victims_key) if other else best
        finally:
            if context.charged:
                context.release_preemptor()
            context.trial.restore_all()

    def _clear_nodes(
        self, context: PreemptionContext, fair: FairSharing, clearing: NodeClearance
    ) -> list[Victim]:
        """Return victims on cheap rows, and further ones by fair sharing where quota needs more."""
        context.charge_preemptor()
        if clearing.is_infeasible:
            self._note_protection(context, clearing)
            return []
        borrow, field, taken = context.borrowing_allowed, FairPreemption(context, fair), list[Victim]()
        for _ in range(MAX_CLEARANCES):
            if not clearing.clear_nodes(field, taken):
                context.trial.restore_all()
                self._note_protection(context, clearing)
                return []
            if not context.quota_fits(borrow=borrow):
                context.search_budget.lower_to(MAX_REORDERED)
                others = FairPreemption(context, fair, _skip_removed(context)).take_victims()
                taken = collect_victims(context, others, borrow=borrow, first=taken) or []
                if not taken:
                    return []
            taken = fill_back_by_cost(context, taken, borrow=borrow)
            wrong = find_unjustified(context, taken) if self.options.final_check else None
            if wrong is None:
                return taken
            context.trial.restore_removal(wrong.removal)
            context.excluded.add(wrong.candidate.id)
            taken.remove(wrong)
        return []

    def _build_slot_counter(self, board: ScoreBoard, needed: int) -> FreeSlotCounter | None:
        """Return a slot counter for a shape; None if counting would not be exact."""
        if not is_countable(board):
            return None
        return FreeSlotCounter(get_slot_counts(board), needed)

    def _build_clearance(self, context: PreemptionContext) -> NodeClearance | None:
        """Return the node clearance; None if the order of the candidates alone decides."""
        if (
            context.slot_counter is None
            or self.fair is None
            or not self.index.least_loss
            or context.slot_counter.fits
        ):
            return None
        if self._victim_index is None:
            self._victim_index = NodeVictimIndex(self.index, self.snapshot.fleet)
        return NodeClearance(self._victim_index, context, context.slot_counter)

    def _note_protection(self, context: PreemptionContext, clearing: NodeClearance) -> None:
        """Record in the context whether only guaranteed run times leave too few slots."""
        victim_index, slot_counter = self._victim_index, context.slot_counter
        if (
            context.ignore_protection
            or victim_index is None
            or slot_counter is None
            or not victim_index.has_protected(context)
        ):
            return
        if not context.protects_borrowed_use or not clearing.is_infeasible:
            return
        context.ignore_protection = True
        unguarded = NodeClearance(victim_index, context, slot_counter)
        # With the same candidates it is infeasible as well.
        if not unguarded.has_same_candidates(clearing) and not unguarded.is_infeasible:
            context.protected.add(context.preemptor.job.id)
        context.ignore_protection = False

    def _may_pass_overuse(self, context: PreemptionContext) -> bool:
        return self.fair is None and self.options.final_check and not context.search_budget.exhausted

    def _justified_victims(self, context: PreemptionContext, choice: CandidateChoice) -> list[Victim]:
        """Return a set in which every victim is needed and, if configured, still justified at the end."""
        victims = self._collect(context, choice)
        for _ in range(MAX_RESTARTS):
            wrong = self._find_unjustified(context, victims)
            if wrong is None:
                context.trial.restore_all()
                return victims
            context.excluded.add(wrong.candidate.id)
            victims = self._replace_victim(context, choice, victims, wrong)
        context.trial.restore_all()
        return []

    def _find_unjustified(self, context: PreemptionContext, victims: list[Victim]) -> Victim | None:
        """Return a victim that is not justified any more."""
        if not victims or not self.options.final_check:
            return None
        if self.fair is not None:
            context.charge_preemptor()
        wrong = find_unjustified(context, victims)
        if self.fair is not None:
            context.release_preemptor()
        return wrong

    def _replace_victim(
        self, context: PreemptionContext, choice: CandidateChoice, victims: list[Victim], wrong: Victim
    ) -> list[Victim]:
        """Collect victims anew without one of them; under fair sharing the others are kept."""
        if self.fair is None:
            context.trial.restore_all()
            return self._collect_classical(context, choice)
        context.trial.restore_removal(wrong.removal)
        remaining = [victim for victim in victims if victim is not wrong]
        return self._collect_fair(context, self.fair, choice, remaining)

    def _collect(self, context: PreemptionContext, choice: CandidateChoice) -> list[Victim]:
        if self.fair is None:
            return self._collect_classical(context, choice)
        return self._collect_fair(context, self.fair, choice)

    def _collect_classical(self, context: PreemptionContext, choice: CandidateChoice) -> list[Victim]:
        field = ClassicalPreemption(context)
        for borrow in field.borrow_attempts():
            offers: Iterable[QueuedCandidate] = field.ordered_candidates(borrow=borrow)
            if choice is CandidateChoice.BY_COST_PER_GAIN:
                weigh = CostPerGain(context)
                offers = sorted(islice(offers, MAX_REORDERED), key=lambda offer: weigh(offer[1]))
            victims = collect_victims(
                context,
                field.take_victims(offers, borrow=borrow, loose=choice is CandidateChoice.PAST_OVERUSE),
                borrow=borrow,
            )
            if victims:
                return self._fill_back(context, victims, borrow=borrow)
        return []

    def _collect_fair(
        self,
        context: PreemptionContext,
        fair: FairSharing,
        choice: CandidateChoice,
        first: Sequence[Victim] = (),
    ) -> list[Victim]:
        """Return victims in the order of fair sharing, beside `first`, which were removed before."""
        borrow, reorder = context.borrowing_allowed, _skip_removed(context)
        if choice is CandidateChoice.BY_COST_PER_GAIN:
            reorder = self._reorder_by_cost(context, reorder)
        context.charge_preemptor()
        if first and context.preemptor_fits(borrow=borrow):
            victims: list[Victim] | None = list(first)
        else:
            field = FairPreemption(context, fair, reorder)
            victims = collect_victims(context, field.take_victims(), borrow=borrow, first=first)
        context.release_preemptor()
        return self._fill_back(context, victims, borrow=borrow) if victims else []

    def _reorder_by_cost(self, context: PreemptionContext, left: Reorder) -> Reorder:
        """Return a reordering by cost per gain for the queues from which the first choice took victims."""
        weigh, queues = CostPerGain(context), context.reordered_queues or frozenset()

        def arranged(queue: str, line: Iterator[VictimCandidate]) -> Iterator[VictimCandidate]:
            line = left(queue, line)
            return iter(sorted(islice(line, MAX_REORDERED), key=weigh)) if queue in queues else line

        return arranged

    def _fill_back(self, context: PreemptionContext, victims: list[Victim], *, borrow: bool) -> list[Victim]:
        if self.index.least_loss:
            return fill_back_by_cost(context, victims, borrow=borrow)
        return fill_back(context, victims, borrow=borrow)


class CostPerGain:
    """A sort key: priority, then the eviction cost in GPU-seconds for the amount that a candidate releases.

    The gain of a candidate is the part of the missing amounts that it releases, so that a large job gains no
    more than is needed.
    """

    def __init__(self, context: PreemptionContext) -> None:
        tree, leaf, preemptor = context.tree, context.leaf, context.preemptor
        self._missing: list[tuple[FlavorResource, int]] = []
        for key in sorted(preemptor.contested):
            amount, available = preemptor.usage.get(key, 0), tree.available(leaf, key)
            short = amount if available is None else amount - available
            missing = short if short > 0 else amount
            if missing > 0:
                self._missing.append((key, missing))

    def __call__(self, candidate: VictimCandidate) -> tuple[bool, int, float, float, str]:
        charges, given = candidate.charges, 0.0
        for key, missing in self._missing:
            given += min(charges.get(key, 0), missing) / missing
        per_gain = candidate.eviction_cost / given if given else float("inf")
        return (
            not candidate.leaving,
            candidate.job.priority,
            per_gain,
            candidate.eviction_cost,
            candidate.id,
        )


def _skip_removed(context: PreemptionContext) -> Reorder:
    """Return a reordering that skips candidates whose tasks were all removed before."""

    def left(_: str, line: Iterator[VictimCandidate]) -> Iterator[VictimCandidate]:
        return (candidate for candidate in line if not all(map(context.trial.has_removed, candidate.tasks)))

    return left


def _victims_key(victims: list[Victim]) -> tuple[float, float, int, tuple[str, ...]]:
    """Return the sort key of sets of victims: highest priority, then cost in GPU-seconds, then number."""
    placed = [victim.candidate for victim in victims if not victim.candidate.leaving]
    priority = max((candidate.job.priority for candidate in placed), default=float("-inf"))
    ids = tuple(sorted(candidate.id for candidate in placed))
    return (priority, sum(candidate.eviction_cost for candidate in placed), len(placed), ids)


def _build_target_set(victims: list[Victim], effort: VictimSearchBudget) -> TargetSet:
    spared: dict[str, list[str]] = {}
    first: dict[str, Victim] = {}
    for victim in victims:
        job = victim.candidate.job.id
        first.setdefault(job, victim)
        if not victim.candidate.whole:
            spared.setdefault(job, []).extend(task.id for task in victim.removal.tasks)
    lost = sum(victim.candidate.lost_work for victim in victims)
    return TargetSet(
        targets=tuple(
            Target(
                job=job,
                rule=victim.rule,
                tasks=tuple(spared.get(job, ())),
                already_leaving=victim.candidate.leaving,
            )
            for job, victim in first.items()
        ),
        steps=effort.steps,
        exhausted=effort.exhausted,
        numbers={"gpu_seconds": round(lost)},
    )
