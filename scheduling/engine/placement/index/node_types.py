"""This module finds node types: equal capacity, and cards that lasting vetoes treat equally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.placement.index.grid import Numbers, ShapeTable
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools, Fleet, Ints

# The demand of shapes without cards.
NOTHING = 0


@dataclass(slots=True, eq=False)
class NodeType:
    """The common facts of nodes of one type; `row` is one of them.

    `lasting` `[shapes]` marks the shapes that may ever use such nodes, `usable` `[shapes, cards]` the cards
    for them. `sizes` are core units and MiB of each empty card, None without a card. With `has_equal_cards`
    nothing but the free amount distinguishes the cards; each of them then has `full` when unused. `demand`
    numbers what shapes ask of cards: shapes with equal numbers get the same cards.
    """

    row: int
    lasting: Bools
    usable: Bools
    sizes: list[tuple[int, int] | None]
    full: tuple[int, int]
    has_equal_cards: bool
    demand: list[int]


def node_types(
    fleet: Fleet, asked: Sequence[tuple[Question, Bools]], table: ShapeTable, base: Ints
) -> list[NodeType]:
    """Return the type of each node for shapes with the nodes that may ever take them.

    `base` is equal for nodes of equal capacity.
    """
    size, width = len(asked), fleet.present.shape[1]
    lasting = np.array([mask for _, mask in asked], np.bool_).reshape(size, len(fleet))
    facts = np.concatenate([base[None], lasting.view(np.uint8)]).T
    types = number_rows(np.ascontiguousarray(facts))
    _, first = np.unique(types, return_index=True)
    parts = ~table.whole & (table.cards > 0)
    plain = bool((table.cores[parts] > 0).all()) and not table.card_memory[parts].any()
    wants = [
        (task.cards, task.whole, task.cores, task.card_memory) if task.cards else () for task in table.tasks
    ]
    numbers = {want: number for number, want in enumerate(dict.fromkeys([(), *wants]))}
    shared, own = [numbers[want] for want in wants], [1 + index for index in range(len(wants))]
    found = []
    for row in first.tolist():
        usable = np.array([question.usable[row] for question, _ in asked], np.bool_).reshape(size, width)
        there, sizes = fleet.present[row], _sizes(fleet, row)
        same = (usable == (usable.max(axis=1, initial=False)[:, None] & there)).all()
        full, *others = {size for size in sizes if size is not None} or {(0, 0)}
        equal_cards = plain and bool(same) and not others and full[0] > 0
        lasts = lasting[:, row] & (usable.any(axis=1) | (table.cards == 0))
        # If cards differ, lasting vetoes may exclude different ones for shapes with equal requests.
        demand = shared if equal_cards else [number and at for number, at in zip(shared, own, strict=True)]
        found.append(NodeType(row, lasts, usable, sizes, full, equal_cards, demand))
    return [found[code] for code in types.tolist()]


def capacity_codes(fleet: Fleet) -> Ints:
    """Return the same code for nodes with the same capacity and cards, usage apart."""
    parts = (fleet.model, fleet.mode, fleet.healthy, fleet.present, fleet.card_cores, fleet.card_memory)
    facts = [fleet.cpu[:, None], *(part.astype(np.int64) for part in parts)]
    return number_rows(np.concatenate(facts, axis=1))


def number_rows(facts: Numbers) -> Ints:
    """Return the same small number for equal rows, and different numbers for different rows."""
    # Sorting the rows takes a hundred times as long.
    whole = np.dtype((np.void, facts.dtype.itemsize * facts.shape[1]))
    rows: list[bytes] = np.ascontiguousarray(facts).view(whole)[:, 0].tolist()
    known = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    return np.array([known[row] for row in rows], np.int64)


def _sizes(fleet: Fleet, row: int) -> list[tuple[int, int] | None]:
    cores, memory = fleet.card_cores[row].tolist(), fleet.card_memory[row].tolist()
    there = fleet.present[row].tolist()
    found = zip(cores, memory, strict=True)
    return [pair if present else None for pair, present in zip(found, there, strict=True)]
