"""Times of samples: steps of the monotonic clock, so that a corrected wall clock reorders no samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_STEP_S: Final = 1.0
"""A wall clock that is off by more was set anew; less is the usual slow correction."""


@dataclass(slots=True)
class SteadyClock:
    """Turns monotonic seconds into milliseconds since 1970.

    The difference between the clocks is kept until the wall clock is set anew. Samples that wait to be sent
    then get the corrected time, because they are kept with their monotonic one.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    _offset: float | None = None

    def to_ms(self, monotonic_s: float) -> int:
        """Milliseconds since 1970 of a monotonic time."""
        offset = self.wall() - self.monotonic()
        if self._offset is None or abs(offset - self._offset) > _STEP_S:
            self._offset = offset
        return round((monotonic_s + self._offset) * 1000)
