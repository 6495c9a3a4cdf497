"""The score board of one shape: which nodes take it, and how good each is.

Scoring every node for every task would make a cycle quadratic. A board is worked out once; after
that only rows that changed since it was last looked at are scored again, all in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.filters.lasting import Lasting
from scheduling.engine.placement.filters.tally import FreeCards, Tally
from scheduling.engine.placement.index.grid import BY_PICKER, GridScore
from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import concerns, relevant
from scheduling.engine.placement.scores.packing_scores import stretch
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Ints, Rows

Floats = NDArray[np.float64]
INFEASIBLE = -np.inf


class Board:
    """Feasibility and weighted scores of all rows for one shape, brought up to date on `best`."""

    def __init__(
        self, question: Question, vetoes: Sequence[Veto], scores: Sequence[tuple[Score, int]]
    ) -> None:
        self.question = question
        self._offered = tuple(scores)
        self.vetoes = relevant(vetoes, question)
        self._passing = tuple(veto for veto in self.vetoes if not veto.fixed)
        covered = {getattr(veto, "covers", None) for veto in self._passing}
        self._decisive = tuple(veto for veto in self._passing if veto.name not in covered)
        self._lasting = Lasting(question, (veto for veto in self.vetoes if veto.fixed))
        size = len(question.fleet)
        self._feasible: Bools = np.zeros(size, np.bool_)
        # Rows that fit and whose scores nobody needed yet.
        self._unscored: Bools = np.zeros(size, np.bool_)
        self._raw: list[Floats] = []
        self._scores: tuple[tuple[Score, int], ...] = ()
        self._select()
        self._single: Floats = np.full(size, INFEASIBLE)
        self._seen = len(question.fleet.touched)
        self._epoch = question.fleet.epoch
        self._elsewhere = question.elsewhere()
        self._stale = False
        # Moves when more has changed than the rows that were touched since.
        self._version = 0
        self._tally: Tally | None = None
        # How many such tasks each row takes, where somebody counts that exactly: it tells as well which fit.
        self.counts: Callable[[], Ints] | None = None
        self._rescore(ALL_ROWS)

    def learn(self, scores: Sequence[tuple[Score, int]]) -> None:
        """Weigh by these scores from now on; what lasts of the answer is kept."""
        self._offered = tuple(scores)
        self._stale = self._select() or self._stale

    def feasible(self) -> Bools:
        """Which rows can take one more task of this shape now."""
        self._catch_up()
        return self._feasible

    def lasting(self) -> Bools:
        """Which rows are left by what no task's coming or going changes; nothing is scored for it."""
        if self._lasting.catch_up():
            self._stale = self._select() or self._stale
        return self._lasting.mask

    def refusals(self) -> dict[str, int]:
        """Nodes of the flavor by the first veto that refuses them now, lasting vetoes first; no zeros."""
        tally = self._tallied()
        return {**self._lasting.refusals(), **tally.refusals()}

    def free_cards(self) -> FreeCards:
        """How many cards of the flavor such a task could use, and how many of them have room for it now."""
        return self._tallied().free_cards()

    def best(self, within: Bools | None = None, among: Callable[[Ints], int] | None = None) -> int | None:
        """The row with the highest total; None when nothing fits.

        `within`, a mask `[rows]`, confines the answer to some rows; scores are those among all rows. Of
        equals `among` names one, and without it the first is taken.

        A single score needs no weighing: normalising is strictly increasing on whole numbers 0–100,
        so it cannot change which row wins or ties.
        """
        self._catch_up()
        fitting = np.flatnonzero(self._feasible if within is None else self._feasible & within)
        if len(fitting) < 2:
            # In a full cluster often: there is nothing to compare.
            return int(fitting[0]) if len(fitting) else None
        self._score()
        total = self._single if len(self._scores) == 1 else self._weighed()
        if within is not None:
            total = np.where(within, total, INFEASIBLE)
        best = int(total.argmax())
        if among is None:
            return best
        equals = np.flatnonzero(total == total[best])
        return best if len(equals) == 1 else among(equals)

    def seated(self, row: int, *, full: bool) -> None:
        """Such a task was just seated on a row, and it is known whether it took the last room there for them:
        the row needs no new judgement."""
        fleet = self.question.fleet
        if self._epoch == fleet.epoch and fleet.touched[self._seen :] == [row]:
            self._seen += 1
            self._feasible[row] = self._unscored[row] = not full
            self._single[row] = INFEASIBLE

    def cards(self, row: int, picker: DevicePicker, question: Question | None = None) -> tuple[int, ...]:
        """The columns of the cards on a row that fits: those a score has its mind on, else the picker's.

        `question`, where given, is the board's own with the row's cards narrowed down.
        """
        asked = question or self.question
        if not asked.task.cards:
            return ()
        for score, _ in self._scores:
            if not isinstance(score, GridScore) or not score.choosy:
                continue
            if (column := score.card(asked, row)) != BY_PICKER:
                return (column,)
        return picker.pick(asked, row)

    def _tallied(self) -> Tally:
        self._catch_up()
        if self._tally is None:
            self._tally = Tally(self.question, self._passing, self._lasting.mask)
        self._tally.catch_up(self._version)
        return self._tally

    def _weighed(self) -> Floats:
        total: Floats = np.zeros(len(self._feasible))
        for (score, weight), raw in zip(self._scores, self._raw, strict=True):
            total += weight * (stretch(raw, self._feasible) if score.normalised else raw)
        total[~self._feasible] = INFEASIBLE
        return total

    def _catch_up(self) -> None:
        fleet, elsewhere = self.question.fleet, self.question.elsewhere()
        others = self._lasting.catch_up() and self._select()
        others = others or self._stale
        if others or self._epoch != fleet.epoch or self._elsewhere != elsewhere:
            self._stale = False
            self._version += 1
            self._epoch, self._elsewhere, self._seen = fleet.epoch, elsewhere, len(fleet.touched)
            self._rescore(ALL_ROWS)
        elif self._seen < len(fleet.touched):
            changed = fleet.touched_since(self._seen)
            self._seen = len(fleet.touched)
            self._rescore(changed if 2 * len(changed) < len(fleet) else ALL_ROWS)

    def _select(self) -> bool:
        """Keep the scores that concern the task; whether they are others than before."""
        scores = tuple((score, weight) for score, weight in self._offered if concerns(score, self.question))
        if scores == self._scores:
            return False
        self._scores = scores
        self._raw = [np.zeros(len(self.question.fleet), np.float64) for _ in scores]
        return True

    def _rescore(self, rows: Rows) -> None:
        if self.counts is not None:
            feasible = self.counts()[rows] > 0
        else:
            feasible = self._lasting.mask[rows].copy()
            for veto in self._decisive:
                feasible &= veto.allows(self.question, rows)
        # Nobody looks at the score of a row that does not fit, and in a full cluster few do.
        self._feasible[rows] = self._unscored[rows] = feasible
        self._single[rows] = INFEASIBLE

    def _score(self) -> None:
        fitting = np.flatnonzero(self._unscored)
        if not len(fitting):
            return
        self._unscored[:] = False
        scored = ALL_ROWS if len(fitting) == len(self._feasible) else fitting
        for (score, _), raw in zip(self._scores, self._raw, strict=True):
            raw[scored] = score.score(self.question, scored)
        if len(self._scores) == 1:
            self._single[scored] = self._raw[0][scored]
