"""This module chooses cards of a node that are close together: in the task's NUMA zones, and joined by
NVLink."""

from __future__ import annotations

from copy import copy

import numpy as np

from scheduling.engine.model import ZoneShare
from scheduling.engine.placement.index import numa
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools, Ints

ALONE = -1


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
    if question.fleet.clique is not None and question.task.cards > 1:
        fitting = question.fitting(slice(row, row + 1))[0]
        cliques = question.fleet.clique[row]
        question = _narrowed(question, row, choose_clique(fitting, cliques, question.task.cards))
    return question, shares


def choose_clique(fitting: Bools, cliques: Ints, cards: int) -> Bools:
    """Return the cards of the smallest clique that has enough; of several cliques, as few as suffice.

    `fitting` marks the cards to choose from, `cliques` numbers their cliques, -1 for a card alone.
    """
    sizes = [(int((fitting & (cliques == code)).sum()), code) for code in np.unique(cliques).tolist()]
    enough = [pair for pair in sizes if pair[0] >= cards and pair[1] != ALONE]
    if enough:
        best: Bools = fitting & (cliques == min(enough)[1])
        return best
    chosen, missing = np.zeros_like(fitting), cards
    for size, code in sorted(sizes, key=lambda pair: (pair[1] == ALONE, -pair[0], pair[1])):
        if missing <= 0:
            break
        chosen |= fitting & (cliques == code)
        missing -= size
    return chosen


def _narrowed(question: Question, row: int, cards: Bools) -> Question:
    narrow = copy(question)
    narrow.usable = question.usable.copy()
    narrow.usable[row] &= cards
    return narrow
