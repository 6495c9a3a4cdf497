"""This module keeps which nodes pass the vetoes whose results last: the flavor's labels and the fixed vetoes.

They are evaluated once, and again only for nodes whose lasting facts changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.engine.placement.index.protocols import Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Ints, Rows

NO_VETO = -1


class LastingFilter:
    """The lasting filter of one shape: `mask` `[rows]` marks the rows that pass, and follows `Fleet.revised`
    on `catch_up`."""

    def __init__(self, question: Question, vetoes: Iterable[Veto]) -> None:
        self._question = question
        self._vetoes = tuple(vetoes)
        size = len(question.fleet)
        self.mask: Bools = np.zeros(size, np.bool_)
        self._refuser: Ints = np.full(size, NO_VETO, np.int64)
        # The refusals, until rows are evaluated again.
        self._counts: dict[str, int] | None = None
        self._evaluate(ALL_ROWS)
        self._record()

    def catch_up(self) -> bool:
        """Evaluate rows again that were revised since the last call, and return whether there were any."""
        fleet = self._question.fleet
        if self._epoch == fleet.epoch and self._seen == len(fleet.revised_rows):
            return False
        rows: Rows = ALL_ROWS
        if self._epoch == fleet.epoch:
            rows = np.array(sorted(set(fleet.revised_rows[self._seen :])), np.int64)
        self._question.revise_rows(rows)
        self._evaluate(rows)
        self._record()
        return True

    def count_refusals(self) -> dict[str, int]:
        """Return the number of the flavor's nodes by the first fixed veto that refuses them; no zeros."""
        if self._counts is None:
            counts = np.bincount(self._refuser[self._refuser != NO_VETO], minlength=len(self._vetoes))
            self._counts = {veto.name: int(n) for veto, n in zip(self._vetoes, counts, strict=True) if n}
        return self._counts

    def _evaluate(self, rows: Rows) -> None:
        self._counts = None
        left = self._question.members[rows].copy()
        refuser: Ints = np.full(left.shape, NO_VETO, np.int64)
        for number, veto in enumerate(self._vetoes):
            allowed = veto.allows(self._question, rows)
            refuser[left & ~allowed] = number
            left &= allowed
        self.mask[rows], self._refuser[rows] = left, refuser

    def _record(self) -> None:
        self._seen, self._epoch = len(self._question.fleet.revised_rows), self._question.fleet.epoch
