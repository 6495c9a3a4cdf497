"""What lasts of the answer for one shape: which nodes its flavor and the fixed vetoes leave.

Worked out once, and again only for the nodes of which something lasting changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.engine.placement.index.protocols import Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Ints, Rows

NOBODY = -1


class Lasting:
    """`mask` `[rows]` marks what is left; it follows `Fleet.revised` on `catch_up`."""

    def __init__(self, question: Question, vetoes: Iterable[Veto]) -> None:
        self._question = question
        self._vetoes = tuple(vetoes)
        size = len(question.fleet)
        self.mask: Bools = np.zeros(size, np.bool_)
        self._refuser: Ints = np.full(size, NOBODY, np.int64)
        # What is told of refusals, until rows are judged again.
        self._counts: dict[str, int] | None = None
        self._judge(ALL_ROWS)
        self._note()

    def catch_up(self) -> bool:
        """Judge again the rows that were revised since the last call; whether there were any."""
        fleet = self._question.fleet
        if self._epoch == fleet.epoch and self._seen == len(fleet.revised):
            return False
        rows: Rows = ALL_ROWS
        if self._epoch == fleet.epoch:
            rows = np.array(sorted(set(fleet.revised[self._seen :])), np.int64)
        self._question.revise(rows)
        self._judge(rows)
        self._note()
        return True

    def refusals(self) -> dict[str, int]:
        """Nodes of the flavor by the first fixed veto that refuses them; no zeros."""
        if self._counts is None:
            counts = np.bincount(self._refuser[self._refuser != NOBODY], minlength=len(self._vetoes))
            self._counts = {veto.name: int(n) for veto, n in zip(self._vetoes, counts, strict=True) if n}
        return self._counts

    def _judge(self, rows: Rows) -> None:
        self._counts = None
        left = self._question.members[rows].copy()
        refuser: Ints = np.full(left.shape, NOBODY, np.int64)
        for number, veto in enumerate(self._vetoes):
            allowed = veto.allows(self._question, rows)
            refuser[left & ~allowed] = number
            left &= allowed
        self.mask[rows], self._refuser[rows] = left, refuser

    def _note(self) -> None:
        self._seen, self._epoch = len(self._question.fleet.revised), self._question.fleet.epoch
