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
from scheduling.engine.state.fleet import Bools, Fleet, Ints

Number = TypeVar("Number", np.int64, np.float64)


class Site:
    """Some rows of a fleet, and the tasks on them by whole jobs.

    `who` (the number of a holding), `cards`, `cores`, `cpu`, `memory` are `[tasks]`, `sharing` marks those
    that have a part of one card, and `card` which that is, counted through all cards of the rows.
    """

    def __init__(self, ground: Ground, rows: Ints) -> None:
        self.rows = rows
        places = ground.places
        tasks = ground.standing[np.isin(places["row"][ground.standing], rows)]
        self.who: Ints = places["owner"][tasks]
        self.cards: Ints = places["cards"][tasks]
        self.cores: Ints = places["cores"][tasks]
        self.cpu: Ints = places["cpu"][tasks]
        self.memory: Ints = places["memory"][tasks]
        of_row = np.searchsorted(rows, places["row"][tasks])
        self._width = ground.fleet.present.shape[1]
        self.sharing: Bools = places["card"][tasks] >= 0
        self.card: Ints = of_row * self._width + places["card"][tasks]
        taken, self._starts = np.unique(places["row"][tasks], return_index=True)
        self._taken = np.searchsorted(rows, taken)

    def by_row(self, amounts: NDArray[Number], of_tasks: Bools) -> NDArray[Number]:
        """Amounts of some of the tasks, summed for each of the rows."""
        found = np.zeros(len(self.rows), amounts.dtype)
        if len(self._taken):
            found[self._taken] = np.add.reduceat(amounts * of_tasks, self._starts)
        return found

    def by_card(self, of_tasks: Bools) -> Ints:
        """Core units that some of the tasks have of single cards. `[rows, cards]`."""
        chosen = self.sharing & of_tasks
        shape = (len(self.rows), self._width)
        found = np.bincount(self.card[chosen], self.cores[chosen], minlength=shape[0] * shape[1])
        return found.astype(np.int64).reshape(shape)


class Ground:
    """Whole jobs by where their tasks stand.

    `standing` are the places of the register where a candidate's task stands, by row. `dear` `[holdings]`
    says roughly how hard it is to take one of its tasks: priority before cost, in whole numbers, so that
    sums do not depend on their order.
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
        above = (jobs["priority"] - int(jobs["priority"].min(initial=0))).astype(np.float64)
        self.dear = above * 1e9 + np.rint(roster.cost / np.maximum(1, jobs["tasks"])) + 1.0
        self._row: Ints = row[self.standing]
        self._who: Ints = owner[self.standing]
        self._on_row: dict[int, list[int]] = {}
        self._sites: dict[bytes, Site] = {}
        self._holding: dict[frozenset[FlavorResource], Bools] = {}
        self._told: list[int] = []
        self._gone: Bools = np.zeros(jobs.size, np.bool_)

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
        jobs = self._register.jobs
        limit = np.full(len(self._register.queues), -np.inf)
        bearable = np.full(len(self._register.queues), np.inf)
        for name in queues:
            at = self._register.queues.get(name)
            if at is not None:
                limit[at] = highest_priority(contest.preemptor.job, contest.policies[name])
                bearable[at] = contest.bearable(name)
        found: Bools = jobs["priority"] <= limit[jobs["queue"]]
        found &= self._roster.worn <= bearable[jobs["queue"]]
        found &= self._holders(contest.preemptor.contested)
        if not contest.ignore_guard:
            found &= self._roster.guarded_borrowing <= self._roster.now
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
