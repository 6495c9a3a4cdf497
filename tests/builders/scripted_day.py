"""A scripted day of GPUs, and its results by closed formulas, without the platform's code.

Times are seconds since the start of the day. The use of a hold is linear in time, so that its integral over
any stretch is exact and can be compared with the samples of agents. The day normally runs four times as fast,
with the same intervals between samples; `ALLOTMENT_DAY=full` runs all 24 hours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

HOUR: Final = 3600
SPEED: Final = 1 if os.environ.get("ALLOTMENT_DAY") == "full" else 4
DAY: Final = 24 * HOUR // SPEED
Stretch = tuple[float, float]


def at(clock: str) -> int:
    """Return `13:50` or `15:31:02` by the clock of the script as seconds of the day."""
    hours, minutes, *seconds = (int(part) for part in clock.split(":"))
    return (hours * HOUR + minutes * 60 + (seconds[0] if seconds else 0)) // SPEED


@dataclass(frozen=True)
class Hold:
    """What one task holds of one GPU: percent points and MiB, and what it uses of them.

    `use` at `begin` changes by `slope` percent points an hour of the script. `run` numbers the attempts.
    """

    job: str
    node: str
    gpu: int
    begin: int
    end: int
    cores: int
    memory: int
    use: float
    slope: float
    used_memory: int
    task: int = 0
    run: int = 1
    reason: str = ""

    def use_at(self, second: float) -> float:
        return self.use + self.slope * SPEED * (second - self.begin) / HOUR

    def used(self, begin: float, end: float) -> float:
        """Return the integral of the use within the hold, in percent-seconds."""
        a, b = max(begin, self.begin) - self.begin, min(end, self.end) - self.begin
        return self.use * (b - a) + self.slope * SPEED / HOUR * (b * b - a * a) / 2 if a < b else 0.0


@dataclass(frozen=True)
class JobOf:
    """A job with its user and place; `mode` is whole, slice or mig."""

    name: str
    workspace: str
    user: str
    queue: str
    pool: str
    mode: str


@dataclass(frozen=True)
class Silence:
    """A time in which the agents of these nodes measured nothing."""

    nodes: tuple[str, ...]
    begin: int
    end: int


NODES: Final = {"alpha": 2, "beta": 2, "gamma": 2}
"""The GPUs of each node in the cluster whose agents push; those of gamma are MIG instances."""
MIG_CORES: Final = 43
JOBS: Final = (
    JobOf("train", "team-a", "ann", "qa", "a100", "whole"),
    JobOf("notebook", "team-a", "amy", "qa-small", "a100", "slice"),
    JobOf("serve", "team-b", "bob", "qb", "a100", "slice"),
    JobOf("tune", "team-b", "bea", "qb", "a100", "whole"),
    JobOf("batch", "team-c", "cy", "qc", "a100", "whole"),
    JobOf("elastic", "team-c", "cy", "qc", "mig", "mig"),
    JobOf("simulated", "team-d", "dan", "qd", "sim", "whole"),
)
HOLDS: Final = (
    # The job fails in the afternoon and starts again on the same GPU.
    Hold("train", "alpha", 0, at("01:00"), at("15:31:02"), 100, 40_960, 70, 1.5, 30_000, reason="FAILED"),
    Hold("train", "alpha", 0, at("15:33:41"), at("23:30"), 100, 40_960, 40, 2.0, 25_000, run=2),
    # Two tenants share a GPU.
    Hold("notebook", "alpha", 1, at("02:10:05"), at("20:45:50"), 40, 12_000, 3, 1.7, 9_000),
    Hold("serve", "alpha", 1, at("00:30"), at("18:00"), 50, 20_000, 45, -1.1, 15_000),
    # The job is evicted, waits, and runs again elsewhere.
    Hold("tune", "beta", 0, at("03:00"), at("10:17:23"), 100, 40_960, 95, -2, 38_000,
         reason="RECLAIM_NOMINAL"),
    Hold("tune", "beta", 1, at("10:41:07"), at("22:00"), 100, 40_960, 20, 5.0, 8_000, run=2),
    Hold("batch", "beta", 0, at("10:17:30"), at("19:00"), 100, 40_960, 88, 0.0, 20_000),
    # The job shrinks by a task.
    Hold("elastic", "gamma", 0, at("12:00"), at("23:00"), MIG_CORES, 20_000, 30, 0.5, 11_000),
    Hold("elastic", "gamma", 1, at("12:00"), at("20:01"), MIG_CORES, 20_000, 12, 1.0, 6_000, task=1),
    Hold("simulated", "delta", 0, at("08:00"), at("10:00"), 100, 40_960, 55, 6.0, 22_000),
)  # fmt: skip
SILENCES: Final = (
    Silence(("alpha",), at("05:20"), at("06:05")),
    Silence(tuple(NODES), at("13:00"), at("13:50")),
    Silence(("delta",), at("09:10"), at("09:25")),
)


@dataclass(frozen=True)
class Sample:
    """A reading of an agent at a moment; it counts for the time until the next reading."""

    node: str
    second: int
    length: int


def samples_of(node: str, plan: Sequence[tuple[int, int, int]], phase: int) -> Iterator[Sample]:
    """Yield the samples of a node; `plan` has stretches of begin, end and interval."""
    silent = [(s.begin, s.end) for s in SILENCES if node in s.nodes]
    for begin, end, length in plan:
        for second in range(begin + phase, end, length):
            if not any(a <= second < b for a, b in silent):
                yield Sample(node, second, length)


def holds_at(node: str, gpu: int, second: float) -> list[Hold]:
    """Return the holds of a GPU at a moment."""
    return [h for h in HOLDS if (h.node, h.gpu) == (node, gpu) and h.begin <= second < h.end]


@cache
def measured_times(node: str) -> list[Stretch]:
    """Return the stretches of the day in which a node measures."""
    found, since = [], 0.0
    for silence in sorted((s for s in SILENCES if node in s.nodes), key=lambda s: s.begin):
        found.append((since, float(silence.begin)))
        since = float(silence.end)
    return [*found, (since, float(DAY))]


def overlap(stretches: Iterable[Stretch], begin: float, end: float) -> list[Stretch]:
    """Return the parts of stretches between two times."""
    cut = ((max(a, begin), min(b, end)) for a, b in stretches)
    return [(a, b) for a, b in cut if a < b]


def union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches without counting any time twice."""
    found: list[Stretch] = []
    for a, b in sorted(stretches):
        if found and a <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], b))
        else:
            found.append((a, b))
    return found


def length(stretches: Iterable[Stretch]) -> float:
    return sum(b - a for a, b in stretches)


Amount = Callable[[float, float], float]
"""An integral over the time between two moments."""


def measured_of(hold: Hold, begin: float, end: float) -> list[Stretch]:
    """Return the times at which a hold was measured."""
    return overlap(measured_times(hold.node), max(begin, hold.begin), min(end, hold.end))


def held_seconds(holds: Sequence[Hold]) -> Amount:
    """Return the measured time of all holds, added up."""
    return lambda a, b: sum(length(measured_of(hold, a, b)) for hold in holds)


def used_seconds(holds: Sequence[Hold]) -> Amount:
    """Return the measured use of all holds in percent-seconds."""
    return lambda a, b: sum(hold.used(c, d) for hold in holds for c, d in measured_of(hold, a, b))


def memory_seconds(holds: Sequence[Hold]) -> Amount:
    """Return the measured memory of all holds in MiB-seconds."""
    return lambda a, b: sum(hold.used_memory * length(measured_of(hold, a, b)) for hold in holds)


def union_seconds(holds: Sequence[Hold]) -> Amount:
    """Return the time in which any of the holds was measured."""
    return lambda a, b: length(union(part for hold in holds for part in measured_of(hold, a, b)))


def node_seconds(nodes: Iterable[str]) -> Amount:
    """Return the time in which any of the nodes measured."""
    times = union(part for node in nodes for part in measured_times(node))
    return lambda a, b: length(overlap(times, a, b))


def gpu_seconds(gpus: Iterable[str]) -> Amount:
    """Return the measured time of GPUs, added up; each is named by its node."""
    names = list(gpus)
    return lambda a, b: sum(length(overlap(measured_times(node), a, b)) for node in names)


def allocated_seconds(holds: Sequence[Hold], known: Iterable[str], per: Callable[[Hold], float]) -> Amount:
    """Return the allocation while any of the nodes `known` measured, including that of unmeasured nodes."""
    times = union(part for node in known for part in measured_times(node))

    def amount(a: float, b: float) -> float:
        return sum(per(h) * length(overlap(times, max(a, h.begin), min(b, h.end))) for h in holds)

    return amount


def busy_gpu_seconds(holds: Sequence[Hold], known: Iterable[str]) -> Amount:
    """Return the time of GPUs with a hold while any node of `known` measured; a shared GPU counts once."""
    times = union(part for node in known for part in measured_times(node))
    gpus = {(hold.node, hold.gpu) for hold in holds}
    held = [part for gpu in gpus for part in union((h.begin, h.end) for h in holds if (h.node, h.gpu) == gpu)]
    return lambda a, b: sum(length(overlap(times, max(a, c), min(b, d))) for c, d in held)
