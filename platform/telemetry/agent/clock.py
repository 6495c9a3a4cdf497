"""Times of samples: steps of the monotonic clock, so that a corrected wall clock reorders no samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_STEP_S: Final = 1.0
"""A larger offset means that the wall clock was set; a smaller one is the usual slow correction."""


@dataclass(slots=True)
class SteadyClock:
    """Converts monotonic seconds to milliseconds since 1970.

    The offset between the clocks is kept until the wall clock is set. Samples that wait to be sent then get
    the corrected time, because they are stored with their monotonic time.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    _offset: float | None = None

    def to_ms(self, monotonic_s: float) -> int:
        """Return the milliseconds since 1970 of a monotonic time."""
        offset = self.wall() - self.monotonic()
        if self._offset is None or abs(offset - self._offset) > _STEP_S:
            self._offset = offset
        return round((monotonic_s + self._offset) * 1000)
