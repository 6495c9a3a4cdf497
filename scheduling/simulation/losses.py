"""This module measures the GPU time that evictions of a replay lost lately, as for a live cell."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from scheduling import engine


@dataclass(slots=True)
class Losses:
    """GPU-seconds lost on `gpus` GPUs, by the second of the trace in which they were lost."""

    gpus: int = 0
    _lost: deque[tuple[int, int]] = field(default_factory=deque)
    _sum: int = 0

    def add(self, now: int, gpu_seconds: int) -> None:
        """Add the GPU time that an eviction lost."""
        self._lost.append((now, gpu_seconds))
        self._sum += gpu_seconds

    def measure_ppm(self, now: int) -> int:
        """Return the part of the GPU time of the last 30 days that was lost, in millionths."""
        while self._lost and self._lost[0][0] < now - engine.LOSS_WINDOW_S:
            self._sum -= self._lost.popleft()[1]
        return self._sum * 1_000_000 // (self.gpus * engine.LOSS_WINDOW_S) if self.gpus else 0
