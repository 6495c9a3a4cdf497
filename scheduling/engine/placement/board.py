"""This module keeps the scores of all nodes for one task shape.

Scoring every node for every task would make a cycle quadratic. A board is computed once; after that only rows
that changed since the last look are scored again, all in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.filters.lasting_filter import LastingFilter
from scheduling.engine.placement.filters.refusal_counter import FreeCards, RefusalCounter
from scheduling.engine.placement.index.grid import BY_PICKER, GridScore
from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import is_relevant, select_relevant
from scheduling.engine.placement.scores.packing_scores import normalise_scores
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Ints, Rows

Floats = NDArray[np.float64]
INFEASIBLE = -np.inf


class ScoreBoard:
    """The feasibility and weighted scores of all rows for one shape, brought up to date when read."""

    def __init__(
        self, question: Question, vetoes: Sequence[Veto], scores: Sequence[tuple[Score, int]]
    ) -> None:
        self.question = question
        self._given_scores = tuple(scores)
        self.vetoes = select_relevant(vetoes, question)
        self._passing_vetoes = tuple(veto for veto in self.vetoes if not veto.fixed)
        covered = {getattr(veto, "covers", None) for veto in self._passing_vetoes}
        self._decisive_vetoes = tuple(veto for veto in self._passing_vetoes if veto.name not in covered)
        self._lasting = LastingFilter(question, (veto for veto in self.vetoes if veto.fixed))
        size = len(question.fleet)
        self._feasible: Bools = np.zeros(size, np.bool_)
        # Rows that are feasible and not scored yet.
        self._unscored: Bools = np.zeros(size, np.bool_)
        self._raw: list[Floats] = []
        self._scores: tuple[tuple[Score, int], ...] = ()
        self._select()
        self._single: Floats = np.full(size, INFEASIBLE)
        self._seen = len(question.fleet.changed_rows)
        self._epoch = question.fleet.epoch
        self._affinity_version = question.affinity_version()
        self._stale = False
        # Incremented when more has changed than the touched rows.
        self._version = 0
        self._refusal_counter: RefusalCounter | None = None
        # The slots of each row, if a counter keeps them exactly: then they also decide which rows are
        # feasible.
        self.counts: Callable[[], Ints] | None = None
        self._rescore(ALL_ROWS)

    def replace_scores(self, scores: Sequence[tuple[Score, int]]) -> None:
        """Use these scores from now on; what the lasting filter found is kept."""
        self._given_scores = tuple(scores)
        self._stale = self._select() or self._stale

    def feasible_rows(self) -> Bools:
        """Return the rows that can take one more task of this shape now, `[rows]`."""
        self._catch_up()
        return self._feasible

    def lasting_rows(self) -> Bools:
        """Return the rows that pass the lasting filter, `[rows]`; nothing is scored for it."""
        if self._lasting.catch_up():
            self._stale = self._select() or self._stale
        return self._lasting.mask

    def count_refusals(self) -> dict[str, int]:
        """Return the number of the flavor's nodes by the first veto that refuses them now, lasting vetoes
        first; no zeros."""
        counter = self._current_counter()
        return {**self._lasting.count_refusals(), **counter.count_refusals()}

    def free_cards(self) -> FreeCards:
        """Return how many cards of the flavor such a task could use, and how many of them have room now."""
        return self._current_counter().free_cards()

    def find_best_row(
        self, within: Bools | None = None, among: Callable[[Ints], int] | None = None
    ) -> int | None:
        """Return the row with the highest total score, or None if no row is feasible.

        `within`, a mask `[rows]`, confines the choice to some rows; scores are normalised over all rows.
        `among` chooses between rows of equal score; without it the first is taken.

        A single score needs no weighing: normalising is strictly increasing on whole numbers 0–100, so it
        cannot change which row wins or ties.
        """
        self._catch_up()
        fitting = np.flatnonzero(self._feasible if within is None else self._feasible & within)
        if len(fitting) < 2:
            # This is frequent in a full cluster: there is nothing to compare.
            return int(fitting[0]) if len(fitting) else None
        self._score()
        total = self._single if len(self._scores) == 1 else self._weighted_total()
        if within is not None:
            total = np.where(within, total, INFEASIBLE)
        best = int(total.argmax())
        if among is None:
            return best
        equals = np.flatnonzero(total == total[best])
        return best if len(equals) == 1 else among(equals)

    def record_placement(self, row: int, *, full: bool) -> None:
        """Record that such a task was just placed on a row, and whether the row is full for the shape now:
        the row needs no new evaluation."""
        fleet = self.question.fleet
        if self._epoch == fleet.epoch and fleet.changed_rows[self._seen :] == [row]:
            self._seen += 1
            self._feasible[row] = self._unscored[row] = not full
            self._single[row] = INFEASIBLE

    def choose_cards(self, row: int, picker: DevicePicker) -> tuple[int, ...]:
        """Return the columns of the cards on a feasible row: a score's choice, else the device picker's."""
        if not self.question.task.cards:
            return ()
        for score, _ in self._scores:
            if not isinstance(score, GridScore) or not score.choosy:
                continue
            if (column := score.best_card(self.question, row)) != BY_PICKER:
                return (column,)
        return picker.pick(self.question, row)

    def _current_counter(self) -> RefusalCounter:
        self._catch_up()
        if self._refusal_counter is None:
            self._refusal_counter = RefusalCounter(self.question, self._passing_vetoes, self._lasting.mask)
        self._refusal_counter.catch_up(self._version)
        return self._refusal_counter

    def _weighted_total(self) -> Floats:
        total: Floats = np.zeros(len(self._feasible))
        for (score, weight), raw in zip(self._scores, self._raw, strict=True):
            total += weight * (normalise_scores(raw, self._feasible) if score.normalised else raw)
        total[~self._feasible] = INFEASIBLE
        return total

    def _catch_up(self) -> None:
        fleet, elsewhere = self.question.fleet, self.question.affinity_version()
        others = self._lasting.catch_up() and self._select()
        others = others or self._stale
        if others or self._epoch != fleet.epoch or self._affinity_version != elsewhere:
            self._stale = False
            self._version += 1
            self._epoch, self._affinity_version, self._seen = fleet.epoch, elsewhere, len(fleet.changed_rows)
            self._rescore(ALL_ROWS)
        elif self._seen < len(fleet.changed_rows):
            changed = fleet.rows_changed_since(self._seen)
            self._seen = len(fleet.changed_rows)
            self._rescore(changed if 2 * len(changed) < len(fleet) else ALL_ROWS)

    def _select(self) -> bool:
        """Keep the scores that are relevant to the task, and return whether they changed."""
        scores = tuple(
            (score, weight) for score, weight in self._given_scores if is_relevant(score, self.question)
        )
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
            for veto in self._decisive_vetoes:
                feasible &= veto.allows(self.question, rows)
        # Scores of infeasible rows are never read, and in a full cluster few rows are feasible.
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
