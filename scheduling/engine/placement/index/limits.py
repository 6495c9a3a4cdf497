"""What scores may be at most, so that what does not fit is never chosen."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from scheduling.engine.placement.index.grid import Numbers
from scheduling.engine.state.fleet import Bools, Ints

LEAST = np.iinfo(np.int64).min


def least(amounts: Ints) -> Ints:
    """Amounts to compare with what is left; who asks for nothing is not refused for overuse by others."""
    found: Ints = np.where(amounts > 0, amounts, LEAST)
    return found


class Limits:
    """Limits for shapes, `[shapes]`: the higher of two scores where a shape fits, else the lower.

    Cards are told by numbers that `room` gives out, cards and CPU together by those of `base`. What is
    limited together is worked out where it first occurs.
    """

    def __init__(self, cpu: Ints, memory: Ints, bounds: tuple[Any, Any]) -> None:
        self._bounds = np.array(bounds)
        self._cpu, self._by_cpu = self._ladder(least(cpu))
        self._width = len(self._by_cpu)
        self._memory, self._by_memory = self._ladder(least(memory))
        self._rooms: list[Numbers] = []
        self._bases: dict[int, Numbers] = {}
        self._known: dict[int, Numbers] = {}

    def room(self, fits: Bools) -> int:
        """A number for cards on which these shapes fit."""
        self._rooms.append(self._limit(fits))
        return len(self._rooms) - 1

    def base(self, room: int, cpu: int) -> int:
        """A number for cards and so many millicores."""
        return room * self._width + bisect_right(self._cpu, cpu)

    def within(self, base: int, memory: int) -> Numbers:
        """The limits where so much memory is left as well."""
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
        """The different amounts that shapes ask for, and the limits while the first k of them are free."""
        steps: list[int] = np.unique(asked).tolist()
        nobody = np.zeros(asked.shape, np.bool_)
        return steps, [self._limit(fits) for fits in (nobody, *(asked <= step for step in steps))]

    def _limit(self, fits: Bools) -> Numbers:
        limit: Numbers = self._bounds.take(fits)
        return limit
