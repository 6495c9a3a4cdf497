"""This module orders the racks, zones or other domains in which a part of a gang may be placed, best first.

Rows of the fleet are numbered by domain on every level of a flavor's topology. A domain qualifies if it has
enough slots for each shape that must be placed together. The one with the fewest slots that holds the gang
comes first, compared from the coarsest level down, so that large domains stay whole. Where the gang must
spread over several domains of its preferred level, those with the most slots are filled first, so that it
touches few. Source of the order: KAI-Scheduler's topology plug-in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import TopologyMode, TopologyRule
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.capacity import count_slots
from scheduling.engine.placement.index.levels import NO_DOMAIN, TopologyLevels
from scheduling.engine.state.fleet import Bools, Ints

# A shape without requests has unlimited slots; the bound keeps their sums from overflowing.
MAX_SLOTS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class DomainArea:
    """The rows on which tasks may be placed, None for all; `preferred` are tried first, in order."""

    rows: Bools | None = None
    preferred: tuple[Bools, ...] = ()

    def row_masks(self) -> Iterator[Bools | None]:
        """Yield the masks in which to look for a node, one after the other."""
        for rows in self.preferred:
            yield rows if self.rows is None else rows & self.rows
        yield self.rows


ANYWHERE = DomainArea()


@dataclass(frozen=True, slots=True, eq=False)
class ShapeDemand:
    """Tasks of equal shape that must be placed together: the board of the shape, and their number."""

    board: ScoreBoard
    tasks: int

    def slots_by_row(self, within: Bools | None) -> Ints:
        """Return how many of the tasks each row could take at most, `[rows]`."""
        free = np.where(self.board.feasible_rows(), count_slots(self.board.question), 0)
        return np.minimum(free if within is None else np.where(within, free, 0), self.tasks)


@dataclass(frozen=True, slots=True, eq=False)
class DomainSearch:
    """The search for one part's domains: its rule on the levels of a topology, inside the area of its parent.
    `placed_rows` are the rows on which tasks of the part run."""

    levels: TopologyLevels
    rule: TopologyRule
    demands: tuple[ShapeDemand, ...]
    outer: DomainArea
    placed_rows: Ints

    def find_areas(self) -> Iterator[DomainArea]:
        """Yield the areas to try, best first. A required level that no node is labelled with gives none."""
        wished = self._level_index(self.rule.preferred_level) if self.rule.preferred_level else None
        level = self._level_index(self.rule.level)
        required = self.rule.mode is TopologyMode.REQUIRED
        if level is None:
            if not required:
                yield self.outer
            return
        finest = level if wished is None or wished < level else wished
        for step in range(finest, level - 1 if required else -1, -1):
            yield from self._areas_of_level(step, finest, pin=level if required else None)
        if not required:
            yield DomainArea(self.outer.rows, self._preferred_masks(finest, self.outer.rows))

    def count_best_domain(self) -> int:
        """Return the most tasks of the hardest shape, up to their number, that one domain takes now."""
        level = self._level_index(self.rule.level)
        if level is None or not self.demands:
            return 0
        slots_of_domain = self.levels.sum_by_domain(level, self.demands[0].slots_by_row(self.outer.rows)).max(
            initial=0
        )
        return min(int(slots_of_domain), self.demands[0].tasks)

    def _level_index(self, label: str) -> int | None:
        return self.levels.labels.index(label) if label in self.levels.labels else None

    def _areas_of_level(self, level: int, finest: int, pin: int | None) -> Iterator[DomainArea]:
        codes = self.levels.codes[level]
        holds = np.ones(len(self.levels.above[level]), np.bool_)
        for wanted in self.demands:
            slots_of_domain = self.levels.sum_by_domain(level, wanted.slots_by_row(self.outer.rows))
            holds &= slots_of_domain >= wanted.tasks
        if pin is not None and len(self.placed_rows):
            placed_domains = set(self.levels.codes[pin][self.placed_rows].tolist())
            inside = np.isin(self.levels.codes[pin], sorted(placed_domains)) & (codes != NO_DOMAIN)
            holds &= np.isin(np.arange(len(holds)), codes[inside]) & (len(placed_domains) == 1)
        for domain in self._rank_domains(level, np.flatnonzero(holds).tolist()):
            rows: Bools = codes == domain
            if self.outer.rows is not None:
                rows = rows & self.outer.rows
            yield DomainArea(
                rows, self._preferred_masks(finest, rows) if finest > level else self.outer.preferred
            )

    def _rank_domains(self, level: int, domains: list[int]) -> list[int]:
        """Order domains by the slots of the domains around them from the coarsest level down, then by their
        own; fewest first."""
        slots_of_domain = self.demands[0].slots_by_row(self.outer.rows) if self.demands else None
        placed_domains = set(self.levels.codes[level][self.placed_rows].tolist())

        def key(domain: int) -> tuple[object, ...]:
            chain: list[tuple[int, int]] = []
            at = domain
            for step in range(level, -1, -1):
                chain.append((0 if slots_of_domain is None else int(sums[step][at]), at))
                at = int(self.levels.above[step][at])
            return (domain not in placed_domains, tuple(reversed(chain)))

        sums = [] if slots_of_domain is None else [self._free_slots(step) for step in range(level + 1)]
        return sorted(domains, key=key)

    def _free_slots(self, level: int) -> Ints:
        """Return the slots for the hardest shape by domain, not capped by the demand."""
        board = self.demands[0].board
        free = np.where(board.feasible_rows(), np.minimum(count_slots(board.question), MAX_SLOTS), 0)
        if self.outer.rows is not None:
            free = np.where(self.outer.rows, free, 0)
        return self.levels.sum_by_domain(level, free)

    def _preferred_masks(self, level: int, within: Bools | None) -> tuple[Bools, ...]:
        """Return the domains of the preferred level inside some rows, those with the most slots first."""
        if not self.demands:
            return ()
        codes = self.levels.codes[level]
        free = self._free_slots(level)
        inside = np.ones(len(codes), np.bool_) if within is None else within
        present = sorted(set(codes[inside & (codes != NO_DOMAIN)].tolist()))
        ordered = sorted(present, key=lambda domain: (-int(free[domain]), -domain))
        return tuple(codes == domain for domain in ordered if free[domain])
