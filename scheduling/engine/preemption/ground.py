"""Where the candidates of a roster stand: arrays over their tasks, and who stands on a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.preemption.candidates import Candidate, Roster
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.policy import highest_priority
from scheduling.engine.state.fleet import Bools, Fleet, Ints

Number = TypeVar("Number", np.int64, np.float64)


class Ground:
    """Whole jobs by where their tasks stand.

    `row`, `who` (the number of a holding), `cards`, `cores`, `cpu`, `memory` are `[tasks]`; `priority`
    and `each` (the cost for each of its tasks, rounded so that sums do not depend on their order) are
    `[holdings]`.
    """

    def __init__(self, roster: Roster, fleet: Fleet) -> None:
        self.fleet = fleet
        self._roster = roster
        self._register = roster.register
        places, jobs = self._register.places, self._register.jobs
        owner = places["owner"]
        standing = np.flatnonzero((owner >= 0) & (places["row"] >= 0))
        standing = standing[roster.eligible[owner[standing]]]
        # By row, so that those on a row stand together.
        standing = standing[np.argsort(places["row"][standing], kind="stable")]
        self.row: Ints = places["row"][standing]
        self.who: Ints = owner[standing]
        self.cards: Ints = places["cards"][standing]
        self.cores: Ints = places["cores"][standing]
        self.cpu: Ints = places["cpu"][standing]
        self.memory: Ints = places["memory"][standing]
        self.priority: Ints = jobs["priority"]
        self.each = np.rint(roster.cost / np.maximum(1, jobs["tasks"]))
        self._rows, self._starts = np.unique(self.row, return_index=True)
        self._on_row: dict[int, list[int]] = {}
        self._told: list[int] = []

    def told(self, jobs: Iterable[str]) -> None:
        """These jobs were told to leave: whether they still hold something is asked anew each time."""
        self._told.extend(holding.number for job in jobs for holding in self._register.of(job))

    def on_row(self, row: int) -> list[int]:
        """The numbers of the holdings of which a task stands on a row."""
        known = self._on_row.get(row)
        if known is None:
            first, end = np.searchsorted(self.row, (row, row + 1))
            known = self._on_row[row] = list(dict.fromkeys(self.who[first:end].tolist()))
        return known

    def candidates(self, number: int, row: int) -> Iterator[Candidate]:
        """A holding as a whole, and its tasks on a row that can be spared, each as a candidate."""
        yield self._roster.whole(number)
        for spared in self._roster.spared(number):
            if self.fleet.row.get(spared.tasks[0].node) == row:
                yield spared

    def by_row(self, amounts: NDArray[Number], of_tasks: Bools) -> NDArray[Number]:
        """Amounts of some of the tasks, summed for each row of the fleet."""
        found = np.zeros(len(self.fleet), amounts.dtype)
        if len(self._rows):
            found[self._rows] = np.add.reduceat(amounts * of_tasks, self._starts)
        return found

    def legal(self, contest: Contest, queues: Iterable[str]) -> Bools:
        """Holdings of these queues that may be asked: their queue's policy and their priority do not protect
        them, and they hold something that is contested. `[holdings]`."""
        limit = np.full(len(self._register.queues), -np.inf)
        for name in queues:
            at = self._register.queues.get(name)
            if at is not None:
                limit[at] = highest_priority(contest.preemptor.job, contest.policies[name])
        found: Bools = self.priority <= limit[self._register.jobs["queue"]]
        found &= self._roster.eligible
        needed = np.zeros(len(found), np.bool_)
        for key in contest.preemptor.contested:
            needed |= self._register.charges(key) > 0
        found &= needed
        if not contest.ignore_guard:
            found &= self._roster.guarded_borrowing <= self._roster.now
        for number in self._told:
            holding = self._register.holdings[number]
            if holding is not None and not self._roster.snapshot.holds(holding.job.id):
                found[number] = False
        return found
