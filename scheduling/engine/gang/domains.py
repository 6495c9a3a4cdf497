"""Which racks, zones or other domains a part of a gang may stand in, best first.

Rows of the fleet are numbered by domain on every level of a flavor's topology. A domain qualifies when
each shape that must stand together finds as many slots in it; the one with the least room that holds
the gang comes first, judged from the coarsest level down, so that large domains stay whole. Where the
gang must spread over several domains of its preferred level, those with the most room are filled
first, so that it touches few. The order is that of KAI-Scheduler's topology plug-in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import TopologyMode, TopologyRule
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.capacity import slots
from scheduling.engine.placement.index.levels import NOWHERE, Levels
from scheduling.engine.state.fleet import Bools, Ints

# A shape that asks for nothing has endless slots, which must not overflow when they are added up.
MANY = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class DomainArea:
    """Rows in which tasks may stand; None is all of them. `preferred` are rows to try first, in order."""

    rows: Bools | None = None
    preferred: tuple[Bools, ...] = ()

    def row_masks(self) -> Iterator[Bools | None]:
        """The masks to look for a seat in, one after the other."""
        for rows in self.preferred:
            yield rows if self.rows is None else rows & self.rows
        yield self.rows


ANYWHERE = DomainArea()


@dataclass(frozen=True, slots=True, eq=False)
class ShapeDemand:
    """Like tasks that must find room together: the board of their shape, and how many they are."""

    board: Board
    tasks: int

    def slots_by_row(self, within: Bools | None) -> Ints:
        """How many more tasks each row could take, at most."""
        free = np.where(self.board.feasible(), slots(self.board.question), 0)
        return np.minimum(free if within is None else np.where(within, free, 0), self.tasks)


@dataclass(frozen=True, slots=True, eq=False)
class DomainSearch:
    """Where one part may stand: its rule on the levels of a topology, inside the area of its parent."""

    levels: Levels
    rule: TopologyRule
    demands: tuple[ShapeDemand, ...]
    outer: DomainArea
    placed_rows: Ints

    def find_areas(self) -> Iterator[DomainArea]:
        """The areas to try, best first. A required level that nobody knows gives none."""
        wished = self._index(self.rule.preferred_level) if self.rule.preferred_level else None
        level = self._index(self.rule.level)
        required = self.rule.mode is TopologyMode.REQUIRED
        if level is None:
            if not required:
                yield self.outer
            return
        finest = level if wished is None or wished < level else wished
        for step in range(finest, level - 1 if required else -1, -1):
            yield from self._of_level(step, finest, pin=level if required else None)
        if not required:
            yield DomainArea(self.outer.rows, self._liked(finest, self.outer.rows))

    def count_best_domain(self) -> int:
        """The most tasks of the hardest shape that one domain of the rule's level could take now, up to those
        that are wanted."""
        level = self._index(self.rule.level)
        if level is None or not self.demands:
            return 0
        room = self.levels.sums(level, self.demands[0].slots_by_row(self.outer.rows)).max(initial=0)
        return min(int(room), self.demands[0].tasks)

    def _index(self, label: str) -> int | None:
        return self.levels.labels.index(label) if label in self.levels.labels else None

    def _of_level(self, level: int, finest: int, pin: int | None) -> Iterator[DomainArea]:
        codes = self.levels.codes[level]
        holds = np.ones(len(self.levels.above[level]), np.bool_)
        for wanted in self.demands:
            room = self.levels.sums(level, wanted.slots_by_row(self.outer.rows))
            holds &= room >= wanted.tasks
        if pin is not None and len(self.placed_rows):
            home = set(self.levels.codes[pin][self.placed_rows].tolist())
            inside = np.isin(self.levels.codes[pin], sorted(home)) & (codes != NOWHERE)
            holds &= np.isin(np.arange(len(holds)), codes[inside]) & (len(home) == 1)
        for domain in self._ranked(level, np.flatnonzero(holds).tolist()):
            rows: Bools = codes == domain
            if self.outer.rows is not None:
                rows = rows & self.outer.rows
            yield DomainArea(rows, self._liked(finest, rows) if finest > level else self.outer.preferred)

    def _ranked(self, level: int, domains: list[int]) -> list[int]:
        """Tightest first: by the room of the domains around, from the coarsest, then by its own."""
        room = self.demands[0].slots_by_row(self.outer.rows) if self.demands else None
        home = set(self.levels.codes[level][self.placed_rows].tolist())

        def key(domain: int) -> tuple[object, ...]:
            chain: list[tuple[int, int]] = []
            at = domain
            for step in range(level, -1, -1):
                chain.append((0 if room is None else int(sums[step][at]), at))
                at = int(self.levels.above[step][at])
            return (domain not in home, tuple(reversed(chain)))

        sums = [] if room is None else [self._free(step) for step in range(level + 1)]
        return sorted(domains, key=key)

    def _free(self, level: int) -> Ints:
        """Room for the hardest shape by domain, not capped by what is asked."""
        board = self.demands[0].board
        free = np.where(board.feasible(), np.minimum(slots(board.question), MANY), 0)
        if self.outer.rows is not None:
            free = np.where(self.outer.rows, free, 0)
        return self.levels.sums(level, free)

    def _liked(self, level: int, within: Bools | None) -> tuple[Bools, ...]:
        """The domains of the preferred level inside some rows, those with the most room first."""
        if not self.demands:
            return ()
        codes = self.levels.codes[level]
        free = self._free(level)
        inside = np.ones(len(codes), np.bool_) if within is None else within
        present = sorted(set(codes[inside & (codes != NOWHERE)].tolist()))
        ordered = sorted(present, key=lambda domain: (-int(free[domain]), -domain))
        return tuple(codes == domain for domain in ordered if free[domain])
