"""Learns run times from history: the distribution of a job's run time, given how long it has run.

The run times of finished runs are known; those of unfinished and evicted runs are censored (Kaplan and Meier,
1958). A job belongs to groups, the most specific first. A group with `n` informative runs has the weight
`n / (n + SHRINKAGE)`, and the next group gets the rest. Beyond the longest observed run, the median remaining
time is equal to the elapsed time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from statistics import NormalDist
from typing import Final

SHRINKAGE: Final = 10
"""The number of runs of a group that have the same weight as the groups above it together."""
_NORMAL: Final = NormalDist()
_ROUNDING: Final = 1e-9


class RunGroup(StrEnum):
    """The groups of a job, the most specific first."""

    SAME_JOB = "same_job"
    USER_SIZE = "user_size"
    WORKSPACE_SIZE = "workspace_size"
    WORKSPACE = "workspace"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class JobTraits:
    """The traits of a job that are known before it runs. `size` is its number of GPUs."""

    workspace: str
    user: str
    image: str
    kind: str
    size: int

    def groups(self) -> tuple[tuple[RunGroup, Hashable], ...]:
        """Return the groups of the job, the most specific first."""
        return (
            (RunGroup.SAME_JOB, (self.user, self.image, self.kind, self.size)),
            (RunGroup.USER_SIZE, (self.user, self.size)),
            (RunGroup.WORKSPACE_SIZE, (self.workspace, self.size)),
            (RunGroup.WORKSPACE, self.workspace),
            (RunGroup.ALL, None),
        )


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of a job: its seconds, and whether it ended by itself (otherwise it would have been longer)."""

    traits: JobTraits
    seconds: float
    ended: bool


class SurvivalCurve:
    """The share of runs that last longer than a time (Kaplan-Meier estimator)."""

    def __init__(self, runs: Sequence[tuple[float, bool]]) -> None:
        times = sorted(seconds for seconds, _ in runs)
        counts = Counter(seconds for seconds, ended in runs if ended)
        self._longest = times[-1]
        self._ends = sorted(counts)
        self._ended = list(accumulate(counts[end] for end in self._ends))
        # The shares that survive each end, negated, so that they are ascending and can be bisected.
        surviving = 1.0
        self._fallen: list[float] = []
        for end in self._ends:
            surviving *= 1.0 - counts[end] / (len(times) - bisect_left(times, end))
            self._fallen.append(-surviving)

    def count_ended_after(self, elapsed_s: float) -> int:
        """Return how many runs ended after that time: these are informative for the remaining time."""
        index = bisect_right(self._ends, elapsed_s)
        return (self._ended[-1] if self._ended else 0) - (self._ended[index - 1] if index else 0)

    def find_quantile(self, elapsed_s: float, share: float) -> float:
        """Return the run time that this share of the runs that reached `elapsed_s` does not exceed."""
        index = bisect_right(self._ends, elapsed_s)
        surviving = -self._fallen[index - 1] if index else 1.0
        left = (1.0 - share) * surviving
        # The first end after which at most this share survives; the shares are negated.
        at = bisect_left(self._fallen, -left - _ROUNDING, lo=index)
        if at < len(self._ends):
            return self._ends[at]
        last = -self._fallen[-1] if self._fallen else 1.0
        return max(elapsed_s, self._longest, 1.0) * (last / max(left, _ROUNDING) if last > _ROUNDING else 1.0)


@dataclass(frozen=True, slots=True)
class RunBasis:
    """The basis of an estimated run time: the group with the greatest weight, and its informative runs."""

    level: RunGroup
    runs: int


@dataclass(frozen=True, slots=True)
class RunTimeEstimate:
    """The distribution of the total run time of a job that has run for `elapsed_s`."""

    elapsed_s: float
    limit_s: float | None
    curves: tuple[tuple[float, SurvivalCurve], ...]
    basis: RunBasis

    def draw_run_time(self, group: float, share: float) -> float:
        """Return a run time: `group` selects the group and `share` the quantile, both from 0 to 1."""
        chosen = self.curves[-1][1]
        for weight, curve in self.curves:
            if group < weight:
                chosen = curve
                break
            group = (group - weight) / (1.0 - weight)
        seconds = max(chosen.find_quantile(self.elapsed_s, share), self.elapsed_s + 1.0)
        return seconds if self.limit_s is None else max(min(seconds, self.limit_s), self.elapsed_s + 1.0)


class RunTimes:
    """The run times of a cell's history.

    Raises:
        ValueError: if no run has ended.
    """

    def __init__(self, runs: Iterable[PastRun]) -> None:
        grouped: defaultdict[tuple[RunGroup, Hashable], list[tuple[float, bool]]] = defaultdict(list)
        for run in runs:
            for group in run.traits.groups():
                grouped[group].append((run.seconds, run.ended))
        self.ended = sum(ended for _, ended in grouped[RunGroup.ALL, None])
        if not self.ended:
            raise ValueError("run times are learned from runs that ended")
        self._runs: Mapping[tuple[RunGroup, Hashable], list[tuple[float, bool]]] = grouped
        self._curves: dict[tuple[RunGroup, Hashable], SurvivalCurve] = {}

    def estimate_run_time(
        self, traits: JobTraits, *, elapsed_s: float = 0.0, limit_s: float | None = None
    ) -> RunTimeEstimate:
        """Return the distribution of a job's run time; `limit_s` is its time limit in seconds."""
        curves: list[tuple[float, SurvivalCurve]] = []
        basis, greatest, rest = RunBasis(RunGroup.ALL, 0), 0.0, 1.0
        for group in traits.groups():
            curve = self._curve(group)
            if curve is None:
                continue
            runs = curve.count_ended_after(elapsed_s)
            weight = 1.0 if group[0] is RunGroup.ALL else runs / (runs + SHRINKAGE)
            if not weight:
                continue
            curves.append((weight, curve))
            if rest * weight > greatest:
                basis, greatest = RunBasis(group[0], runs), rest * weight
            rest *= 1.0 - weight
        return RunTimeEstimate(elapsed_s, limit_s, tuple(curves), basis)

    def _curve(self, group: tuple[RunGroup, Hashable]) -> SurvivalCurve | None:
        known = self._curves.get(group)
        if known is None and group in self._runs:
            known = self._curves[group] = SurvivalCurve(self._runs[group])
        return known


def combine_draws(common: float, own: float, correlation: float) -> float:
    """Return a share from 0 to 1 from two independent normal draws, of which one is common to a group."""
    return _NORMAL.cdf(correlation**0.5 * common + (1.0 - correlation) ** 0.5 * own)
