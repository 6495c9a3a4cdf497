"""This module counts, row by row, why a shape is refused and how much is free there.

Pending jobs are explained in every cycle, so the counts are kept and only rows that changed are counted
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.placement.index.protocols import Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Ints, Rows, count_marked

NO_VETO = -1


@dataclass(frozen=True, slots=True)
class FreeCards:
    """The cards of a flavor that a shape could use, those with room for it, and the most on one node."""

    usable: int
    free: int
    most_on_one_node: int


class RefusalCounter:
    """Per row: usable cards, cards with room, and the first veto that refuses the shape.

    `vetoes` are those that depend on present allocations; `lasting` `[rows]` marks the rows that pass the
    others.
    """

    def __init__(self, question: Question, vetoes: Sequence[Veto], lasting: Bools) -> None:
        self._question, self._vetoes, self._lasting = question, vetoes, lasting
        size = len(question.fleet)
        self._usable, self._free = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._refuser: Ints = np.full(size, NO_VETO, np.int64)
        self._version = -1
        self._seen = 0
        # The totals, until rows are counted again.
        self._totals: FreeCards | None = None

    def catch_up(self, version: int) -> None:
        """Count rows again that were touched; count all rows if `version` changed."""
        touched = self._question.fleet.changed_rows
        if version != self._version:
            self._count(ALL_ROWS)
        elif self._seen < len(touched):
            self._count(self._question.fleet.rows_changed_since(self._seen))
        self._version, self._seen = version, len(touched)

    def free_cards(self) -> FreeCards:
        """Return the totals of all rows."""
        if self._totals is None:
            most = int(self._free.max(initial=0))
            self._totals = FreeCards(int(self._usable.sum()), int(self._free.sum()), most)
        return self._totals

    def count_refusals(self) -> dict[str, int]:
        """Return the number of rows by the first veto that refuses them; no zeros."""
        counts = np.bincount(self._refuser[self._refuser != NO_VETO], minlength=len(self._vetoes))
        return {veto.name: int(n) for veto, n in zip(self._vetoes, counts, strict=True) if n}

    def _count(self, rows: Rows) -> None:
        question, self._totals = self._question, None
        if question.task.cards:
            usable = question.usable[rows] & question.members[rows][:, None]
            self._usable[rows] = count_marked(usable)
            self._free[rows] = count_marked(question.fitting(rows) & usable)
        left = self._lasting[rows].copy()
        refuser: Ints = np.full(left.shape, NO_VETO, np.int64)
        for number, veto in enumerate(self._vetoes):
            allowed = veto.allows(question, rows)
            refuser[left & ~allowed] = number
            left &= allowed
        self._refuser[rows] = refuser
