"""The memory that a slice should have, by its measured use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEASURED_S: Final = 600
"""So long a use is measured without a gap before memory is taken off."""
LEND_PAUSE_S: Final = 600
RETURN_PAUSE_S: Final = 3600
"""So long after memory was taken off, or given back, none is taken off."""
RETURN_AT_PERCENT: Final = 85
"""From this use of what it has on a slice gets back all that it asked for."""
_HEADROOM_PERCENT: Final = 125
_STEP_MIB: Final = 256
_LEAST_MIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMemory:
    """A slice: MiB that it asked for and has, its peak and recent use, and seconds since three events.

    `measured_s` counts from the beginning of measurements without a gap; None is never.
    """

    asked: int
    held: int
    peak: int
    recent: int
    measured_s: float
    lent_s: float | None = None
    returned_s: float | None = None


def find_wanted_memory(slice_: SliceMemory) -> int | None:
    """Return what a slice should have of each GPU in MiB; None for no change.

    It is never more than what was asked for, and never less than a quarter of that, or than the peak of use
    with a quarter on top. Between the headroom of 25 % and the 85 % from which memory comes back lies the
    band in which nothing changes.
    """
    if slice_.held < slice_.asked and 100 * slice_.recent >= RETURN_AT_PERCENT * slice_.held:
        return slice_.asked
    rested = (slice_.lent_s is None or slice_.lent_s >= LEND_PAUSE_S) and (
        slice_.returned_s is None or slice_.returned_s >= RETURN_PAUSE_S
    )
    if slice_.measured_s < MEASURED_S or not rested:
        return None
    needed = max(slice_.peak * _HEADROOM_PERCENT // 100, slice_.asked // 4, _LEAST_MIB)
    target = min(slice_.asked, -(-needed // _STEP_MIB) * _STEP_MIB)
    worth = max(slice_.asked // 10, _LEAST_MIB)
    return target if slice_.held - target >= worth else None
