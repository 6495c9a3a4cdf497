"""This module chooses cards of a node that are close together: in the task's NUMA zones."""

from __future__ import annotations

from copy import copy

from scheduling.engine.model import ZoneShare
from scheduling.engine.placement.index import numa
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools


def narrow_to_aligned(question: Question, row: int) -> tuple[Question, tuple[ZoneShare, ...]]:
    """Return the question with the row's cards narrowed to the preferred ones, and the task's zones.

    The row is known to fit; if no cards are preferred, the question is returned as it is.
    """
    shares: tuple[ZoneShare, ...] = ()
    zones = numa.zones_for(question, row)
    if zones is not None:
        shares = numa.zone_shares(question, row, zones)
        if question.task.cards:
            question = _narrowed(question, row, numa.cards_in(question, row, zones))
    return question, shares


def _narrowed(question: Question, row: int, cards: Bools) -> Question:
    narrow = copy(question)
    narrow.usable = question.usable.copy()
    narrow.usable[row] &= cards
    return narrow
