"""The search for victims: who must leave so that one job fits.

One object serves a whole cycle and keeps what does not depend on the preemptor. Every search leaves the
snapshot as it found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from enum import Enum, auto
from itertools import islice

from scheduling.engine.model import FlavorResource, Instant
from scheduling.engine.model.options import FairSharing, PreemptionOptions
from scheduling.engine.placement.board import Board
from scheduling.engine.preemption.askable import Askable, askable
from scheduling.engine.preemption.candidates import Candidate, Roster, UserLoad
from scheduling.engine.preemption.classical import ClassicalField, Offer
from scheduling.engine.preemption.clearing import Clearing
from scheduling.engine.preemption.collect import collect
from scheduling.engine.preemption.contest import Contest, Effort, Victim
from scheduling.engine.preemption.fair import FairField, Reorder
from scheduling.engine.preemption.fillback import fill_back, fill_back_dearest, unjustified
from scheduling.engine.preemption.ground import Ground
from scheduling.engine.preemption.policy import may_push_anyone
from scheduling.engine.preemption.reach import Reach
from scheduling.engine.preemption.seats import Seats, countable, slots_of
from scheduling.engine.preemption.targets import Alike, Preemptor, Room, Target, TargetSet
from scheduling.engine.preemption.trial import Trial
from scheduling.engine.state.snapshot import Snapshot

# How many candidates a second, cheaper choice is made from, and how many victims may prove unjustified
# in the end before the search gives up.
WEIGHED = 256
RESTARTS = 16
# How often rows are chosen anew, and how many victims on them may prove unjustified.
CLEARINGS = 4


class Choice(Enum):
    """Which candidates an attempt takes.

    `IN_ORDER`: as they stand in line. `WEIGHED`: those first that lose least for what they give. `LOOSE`:
    in order, but past a queue's overuse, for the check of the end to sort out.
    """

    IN_ORDER = auto()
    WEIGHED = auto()
    LOOSE = auto()


class VictimSearch:
    """Searches over one snapshot at one moment; `fair` is None for classical preemption."""

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
        self.roster = Roster(snapshot, options, now, user_load)
        self._reach = Reach(self.roster)
        bounded = fair is not None and options.share_loss_s is not None
        self._share_loss_s = float(options.share_loss_s or 0) if bounded else float("inf")
        self._ground: Ground | None = None

    def find(
        self,
        preemptor: Preemptor,
        room: Room | None = None,
        alike: Callable[[], Alike | None] | None = None,
        *,
        budget: int | None = None,
        whether: bool = False,
        only: frozenset[str] | None = None,
    ) -> TargetSet:
        """The victims that let a job in, none where no legal set does.

        With `room` the victims' nodes and cards are free as well when it is called, and it must hold.
        `alike` tells whether tasks are alike: places are counted for them where that is exact. `budget` is
        how often it is looked whether the job fits, where that is less than the configured number.
        `whether`: any victims will do, not only those that lose least. `only`: no other jobs are asked.
        """
        effort = Effort(min(self.options.budget, self.options.budget if budget is None else budget))
        contest = Contest(
            roster=self.roster,
            preemptor=preemptor,
            trial=Trial(self.snapshot, None),
            effort=effort,
            room=room,
            whether=whether,
            share_loss_s=self._share_loss_s,
            patience=self._patience(preemptor),
            only=only,
        )
        asked = self._asked(contest)
        if asked is None:
            return TargetSet()
        contest.policies = asked.policies
        like = None if room is None or alike is None else alike()
        contest.seats = seats = None if like is None else self._seats(*like)
        with ExitStack() as stack:
            simulated = room is not None and seats is None
            statement = stack.enter_context(self.snapshot.statement()) if simulated else None
            contest.trial = Trial(self.snapshot, statement, seats)
            victims = self._solve(contest)
            if victims:
                if self._ground is not None:
                    self._ground.told(victim.candidate for victim in victims)
                return _answer(victims, effort)
            return TargetSet(
                protected_until=self._protected_until(contest),
                steps=effort.steps,
                exhausted=effort.exhausted,
            )

    def may_find(self, preemptor: Preemptor) -> bool:
        """Whether there could be victims at all, as rules and quotas tell before a job is looked at."""
        contest = Contest(
            roster=self.roster,
            preemptor=preemptor,
            trial=Trial(self.snapshot, None),
            effort=Effort(self.options.budget),
            share_loss_s=self._share_loss_s,
            patience=self._patience(preemptor),
        )
        return self._asked(contest) is not None

    def _asked(self, contest: Contest) -> Askable | None:
        """Whom a preemptor could ask; None where that is nobody, or too few."""
        preemptor = contest.preemptor
        rules = preemptor.queue.preemption
        if not may_push_anyone(rules.within_queue) and not may_push_anyone(rules.reclaim):
            return None
        if self._all_too_dear(preemptor):
            return None
        asked = askable(contest, self.fair, self._reach)
        return asked if asked.policies and not asked.hopeless(contest) else None

    def _patience(self, preemptor: Preemptor) -> float:
        """Until when a preemptor heeds the protection of borrowed use.

        Each borrower is protected from its start. Who asks for what its queue owns would wait for one after
        the other, where some start while others are protected: it waits for all of them together no longer
        than for one.
        """
        tree, leaf = self.snapshot.quota, preemptor.queue.quota_node
        if any(tree.borrows(leaf, key, amount) for key, amount in preemptor.usage.items()):
            return float("inf")
        return preemptor.job.submitted_at + self.options.grace_s

    def _all_too_dear(self, preemptor: Preemptor) -> bool:
        """Whether the preemptor borrows, and nobody's job is as cheap as one borrower may take of another."""
        own = preemptor.queue
        if self._share_loss_s == float("inf") or may_push_anyone(own.preemption.within_queue):
            return False
        tree, contested, others = self.snapshot.quota, preemptor.contested, self.snapshot.queues.values()
        for queue in others:
            above = queue.id != own.id and not tree.inside(queue.quota_node, contested)
            if above and self.roster.cheapest(queue.id) <= self._share_loss_s:
                return False
        path = tuple(tree.path(own.quota_node))
        tree.add_usages(own.quota_node, preemptor.usage)
        try:
            return not any(tree.inside(node, contested) for node in path[:-1])
        finally:
            tree.remove_usages(own.quota_node, preemptor.usage)

    def _protected_until(self, contest: Contest) -> float | None:
        """When the job would fit at the latest if only guaranteed run times stood in its way."""
        if not contest.guarded or contest.effort.exhausted:
            return None
        contest.ignore_guard = True
        contest.banned.clear()
        ends = [contest.until(victim.candidate) for victim in self._solve(contest)]
        guarded = [end for end in ends if end > self.roster.now]
        return max(guarded, default=None)

    def _solve(self, contest: Contest) -> list[Victim]:
        """The best set that can be found, with nothing removed any more."""
        try:
            contest.weighed = None
            clearing = self._clearing(contest)
            if clearing is not None and self.fair is not None:
                return self._cleared(contest, self.fair, clearing)
            best = self._settled(contest, Choice.IN_ORDER)
            if not best and contest.room is not None and self._may_be_loose(contest):
                # The first that the order names may all stand in the wrong places.
                contest.banned.clear()
                best = self._settled(contest, Choice.LOOSE)
            if not best or contest.whether or not self.roster.least_loss or contest.effort.exhausted:
                return best
            if not any(victim.candidate.work for victim in best):
                return best
            contest.weighed = frozenset(victim.candidate.queue for victim in best)
            other = self._settled(contest, Choice.WEIGHED)
            return min(best, other, key=_cost) if other else best
        finally:
            if contest.charged:
                contest.uncharge()
            contest.trial.reset()

    def _cleared(self, contest: Contest, fair: FairSharing, clearing: Clearing) -> list[Victim]:
        """Victims on cheap rows, and others in the order of fairness where quota needs more than that."""
        borrow, field, taken = contest.borrowing_allowed, FairField(contest, fair), list[Victim]()
        contest.charge()
        for _ in range(CLEARINGS):
            if not clearing.clear(field, taken):
                contest.trial.reset()
                self._note_guarded(contest, clearing)
                return []
            if not contest.quota_fits(borrow=borrow):
                contest.effort.limit(WEIGHED)
                others = FairField(contest, fair, _left(contest)).take()
                taken = collect(contest, others, borrow=borrow, first=taken) or []
                if not taken:
                    return []
            taken = fill_back_dearest(contest, taken, borrow=borrow)
            wrong = unjustified(contest, taken) if self.options.final_check else None
            if wrong is None:
                return taken
            contest.trial.restore(wrong.removal)
            contest.banned.add(wrong.candidate.id)
            taken.remove(wrong)
        return []

    def _seats(self, board: Board, needed: int) -> Seats | None:
        """Counted seats for a shape; None where counting would not be exact."""
        if not countable(board):
            return None
        return Seats(slots_of(board), needed)

    def _clearing(self, contest: Contest) -> Clearing | None:
        """Which rows to clear; None where the order of the candidates alone decides."""
        if contest.seats is None or self.fair is None or not self.roster.least_loss or contest.seats.fit:
            return None
        if self._ground is None:
            self._ground = Ground(self.roster, self.snapshot.fleet)
        return Clearing(self._ground, contest, contest.seats)

    def _note_guarded(self, contest: Contest, clearing: Clearing) -> None:
        """Whether it is guaranteed run times alone that leave too few seats."""
        ground, seats = self._ground, contest.seats
        if contest.ignore_guard or ground is None or seats is None or not ground.guarded(contest):
            return
        if not contest.guards_borrowed_use or not clearing.hopeless:
            return
        contest.ignore_guard = True
        unguarded = Clearing(ground, contest, seats)
        # With nobody more to ask it is as hopeless.
        if not unguarded.asks_as(clearing) and not unguarded.hopeless:
            contest.guarded.add(contest.preemptor.job.id)
        contest.ignore_guard = False

    def _may_be_loose(self, contest: Contest) -> bool:
        return self.fair is None and self.options.final_check and not contest.effort.exhausted

    def _settled(self, contest: Contest, choice: Choice) -> list[Victim]:
        """A set in which every victim is needed and, if so configured, still justified at the end."""
        victims = self._attempt(contest, choice)
        for _ in range(RESTARTS):
            wrong = self._wrong(contest, victims)
            if wrong is None:
                contest.trial.reset()
                return victims
            contest.banned.add(wrong.candidate.id)
            victims = self._without(contest, choice, victims, wrong)
        contest.trial.reset()
        return []

    def _wrong(self, contest: Contest, victims: list[Victim]) -> Victim | None:
        """A victim that is not justified any more."""
        if not victims or not self.options.final_check:
            return None
        if self.fair is not None:
            contest.charge()
        wrong = unjustified(contest, victims)
        if self.fair is not None:
            contest.uncharge()
        return wrong

    def _without(
        self, contest: Contest, choice: Choice, victims: list[Victim], wrong: Victim
    ) -> list[Victim]:
        """Others in the place of a victim: under fair sharing beside those that were found."""
        if self.fair is None:
            contest.trial.reset()
            return self._classical(contest, choice)
        contest.trial.restore(wrong.removal)
        kept = [victim for victim in victims if victim is not wrong]
        return self._fair(contest, self.fair, choice, kept)

    def _attempt(self, contest: Contest, choice: Choice) -> list[Victim]:
        if self.fair is None:
            return self._classical(contest, choice)
        return self._fair(contest, self.fair, choice)

    def _classical(self, contest: Contest, choice: Choice) -> list[Victim]:
        field = ClassicalField(contest)
        for borrow in field.runs():
            offers: Iterable[Offer] = field.offers(borrow=borrow)
            if choice is Choice.WEIGHED:
                weigh = Scale(contest)
                offers = sorted(islice(offers, WEIGHED), key=lambda offer: weigh(offer[1]))
            victims = collect(
                contest, field.take(offers, borrow=borrow, loose=choice is Choice.LOOSE), borrow=borrow
            )
            if victims:
                return self._filled_back(contest, victims, borrow=borrow)
        return []

    def _fair(
        self, contest: Contest, fair: FairSharing, choice: Choice, first: Sequence[Victim] = ()
    ) -> list[Victim]:
        """Victims in the order of fairness, beside the first ones, which were removed before."""
        borrow, reorder = contest.borrowing_allowed, _left(contest)
        if choice is Choice.WEIGHED:
            reorder = self._reorder(contest, reorder)
        contest.charge()
        if first and contest.fits(borrow=borrow):
            victims: list[Victim] | None = list(first)
        else:
            field = FairField(contest, fair, reorder)
            victims = collect(contest, field.take(), borrow=borrow, first=first)
        contest.uncharge()
        return self._filled_back(contest, victims, borrow=borrow) if victims else []

    def _reorder(self, contest: Contest, left: Reorder) -> Reorder:
        """Weigh the candidates of the queues that the first choice took from."""
        weigh, queues = Scale(contest), contest.weighed or frozenset()

        def arranged(queue: str, line: Iterator[Candidate]) -> Iterator[Candidate]:
            line = left(queue, line)
            return iter(sorted(islice(line, WEIGHED), key=weigh)) if queue in queues else line

        return arranged

    def _filled_back(self, contest: Contest, victims: list[Victim], *, borrow: bool) -> list[Victim]:
        if self.roster.least_loss:
            return fill_back_dearest(contest, victims, borrow=borrow)
        return fill_back(contest, victims, borrow=borrow)


class Scale:
    """Orders candidates by their cost in GPU-seconds for what they give, after priority.

    What a candidate gives is the part of the missing amounts that it frees, so that a large job is worth
    no more than is needed.
    """

    def __init__(self, contest: Contest) -> None:
        tree, leaf, preemptor = contest.tree, contest.leaf, contest.preemptor
        self._missing: list[tuple[FlavorResource, int]] = []
        for key in sorted(preemptor.contested):
            amount, available = preemptor.usage.get(key, 0), tree.available(leaf, key)
            short = amount if available is None else amount - available
            missing = short if short > 0 else amount
            if missing > 0:
                self._missing.append((key, missing))

    def __call__(self, candidate: Candidate) -> tuple[bool, int, float, float, str]:
        charges, given = candidate.charges, 0.0
        for key, missing in self._missing:
            given += min(charges.get(key, 0), missing) / missing
        per_gain = candidate.cost / given if given else float("inf")
        return (not candidate.leaving, candidate.job.priority, per_gain, candidate.cost, candidate.id)


def _left(contest: Contest) -> Reorder:
    """Pass over those of whom nothing is left to take."""

    def left(_: str, line: Iterator[Candidate]) -> Iterator[Candidate]:
        return (candidate for candidate in line if not all(map(contest.trial.took, candidate.tasks)))

    return left


def _cost(victims: list[Victim]) -> tuple[float, float, int, tuple[str, ...]]:
    """Sets compare by their highest priority, then their cost in GPU-seconds, then number."""
    standing = [victim.candidate for victim in victims if not victim.candidate.leaving]
    priority = max((candidate.job.priority for candidate in standing), default=float("-inf"))
    ids = tuple(sorted(candidate.id for candidate in standing))
    return (priority, sum(candidate.cost for candidate in standing), len(standing), ids)


def _answer(victims: list[Victim], effort: Effort) -> TargetSet:
    spared: dict[str, list[str]] = {}
    first: dict[str, Victim] = {}
    for victim in victims:
        job = victim.candidate.job.id
        first.setdefault(job, victim)
        if not victim.candidate.whole:
            spared.setdefault(job, []).extend(task.id for task in victim.removal.tasks)
    lost = sum(victim.candidate.lost for victim in victims)
    return TargetSet(
        targets=tuple(
            Target(
                job=job,
                rule=victim.rule,
                tasks=tuple(spared.get(job, ())),
                already=victim.candidate.leaving,
            )
            for job, victim in first.items()
        ),
        steps=effort.steps,
        exhausted=effort.exhausted,
        numbers={"gpu_seconds": round(lost)},
    )


def find_targets(
    snapshot: Snapshot,
    preemptor: Preemptor,
    *,
    options: PreemptionOptions,
    now: Instant,
    fair: FairSharing | None = None,
    room: Room | None = None,
    user_load: UserLoad | None = None,
) -> TargetSet:
    """One search on its own; a cycle keeps a `VictimSearch` instead."""
    search = VictimSearch(snapshot, options=options, now=now, fair=fair, user_load=user_load)
    return search.find(preemptor, room)
