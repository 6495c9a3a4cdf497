"""The simulated clock: real time times a speed, computed on demand.

Each change of speed adds an anchor that says how far both clocks were at that moment. Simulated time is whole
milliseconds since the cluster was built. All anchors are kept, so the real time of any past transition can be
computed, and charts over a change of speed stay right.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

MAX_SPEED: Final = 100_000.0
_MOST_ANCHORS: Final = 200  # anchors; times of older transitions are computed from the oldest one
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Anchor(NamedTuple):
    """A point of the clock: at `real_ms` since 1970 it was at `sim_ms`, and it runs at `speed` from there."""

    sim_ms: int
    real_ms: int
    speed: float


def to_milliseconds(at: datetime) -> int:
    """Return the whole milliseconds since 1970 of an aware time."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The anchors of one cluster, oldest first; never empty."""

    anchors: tuple[Anchor, ...]

    @classmethod
    def start_at(cls, at: datetime, speed: float = 1.0) -> Timeline:
        """Return a clock at zero. Raises: ValueError for a speed outside (0, MAX_SPEED]."""
        return cls((Anchor(0, to_milliseconds(at), _checked(speed)),))

    @classmethod
    def from_json(cls, rows: Iterable[Iterable[float]]) -> Timeline:
        """Read what `to_json` wrote."""
        return cls(tuple(Anchor(int(s), int(r), float(v)) for s, r, v in rows))

    def to_json(self) -> list[list[float]]:
        return [list(anchor) for anchor in self.anchors]

    @property
    def speed(self) -> float:
        """Simulated seconds per real second."""
        return self.anchors[-1].speed

    def sim_at(self, at: datetime) -> int:
        """Return the simulated milliseconds at a real time; zero before the cluster was built."""
        real_ms = to_milliseconds(at)
        last = bisect.bisect_right(self.anchors, real_ms, key=lambda anchor: anchor.real_ms) - 1
        anchor = self.anchors[max(last, 0)]
        return max(anchor.sim_ms + int((real_ms - anchor.real_ms) * anchor.speed), self.anchors[0].sim_ms)

    def real_at(self, sim_ms: int) -> datetime:
        """Return the real time at which the simulated clock showed, or will show, `sim_ms`."""
        last = bisect.bisect_right(self.anchors, sim_ms, key=lambda anchor: anchor.sim_ms) - 1
        anchor = self.anchors[max(last, 0)]
        real_ms = anchor.real_ms + (sim_ms - anchor.sim_ms) / anchor.speed
        return _EPOCH + timedelta(milliseconds=real_ms)

    def with_speed(self, speed: float, at: datetime) -> Timeline:
        """Return the same clock running at `speed` from `at` on. Raises: ValueError as `start_at` does."""
        last = self.anchors[-1]
        real_ms = max(to_milliseconds(at), last.real_ms)  # the host's clock may have been set back
        anchor = Anchor(last.sim_ms + int((real_ms - last.real_ms) * last.speed), real_ms, _checked(speed))
        return Timeline((*self.anchors, anchor)[-_MOST_ANCHORS:])


def _checked(speed: float) -> float:
    if not 0 < speed <= MAX_SPEED:
        raise ValueError(f"speed must be above 0 and at most {MAX_SPEED:g}, not {speed:g}")
    return float(speed)
