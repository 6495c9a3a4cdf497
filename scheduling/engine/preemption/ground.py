"""Where the candidates of a roster stand: arrays over their tasks, and who stands on a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Candidate, Roster
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.policy import highest_priority
from scheduling.engine.preemption.register import Floats
from scheduling.engine.state.fleet import Bools, Fleet, Ints

# What weighs as much as so many GPU-seconds: one level of priority, and a job as a whole.
PRIORITY, WHOLE = 1e8, 1e10
Number = TypeVar("Number", np.int64, np.float64)


class Groups:
    """Tasks by where they stand, in each group those first that are easiest to take for what they give.

    `order` are the tasks of all groups, `group` their groups, `hard` how hard each is to take.
    """

    def __init__(self, tasks: Ints, group: Ints, hard: Floats, given: Ints) -> None:
        ranked = np.lexsort((given, hard / np.maximum(1, given), group))
        self.order: Ints = tasks[ranked]
        self._hard: Floats = hard[ranked]
        self._taken, self._starts = np.unique(group[ranked], return_index=True)
        self._ends = np.append(self._starts[1:], len(ranked))

    def sums(self, amounts: NDArray[Number], size: int) -> NDArray[Number]:
        """Amounts of the tasks in their order, summed for each of `size` groups."""
        found = np.zeros(size, amounts.dtype)
        if len(self._taken):
            found[self._taken] = np.add.reduceat(amounts, self._starts)
        return found

    def easiest(self, asked: Bools, amounts: Ints, wanted: Ints) -> Floats:
        """How hard it is to have in each group the wanted amount of what the asked hold, the easiest first;
        infinite where all of them together do not suffice."""
        found = np.full(len(wanted), np.inf)
        if len(self._taken):
            given, hard = np.cumsum(amounts * asked), np.cumsum(self._hard * asked)
            before = np.where(self._starts > 0, given[self._starts - 1], 0)
            last = np.searchsorted(given, before + wanted[self._taken])
            easy = hard[np.minimum(last, len(hard) - 1)]
            easy -= np.where(self._starts > 0, hard[self._starts - 1], 0.0)
            found[self._taken] = np.where(last < self._ends, easy, np.inf)
        return found


class Site:
    """Some rows of a fleet, and the tasks on them by whole jobs.

    `who` (the number of a holding), `cards`, `cores`, `cpu`, `memory` are `[tasks]`, `sharing` marks those
    that have a part of one card.
    """

    def __init__(self, ground: Ground, rows: Ints) -> None:
        self.rows = rows
        self._width = ground.fleet.present.shape[1]
        places = ground.places
        standing = ground.standing[np.isin(places["row"][ground.standing], rows)]
        of_row = np.searchsorted(rows, places["row"][standing])
        hard = ground.hard(standing)
        self._by_row = Groups(standing, of_row, hard, places["cores"][standing])
        tasks = self._by_row.order
        self.who: Ints = places["owner"][tasks]
        self.cards: Ints = places["cards"][tasks]
        self.cores: Ints = places["cores"][tasks]
        self.cpu: Ints = places["cpu"][tasks]
        self.memory: Ints = places["memory"][tasks]
        self.sharing: Bools = places["card"][tasks] >= 0
        sharing = np.flatnonzero(self.sharing)
        card = np.searchsorted(rows, places["row"][tasks]) * self._width + places["card"][tasks]
        self._by_card = Groups(sharing, card[sharing], ground.hard(tasks[sharing]), self.cores[sharing])

    def by_row(self, amounts: NDArray[Number], of_tasks: Bools) -> NDArray[Number]:
        """Amounts of some of the tasks, summed for each of the rows."""
        return self._by_row.sums(amounts * of_tasks, len(self.rows))

    def by_card(self, of_tasks: Bools) -> Ints:
        """Core units that some of the tasks have of single cards. `[rows, cards]`."""
        order = self._by_card.order
        found = self._by_card.sums(self.cores[order] * of_tasks[order], len(self.rows) * self._width)
        return found.reshape(-1, self._width)

    def easiest_cards(self, of_tasks: Bools, wanted: Ints) -> Floats:
        """How hard it is to have so many cards of each row from some of the tasks."""
        return self._by_row.easiest(of_tasks, self.cards, wanted)

    def easiest_part(self, of_tasks: Bools, wanted: Ints) -> Floats:
        """How hard it is to have on one card of each row so many core units more of `[rows, cards]`."""
        order = self._by_card.order
        found = self._by_card.easiest(of_tasks[order], self.cores[order], wanted.ravel())
        least: Floats = found.reshape(wanted.shape).min(axis=1, initial=np.inf)
        return least


class Ground:
    """Whole jobs by where their tasks stand.

    `standing` are the places of the register where a candidate's task stands, by row.
    """

    def __init__(self, roster: Roster, fleet: Fleet) -> None:
        self.fleet = fleet
        self._roster = roster
        self._register = roster.register
        self.places, jobs = self._register.places, self._register.jobs
        owner, row = self.places["owner"], self.places["row"]
        standing = np.flatnonzero((owner >= 0) & (row >= 0))
        standing = standing[roster.eligible[owner[standing]]]
        self.standing: Ints = standing[np.argsort(row[standing], kind="stable")]
        _, level = np.unique(jobs["priority"], return_inverse=True)
        self._cost = np.rint(roster.cost / np.maximum(1, jobs["tasks"])) + 1.0
        self._level = level.astype(np.float64) * PRIORITY
        self._row: Ints = row[self.standing]
        self._who: Ints = owner[self.standing]
        self._on_row: dict[int, list[int]] = {}
        self._sites: dict[bytes, Site] = {}
        self._holding: dict[frozenset[FlavorResource], Bools] = {}
        # As `legal` needs them for every search.
        self._queue, self._priority = jobs["queue"].copy(), jobs["priority"].astype(np.float64)
        self._unguarded: Bools = roster.guarded_borrowing <= roster.now
        self._told: list[int] = []
        self._gone: Bools = np.zeros(jobs.size, np.bool_)

    def hard(self, tasks: Ints) -> Floats:
        """Roughly how hard it is to take tasks: what can be spared first, then by priority, then by cost; in
        whole numbers, so that sums do not depend on their order."""
        owner = self.places["owner"][tasks]
        whole = np.float64(not self._roster.spares) + 1.0 - self.places["spared"][tasks]
        found: Floats = self._cost[owner] + self._level[owner] + np.minimum(whole, 1.0) * WHOLE
        return found

    def told(self, jobs: Iterable[str]) -> None:
        """These jobs were told to leave: once they hold nothing, they are asked no more."""
        self._told.extend(holding.number for job in jobs for holding in self._register.of(job))

    def site(self, rows: Bools) -> Site:
        """The marked rows."""
        key = rows.tobytes()
        known = self._sites.get(key)
        if known is None:
            known = self._sites[key] = Site(self, np.flatnonzero(rows))
        return known

    def on_row(self, row: int) -> list[int]:
        """The numbers of the holdings of which a task stands on a row."""
        known = self._on_row.get(row)
        if known is None:
            first, end = np.searchsorted(self._row, (row, row + 1))
            known = self._on_row[row] = list(dict.fromkeys(self._who[first:end].tolist()))
        return known

    def candidates(self, number: int, row: int) -> Iterator[Candidate]:
        """A holding as a whole, and its tasks on a row that can be spared, each as a candidate."""
        yield self._roster.whole(number)
        for spared in self._roster.spared(number):
            if self.fleet.row.get(spared.tasks[0].node) == row:
                yield spared

    def legal(self, contest: Contest, queues: Iterable[str]) -> Bools:
        """Holdings of these queues that may be asked: their queue's policy and their priority do not protect
        them, and they hold something that is contested. `[holdings]`."""
        limit = np.full(len(self._register.queues), -np.inf)
        bearable = np.full(len(self._register.queues), np.inf)
        for name in queues:
            at = self._register.queues.get(name)
            if at is not None:
                limit[at] = highest_priority(contest.preemptor.job, contest.policies[name])
                bearable[at] = contest.bearable(name)
        found: Bools = self._priority <= limit[self._queue]
        found &= self._roster.worn <= bearable[self._queue]
        found &= self._holders(contest.preemptor.contested)
        if not contest.ignore_guard:
            found &= self._unguarded
        self._note_gone()
        found &= ~self._gone
        return found

    def _holders(self, contested: frozenset[FlavorResource]) -> Bools:
        """Candidates that hold some of these quotas."""
        known = self._holding.get(contested)
        if known is None:
            known = np.zeros(self._register.jobs.size, np.bool_)
            for key in contested:
                known |= self._register.charges(key) > 0
            known &= self._roster.eligible
            self._holding[contested] = known
        return known

    def _note_gone(self) -> None:
        there: list[int] = []
        for number in self._told:
            holding = self._register.holdings[number]
            if holding is not None and self._roster.snapshot.holds(holding.job.id):
                there.append(number)
            else:
                self._gone[number] = True
        self._told = there
