"""The published statistics of the Philly jobs, from which the demo draws its workload.

Counts of jobs by number of GPUs and quantiles of their run times, over the 8,299 jobs that four
virtual clusters submitted in October and November 2017. Source: Microsoft's Philly traces, CC-BY-4.0.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from itertools import accumulate
from typing import Final

_LEVELS: Final = (0.0, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)

JOBS_BY_GPUS: Final[dict[int, int]] = {1: 3648, 2: 398, 4: 1570, 8: 2266, 16: 318, 32: 99}

# Seconds at the levels above. The longest twentieth (weeks) is left out: a demo has to move.
RUN_S_BY_GPUS: Final[dict[int, tuple[int, ...]]] = {
    1: (3, 75, 195, 3325, 66552, 333397, 591182),
    2: (16, 706, 23461, 74974, 214626, 481547, 597663),
    4: (2, 104, 680, 18346, 85602, 218470, 384435),
    8: (1, 89, 1031, 16869, 162609, 350308, 600338),
    16: (9, 43, 333, 12928, 90268, 220684, 387427),
    32: (12, 26, 58, 14400, 51170, 71469, 121860),
}


def draw_gpus(random_source: random.Random) -> int:
    """A number of GPUs, as often as it was asked for."""
    sizes = list(JOBS_BY_GPUS)
    return random_source.choices(sizes, weights=[JOBS_BY_GPUS[size] for size in sizes])[0]


def run_s_at(gpus: int, level: float) -> int:
    """The run time (s) below which the share `level` of the jobs of that size ended, 0 ≤ level ≤ 0.95."""
    values = RUN_S_BY_GPUS[gpus]
    place = min(bisect_right(_LEVELS, level), len(_LEVELS) - 1)
    low, high = _LEVELS[place - 1], _LEVELS[place]
    part = (level - low) / (high - low)
    # Between two quantiles on a logarithmic scale: run times span five orders of magnitude.
    return round(math.pow(values[place - 1], 1 - part) * math.pow(values[place], part))


def draw_run_s(random_source: random.Random, gpus: int, least: float = 0.0) -> int:
    """A run time (s) of a job of that size; `least` leaves out that share of shorter jobs."""
    return run_s_at(gpus, random_source.uniform(least, _LEVELS[-1]))


def mean_gpu_seconds(steps: int = 400) -> float:
    """Expected GPU-seconds of one job, by the same rule as the draws."""
    total = sum(JOBS_BY_GPUS.values())
    levels = list(accumulate([_LEVELS[-1] / steps] * steps, initial=0.0))[:-1]
    return sum(
        count / total * gpus * sum(run_s_at(gpus, level) for level in levels) / steps
        for gpus, count in JOBS_BY_GPUS.items()
    )
