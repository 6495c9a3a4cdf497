"""Computes the memory that a slice should have from its measured use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEASURED_S: Final = 600
"""The seconds for which use must be measured without a gap before memory is reduced."""
LEND_PAUSE_S: Final = 600
RETURN_PAUSE_S: Final = 3600
"""The seconds after a reduction, and after a return, for which memory is not reduced."""
RETURN_AT_PERCENT: Final = 85
"""The use, in percent of its current memory, from which a slice gets back all that it requested."""
_HEADROOM_PERCENT: Final = 125
_STEP_MIB: Final = 256
_LEAST_MIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMemory:
    """A slice: MiB that it requested and has, its peak and recent use in MiB, and seconds since three events.

    `measured_s` counts from the beginning of measurements without a gap; the others are None if it never
    happened.
    """

    asked: int
    held: int
    peak: int
    recent: int
    measured_s: float
    lent_s: float | None = None
    returned_s: float | None = None


def find_wanted_memory(slice_: SliceMemory) -> int | None:
    """Return the memory that a slice should have of each GPU, in MiB; None for no change.

    It is never more than what was requested, and never less than a quarter of that or 125 % of the peak use.
    Nothing changes while the use is between the headroom of 25 % and the 85 % from which memory is returned.
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
