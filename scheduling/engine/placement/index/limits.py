"""This module limits scores so that a node on which a shape does not fit is never chosen."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from scheduling.engine.placement.index.grid import Numbers
from scheduling.engine.state.fleet import Bools, Ints

LEAST = np.iinfo(np.int64).min


def comparable_amounts(amounts: Ints) -> Ints:
    """Return amounts to compare with what is free; a request of 0 is not refused for overuse by others."""
    found: Ints = np.where(amounts > 0, amounts, LEAST)
    return found


class ScoreLimits:
    """Limits for shapes, `[shapes]`: the higher of two scores where a shape fits, otherwise the lower.

    Cards are identified by the numbers of `number_card_fit`, cards and CPU together by those of
    `number_cpu_fit`. Combined limits are computed at their first use.
    """

    def __init__(self, cpu: Ints, memory: Ints, bounds: tuple[Any, Any]) -> None:
        self._bounds = np.array(bounds)
        self._cpu, self._by_cpu = self._ladder(comparable_amounts(cpu))
        self._width = len(self._by_cpu)
        self._memory, self._by_memory = self._ladder(comparable_amounts(memory))
        self._rooms: list[Numbers] = []
        self._bases: dict[int, Numbers] = {}
        self._known: dict[int, Numbers] = {}

    def number_card_fit(self, fits: Bools) -> int:
        """Return a number for cards on which these shapes fit."""
        self._rooms.append(self._limit(fits))
        return len(self._rooms) - 1

    def number_cpu_fit(self, room: int, cpu: int) -> int:
        """Return a number for such cards together with this many millicores."""
        return room * self._width + bisect_right(self._cpu, cpu)

    def limits_for(self, base: int, memory: int) -> Numbers:
        """Return the limits with this much free memory as well. `[shapes]`."""
        step = bisect_right(self._memory, memory)
        number = base * len(self._by_memory) + step
        limit = self._known.get(number)
        if limit is None:
            limit = self._known[number] = np.minimum(self._base(base), self._by_memory[step])
        return limit

    def _base(self, base: int) -> Numbers:
        limit = self._bases.get(base)
        if limit is None:
            room, step = divmod(base, self._width)
            limit = self._bases[base] = np.minimum(self._rooms[room], self._by_cpu[step])
        return limit

    def _ladder(self, asked: Ints) -> tuple[list[int], list[Numbers]]:
        """Return the different amounts that shapes ask for, and the limits with the first k of them free."""
        steps: list[int] = np.unique(asked).tolist()
        nothing_fits = np.zeros(asked.shape, np.bool_)
        return steps, [self._limit(fits) for fits in (nothing_fits, *(asked <= step for step in steps))]

    def _limit(self, fits: Bools) -> Numbers:
        limit: Numbers = self._bounds.take(fits)
        return limit
