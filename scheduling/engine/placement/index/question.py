"""This module holds the facts about one shape on one fleet that vetoes and scores share.

The cards that a shape could ever use (model, mode, profile) do not change while a cycle simulates, so they
are computed once and kept here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.model import Flavor, GpuMode, Node
from scheduling.engine.model.labels import has_labels
from scheduling.engine.placement.index.node_facts import marked_rows
from scheduling.engine.state.fleet import ALL_ROWS, MODES, Bools, Fleet, Ints, Rows, count_marked
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.task_shape import TaskShape

# A whole card may come from a node that also slices, as long as the card is empty. MIG instances are
# requested by profile, never as cards or percentages, and serve nothing else.
SERVED_BY = {
    GpuMode.WHOLE: (GpuMode.WHOLE, GpuMode.SLICE),
    GpuMode.SLICE: (GpuMode.SLICE,),
    GpuMode.MIG: (GpuMode.MIG,),
}


class Question:
    """A shape, the fleet, and masks derived from both; all arrays are indexed by the fleet's rows."""

    def __init__(self, fleet: Fleet, task: TaskShape, flavor: Flavor) -> None:
        self.fleet = fleet
        self.task = task
        self.flavor = flavor
        self.members: Bools = member_rows(fleet, flavor)
        self._modes = SERVED_BY[task.mode] if flavor.mode in SERVED_BY[task.mode] else ()
        wanted = set(task.models) or set(fleet.models)
        if flavor.card_model:
            wanted &= {flavor.card_model}
        self._models = tuple(code for code, model in enumerate(fleet.models) if model in wanted)
        self.of_mode, self.of_profile, self.of_model, self.usable = self._cards()

    @property
    def accepted(self) -> tuple[tuple[GpuMode, ...], tuple[int, ...], str]:
        """The cards that the task could ever use: their modes, codes of models, and profile."""
        return self._modes, self._models, self.task.profile

    def revise_rows(self, rows: Rows) -> None:
        """Compute the masks again for rows whose labels or cards' health changed."""
        self.members = member_rows(self.fleet, self.flavor)
        self.usable[rows] = self.of_model[rows] & self.fleet.healthy[rows]

    def nodes(self, rows: Rows) -> Sequence[Node]:
        """Return the nodes of these rows as they were given; free amounts are in the fleet's arrays."""
        nodes = self.fleet.nodes
        return nodes[rows] if isinstance(rows, slice) else [nodes[row] for row in rows.tolist()]

    def affinity_version(self) -> int:
        """Return a counter that changes when another task may have changed the result on other rows."""
        task = self.task
        apart = task.preferences is not None and (
            task.preferences.affinity or task.preferences.anti_affinity or task.preferences.group
        )
        return self.fleet.pod_index.version if task.pod_affinities is not None or apart else 0

    def cores_of(self, rows: Rows) -> Ints | int:
        """Return the core units that the task takes of a card: one number, or `[rows, cards]`."""
        task, fleet = self.task, self.fleet
        if not task.derived:
            return task.cores
        shares: Ints = task.card_memory * fleet.card_cores[rows] // np.maximum(fleet.card_memory[rows], 1)
        return np.maximum(shares, 1)

    def with_cores(self, rows: Rows) -> Bools:
        """Return the cards that have the cores free; for a whole card the empty ones. `[rows, cards]`."""
        fleet, task = self.fleet, self.task
        if task.whole:
            untouched = fleet.cores_free[rows] == fleet.card_cores[rows]
            empty: Bools = self.usable[rows] & (fleet.holders[rows] == 0) & untouched
            return empty
        roomy: Bools = self.usable[rows] & ~fleet.exclusive[rows]
        return roomy & (fleet.cores_free[rows] >= self.cores_of(rows))

    def fitting(self, rows: Rows) -> Bools:
        """Return the cards on which the task's part fits with cores and memory. `[rows, cards]`."""
        cards = self.with_cores(rows)
        if self.task.whole:
            cards &= self.fleet.card_memory_free[rows] == self.fleet.card_memory[rows]
            return cards
        if self.task.card_memory:
            cards &= self.fleet.card_memory_free[rows] >= self.task.card_memory
        return cards

    def has_enough_cards(self, cards: Bools) -> Bools:
        """Return the rows with at least as many marked cards as the task asks for. `[rows]`."""
        enough: Bools = count_marked(cards) >= self.task.cards
        return enough

    def _cards(self) -> tuple[Bools, Bools, Bools, Bools]:
        """Return masks of cards, each narrower than the former; shapes with equal requests share them."""
        return read_memo(self.fleet.memo, ("cards", *self.accepted), self._compute_cards)

    def _compute_cards(self) -> tuple[Bools, Bools, Bools, Bools]:
        fleet, profile = self.fleet, self.task.profile
        of_mode = fleet.present & np.isin(fleet.mode, [MODES.index(mode) for mode in self._modes])
        of_profile = of_mode & _with_profile(fleet, profile) if profile else of_mode
        of_model = of_profile & np.isin(fleet.model, self._models)
        return of_mode, of_profile, of_model, of_model & fleet.healthy


def card_parts(question: Question, rows: Rows = ALL_ROWS) -> Ints:
    """Return, for each card, how many tasks could have a part of it. `[rows, cards]`."""
    fleet, task = question.fleet, question.task
    fitting = question.fitting(rows)
    if task.whole or not task.cards:
        return fitting.astype(np.int64)
    parts: Ints = fleet.cores_free[rows] // question.cores_of(rows)
    if task.card_memory:
        parts = np.minimum(parts, fleet.card_memory_free[rows] // task.card_memory)
    return np.where(fitting, parts, 0)


def _with_profile(fleet: Fleet, profile: str) -> Bools | np.bool_:
    if fleet.profile is None or profile not in fleet.profiles:
        return np.False_
    cards: Bools = fleet.profile == fleet.profiles.index(profile)
    return cards


def member_rows(fleet: Fleet, flavor: Flavor) -> Bools:
    """Return the rows with a flavor's cluster and all its node labels; the array must not be written to."""
    cluster, wanted = flavor.cluster, tuple(sorted(flavor.node_labels.items()))

    def belongs_to_flavor(node: Node) -> bool:
        return node.cluster == cluster and has_labels(node.labels, wanted)

    return marked_rows(fleet, ("members", flavor.id, cluster, wanted), belongs_to_flavor)
