"""Whom to ask first so that a gang finds its places: candidates on the rows that are cheapest to clear.

Candidates taken in the order of their rank stand anywhere, and on a large fleet it takes hundreds of them
before one node is free. Here each row is asked for which of its candidates one more task would fit, and
the cheapest rows are cleared one after the other until the gang has its seats, each candidate by a rule
that allows it at that moment. What all legal candidates together could free is a bound that ends hopeless
searches early.
"""

from __future__ import annotations

from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from scheduling.engine.model.options import ShareStrategy
from scheduling.engine.placement.index.row import Row
from scheduling.engine.preemption.candidates import Candidate
from scheduling.engine.preemption.collect import add
from scheduling.engine.preemption.contest import Contest, Victim
from scheduling.engine.preemption.fair import FairField
from scheduling.engine.preemption.ground import Crowd, Ground, Site
from scheduling.engine.preemption.register import Floats
from scheduling.engine.preemption.seats import Seats
from scheduling.engine.state.fleet import Bools, Ints

# Rows that are looked at together for each seat that is missing, and at least; and the most in all.
ROWS_PER_SEAT, FEWEST_ROWS, MOST_ROWS = 2, 8, 256
# How many times as many rows are known each time that those known are too few.
MORE_ROWS = 8
# More core units than any card has.
NEVER = 2**40
MOST_IN_VAIN = 2
"""Batches of rows without one that is easier than the best known: after so many no more are looked at."""


class Step(NamedTuple):
    """Candidates of one row with which it holds one more task, and how hard they are to take together, in the
    order of the platform. Equally hard steps go by row."""

    hard: float
    tasks: int
    row: int
    candidates: tuple[Candidate, ...]


class Prospect:
    """What some queues could give: `legal` `[holdings]` marks who may be asked, `rows` are those that could
    give seats and how hard it is at least to clear each for one more, `gain` bounds how many that would be.

    The easiest rows come first, and more of them as they are asked for: what a row could give takes longer
    to tell than how hard it is.
    """

    def __init__(self, legal: Bools, site: Site, crowd: Crowd, seats: Seats) -> None:
        self.legal = legal
        self.rows: list[tuple[float, int]] = []
        self.gain: dict[int, int] = {}
        self._site, self._crowd, self._seats = site, crowd, seats
        self._hard = _hardness(crowd, seats)
        self._seen, self._lacking = 0, seats.needed - seats.total

    def reaches(self, count: int) -> bool:
        """Whether there are so many rows; as many are known then."""
        while len(self.rows) < count and self._look_on():
            pass
        return len(self.rows) >= count

    @property
    def hopeless(self) -> bool:
        """Whether there would be too few seats with everybody gone."""
        while self._lacking > 0 and self._look_on():
            pass
        return self._lacking > 0

    def _look_on(self) -> bool:
        """Tell what some more rows could give; False where all are known."""
        if self._seen == len(self._hard):
            return False
        picked = _lowest(self._hard, MORE_ROWS * max(FEWEST_ROWS, self._seen))[self._seen :]
        self._seen += len(picked)
        crowd, seats = self._crowd.on(picked), self._seats
        most = np.minimum(_potential(self._site, crowd, seats), seats.needed)
        gain = most - np.minimum(seats.counts[crowd.rows], seats.needed)
        some = np.flatnonzero(gain > 0)
        rows: list[int] = crowd.rows[some].tolist()
        self.rows.extend(zip(self._hard[picked[some]].tolist(), rows, strict=True))
        self.gain.update(zip(rows, gain[some].tolist(), strict=True))
        self._lacking -= int(gain[some].sum())
        return True


class Clearing:
    """One gang's question: which rows to clear for it, and of whom."""

    def __init__(self, ground: Ground, contest: Contest, seats: Seats) -> None:
        self._ground, self._contest, self._seats = ground, contest, seats
        self._all: Prospect | None = None
        self._legal_of_all: Bools | None = None

    @property
    def hopeless(self) -> bool:
        """Whether there would be too few seats with everybody gone who may be asked.

        Tasks that can be spared are part of whole jobs, so they are counted.
        """
        return self._of_all().hopeless

    def asks_as(self, other: Clearing) -> bool:
        """Whether nobody may be asked whom another one may not ask, and the reverse."""
        return bool((self._legal() == other._legal()).all())

    def clear(self, field: FairField, taken: list[Victim]) -> bool:
        """Take candidates of the cheapest rows until there are seats, and add them to `taken`.

        The first strategy comes first; where it does not suffice, the others let one more of each queue
        go. False where rows that were looked at do not suffice, or the budget ends.
        """
        too_few: set[str] = set()
        for number, strategy in enumerate(field.fair.strategies):
            sweep = _Sweep(self, field, taken, strategy, once=number > 0)
            # While nobody is taken, less is to be had of some of the queues than of all of them.
            known = not taken and bool(too_few) and sweep.open <= too_few
            if self._seats.fit or (not known and sweep.run()):
                return True
            if field.within:
                break
            too_few = sweep.open if known or sweep.hopeless else set()
        return False

    def prospect(self, queues: set[str]) -> Prospect:
        """What these queues could give. Of all that may be asked it is known."""
        if len(queues) == len(self._contest.policies):
            return self._of_all()
        return self._prospect(self._legal() & self._ground.of_queues(queues))

    def _of_all(self) -> Prospect:
        if self._all is None:
            self._all = self._prospect(self._legal())
        return self._all

    def _legal(self) -> Bools:
        """Who of all queues may be asked, as it was when it was first asked for."""
        if self._legal_of_all is None:
            self._legal_of_all = self._ground.legal(self._contest, self._contest.policies)
        return self._legal_of_all

    def _prospect(self, legal: Bools) -> Prospect:
        site = self._ground.site(self._seats.board.lasting())
        crowd = site.crowd(legal.take(site.who) & self._ground.there(site.tasks))
        return Prospect(legal, site, crowd, self._seats)


def _hardness(crowd: Crowd, seats: Seats) -> Floats:
    """What one more seat costs on each row of a crowd at least, as far as cards tell."""
    question, rows = seats.board.question, crowd.rows
    task = question.task
    if task.cards and task.whole:
        wanted = task.cards * (seats.counts[rows] + 1) - seats.empty[rows]
        return crowd.easiest_cards(np.maximum(wanted, 1))
    if task.cards:
        cards = crowd.cards
        usable, free = question.usable[cards], question.fleet.cores_free[cards] % task.cores
        return crowd.easiest_part(np.where(usable, task.cores - free, NEVER))
    return crowd.easiest_cards(np.ones(len(rows), np.int64))


def _lowest(hard: Floats, count: int) -> Ints:
    """So many places, those of the lowest values first; equal ones by place."""
    places = np.arange(len(hard))
    if count < len(hard):
        places = np.flatnonzero(hard <= np.partition(hard, count)[count])
    found: Ints = places[np.argsort(hard[places], kind="stable")][:count]
    return found


def _potential(site: Site, crowd: Crowd, seats: Seats) -> Ints:
    """Slots of each row of a crowd if all of it had left, at most."""
    question, rows = seats.board.question, crowd.rows
    fleet, task = question.fleet, question.task
    most = np.full(len(rows), np.iinfo(np.int64).max // 4, np.int64)
    if task.cpu:
        most = np.minimum(most, (fleet.cpu_free[rows] + crowd.sums(site.cpu)) // task.cpu)
    if task.memory:
        most = np.minimum(most, (fleet.memory_free[rows] + crowd.sums(site.memory)) // task.memory)
    if task.cards and task.whole:
        most = np.minimum(most, (seats.empty[rows] + crowd.sums(site.cards)) // task.cards)
    elif task.cards:
        free = fleet.cores_free[rows] + crowd.of_cards()
        parts = np.where(question.usable[rows], free // task.cores, 0).sum(axis=1)
        # Who has parts of several cards could complete a part on each of them.
        more = crowd.sums(site.several_cores) // task.cores + crowd.sums(site.several_cards)
        most = np.minimum(most, parts + more)
    return np.maximum(most, 0)


class _Sweep:
    """One pass over the rows by one strategy. `once`: of each queue one more may go.

    `open` are the queues of which somebody may still be taken.
    """

    def __init__(
        self,
        clearing: Clearing,
        field: FairField,
        taken: list[Victim],
        strategy: ShareStrategy,
        *,
        once: bool,
    ) -> None:
        self._ground, self._contest, self._seats = clearing._ground, clearing._contest, clearing._seats
        self._field, self._taken, self._strategy, self._once = field, taken, strategy, once
        self.open = field.accepting(self._contest.policies, strategy)
        self._clearing = clearing
        self._gone = {victim.candidate.id for victim in taken}
        self._most = max(MOST_ROWS, self._batch)
        self._refused: set[str] = set()

    @cached_property
    def _prospect(self) -> Prospect:
        """What the queues that were open when it was first asked for could give."""
        return self._clearing.prospect(self.open)

    @property
    def hopeless(self) -> bool:
        """Whether there would be too few seats with all gone whom the strategy may let go."""
        return self._prospect.hopeless

    def run(self) -> bool:
        """Whether there are seats now."""
        seats, heap = self._seats, list[Step]()
        if self.hopeless:
            return False
        prospect, looked, vain = self._prospect, 0, 0
        while not seats.fit:
            # No row is easier to clear than is told of it before: those left cannot beat the best known.
            if self._tempts(looked, heap, vain):
                best = heap[0].hard if heap else float("inf")
                upto = min(looked + self._batch, self._most)
                prospect.reaches(upto)
                for _, row in prospect.rows[looked:upto]:
                    self._note(heap, row)
                looked = upto
                vain = vain + 1 if heap and heap[0].hard >= best else 0
                continue
            vain = 0
            if not heap or not self._contest.effort.spend():
                return False
            step = heappop(heap)
            if all(map(self._may_take, step.candidates)):
                self._take(step)
            if not seats.fit:
                self._note(heap, step.row)
        return True

    def _tempts(self, looked: int, heap: list[Step], vain: int) -> bool:
        """Whether the next rows are looked at, before the best known step is taken."""
        if looked >= self._most or not self._prospect.reaches(looked + 1):
            return False
        return not heap or (vain < MOST_IN_VAIN and self._prospect.rows[looked][0] < heap[0].hard)

    def _note(self, heap: list[Step], row: int) -> None:
        step = self._step(row)
        if step is not None:
            heappush(heap, step)

    @property
    def _batch(self) -> int:
        """Rows that are looked at together."""
        return max(FEWEST_ROWS, ROWS_PER_SEAT * (self._seats.needed - self._seats.total))

    def _step(self, row: int) -> Step | None:
        """The first candidates of a row, cheapest first, with which it holds one task more."""
        if self._seats.more(row) >= self._prospect.gain[row]:
            return None
        state = self._seats.at(row)
        before, chosen = state.slots(), list[Candidate]()
        legal = self._prospect.legal
        for number, candidate in self._ground.on_row(row):
            if not legal[number] or not self._may_ask(candidate):
                continue
            self._lift(state, candidate, row, 1)
            chosen.append(candidate)
            if state.slots() > before:
                break
        else:
            return None
        for candidate in chosen[-2::-1]:
            self._lift(state, candidate, row, -1)
            if state.slots() > before:
                chosen.remove(candidate)
            else:
                self._lift(state, candidate, row, 1)
        staying = [candidate for candidate in chosen if not candidate.leaving]
        hard = self._ground.hardness(staying)
        return Step(hard, sum(len(each.tasks) for each in staying), row, tuple(chosen))

    def _may_ask(self, candidate: Candidate) -> bool:
        if candidate.queue not in self.open or candidate.id in self._refused or candidate.id in self._gone:
            return False
        policy = self._contest.policies[candidate.queue]
        return candidate.job.id not in self._gone and self._contest.may_ask(candidate, policy)

    def _may_take(self, candidate: Candidate) -> bool:
        """Whether a candidate that was asked when its step was found may still be taken."""
        if candidate.queue in self.open and not self._field.open(candidate.queue, self._strategy):
            self.open.remove(candidate.queue)
        return self._may_ask(candidate)

    def _take(self, step: Step) -> None:
        """Remove all candidates of a step; nobody where one of them is refused."""
        found: list[Victim] = []
        for candidate in step.candidates:
            victim = self._field.take_one(candidate, self._strategy)
            if victim is None:
                self._refused.add(candidate.id)
                for other in reversed(found):
                    self._contest.trial.restore(other.removal)
                return
            found.append(victim)
        for victim in found:
            add(self._taken, victim)
            self._gone.add(victim.candidate.id)
            if self._once and victim.candidate.queue != self._contest.preemptor.queue.id:
                self.open.discard(victim.candidate.queue)

    def _lift(self, state: Row, candidate: Candidate, row: int, sign: int) -> None:
        """Think the candidate's tasks on a row away, or back; some may have left on their own before."""
        for task in candidate.tasks:
            if self._ground.fleet.row.get(task.node) == row and not self._contest.trial.took(task):
                state.book(task, sign)
