"""Draws the arrivals that are usual for the time of the week, resampled from history in blocks.

For each queue and block a future gets the arrivals of a past block at the same hour of the week, so that
rates, shapes, run times and bursts stay correlated. While history is shorter than some weeks, the same hour
of any day is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from scheduling.engine.model import Job
from scheduling.prediction.run_times import JobTraits

DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S
BLOCK_S: Final = 4 * 3_600.0
_FEWEST_WEEKS, _MOST_WEEKS, _MOST_DAYS = 4, 8, 28


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that arrived at `at` (epoch seconds); it ran `ran_s` seconds so far, to its end if `ended`."""

    at: float
    job: Job
    traits: JobTraits
    ran_s: float
    ended: bool


class ArrivalHistory:
    """All arrivals between `since` and `until`, in epoch seconds; futures have arrivals only of queues in
    it."""

    def __init__(self, arrivals: Iterable[Arrival], *, since: float, until: float) -> None:
        self._since, self._until = since, until
        by_queue: defaultdict[str, list[Arrival]] = defaultdict(list)
        for arrival in arrivals:
            if since <= arrival.at < until:
                by_queue[arrival.job.queue].append(arrival)
        self._queues = {
            queue: sorted(by_queue[queue], key=lambda arrival: (arrival.at, arrival.job.id))
            for queue in sorted(by_queue)
        }
        self._times = {queue: [arrival.at for arrival in found] for queue, found in self._queues.items()}

    def count_arrivals(self) -> int:
        """Return the number of known arrivals."""
        return sum(map(len, self._queues.values()))

    def draw_arrivals(self, random: Random, horizon_s: float) -> Iterator[tuple[float, Arrival]]:
        """Yield arrivals after `until` with their times, in no particular order across queues."""
        for queue, arrivals in self._queues.items():
            times, begin = self._times[queue], self._until
            while begin < self._until + horizon_s:
                past = self._choose_block(random, begin)
                if past is None:
                    return
                for index in range(bisect_left(times, past), bisect_left(times, past + BLOCK_S)):
                    yield begin + (times[index] - past), arrivals[index]
                begin += BLOCK_S

    def _choose_block(self, random: Random, begin: float) -> float | None:
        """Return the beginning of a past block at the same hour; None if history is shorter than a block."""
        weeks = self._blocks(begin, WEEK_S, _MOST_WEEKS)
        blocks = weeks if len(weeks) >= _FEWEST_WEEKS else self._blocks(begin, DAY_S, _MOST_DAYS)
        if blocks:
            return random.choice(blocks)
        latest = self._until - BLOCK_S
        return random.uniform(self._since, latest) if latest >= self._since else None

    def _blocks(self, begin: float, period_s: float, most: int) -> list[float]:
        nearest = begin
        while nearest + BLOCK_S > self._until:
            nearest -= period_s
        return [at for step in range(most) if (at := nearest - step * period_s) >= self._since]
