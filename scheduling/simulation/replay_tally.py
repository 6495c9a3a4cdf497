"""Computes figures of a period of a cell from the events of its jobs: waits, preemptions, GPU time,
guarantees.

Simulated and recorded periods are counted by the same rules. Amounts of GPUs are percent points, 100 for a
whole GPU; times are epoch seconds.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

WHOLE_GPU: Final = 100
GUARANTEE_GRACE_S: Final = 60
"""The time within nominal quota that does not count as waiting, in seconds, because a start takes some
time."""
MOST_BUCKETS: Final = 200
_HOUR_S: Final = 3_600
_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts of a job that its figures need: its team (a workspace), the pools that it may use, and its
    GPUs.

    `counted`: it was submitted in the period, so its wait is part of the figures.
    """

    team: str
    flavors: tuple[str, ...]
    points: int
    counted: bool


@dataclass(frozen=True, slots=True)
class JobWait:
    """A wait in seconds; `at_least` if it had not ended by the end of the period."""

    seconds: float
    at_least: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the keys seconds and at_least."""
        return {"seconds": round(self.seconds), "at_least": self.at_least}


@dataclass(slots=True)
class TeamFigures:
    """The figures of one workspace, or of all. GPU time in GPU-seconds.

    `inside_quota_s` is how long a job waited although its GPUs were within the workspace's nominal quota.
    """

    jobs: int = 0
    not_started: int = 0
    waits: list[JobWait] = field(default_factory=list)
    preemptions: int = 0
    lost_gpu_s: float = 0.0
    gpu_s: float = 0.0
    inside_quota_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the figures in their stored form: waits as median and 90th percentile, null without jobs."""
        median, high = (find_quantile(self.waits, level) for level in (0.5, 0.9))
        return {
            "jobs": self.jobs,
            "not_started": self.not_started,
            "wait_median": median.to_json() if median else None,
            "wait_p90": high.to_json() if high else None,
            "preemptions": self.preemptions,
            "lost_gpu_hours": round(self.lost_gpu_s / _HOUR_S, 3),
            "gpu_hours": round(self.gpu_s / _HOUR_S, 3),
            "inside_quota_s": round(self.inside_quota_s),
        }


def find_quantile(waits: Sequence[JobWait], level: float) -> JobWait | None:
    """Return the smallest wait that a share `level` of all waits does not exceed; None if there are none.

    Waits that have not ended are ranked by their length so far, so such a quantile is a lower bound.
    """
    ranked = sorted(waits, key=lambda wait: (wait.seconds, wait.at_least))
    if not ranked:
        return None
    place = max(math.ceil(level * len(ranked)) - 1, 0)
    # A wait that has not ended may become longer than the quantile, which is then a lower bound.
    open_before = any(wait.at_least for wait in ranked[: place + 1])
    return JobWait(ranked[place].seconds, open_before)


@dataclass(slots=True)
class _JobCourse:
    """The state of one job so far."""

    waiting_since: float | None = None
    waited_s: float = 0.0
    started: bool = False
    held: Mapping[str, int] = field(default_factory=dict)


class ReplayTally:
    """Computes the figures of one period from `begin` to `end`; methods are called in the order of events.

    `nominal` is the quota of each team in each pool; a missing pool means no quota, None means unlimited.
    """

    def __init__(
        self,
        facts: Mapping[str, JobFacts],
        nominal: Mapping[tuple[str, str], int | None],
        *,
        begin: float,
        end: float,
    ) -> None:
        self._facts, self._nominal, self._end = facts, dict(nominal), end
        self._begin = self._now = begin
        self._courses: dict[str, _JobCourse] = {}
        self._waiting: defaultdict[str, Counter[tuple[tuple[str, ...], int]]] = defaultdict(Counter)
        self._used: Counter[tuple[str, str]] = Counter()
        self._by_team: Counter[str] = Counter()
        self._dirty: set[str] = set()
        self._inside_since: dict[str, float] = {}
        self.teams: defaultdict[str, TeamFigures] = defaultdict(TeamFigures)
        self._bucket_s = math.ceil((end - begin) / MOST_BUCKETS / _MINUTE_S) * _MINUTE_S
        self._buckets = [0.0] * max(math.ceil((end - begin) / self._bucket_s), 1)

    def submit_job(self, at: float, job_id: str) -> None:
        """Record that a job was submitted."""
        self._advance(at)
        facts, course = self._facts[job_id], _JobCourse()
        self._courses[job_id] = course
        if facts.counted:
            self.teams[facts.team].jobs += 1
        self._begin_wait(job_id, at)

    def start_job(self, at: float, job_id: str, held: Mapping[str, int]) -> None:
        """Record that a job started with these percent points by pool; it may have been pending before."""
        self._advance(at)
        course = self._courses.setdefault(job_id, _JobCourse())
        self._end_wait(job_id, at)
        course.started, course.held = True, dict(held)
        self._hold(job_id, held, 1)

    def stop_job(
        self, at: float, job_id: str, *, waits: bool, preempted: bool = False, lost_s: float = 0.0
    ) -> None:
        """Record that a job released its GPUs; the work of its last `lost_s` seconds is lost."""
        self._advance(at)
        course, team = self._courses[job_id], self.teams[self._facts[job_id].team]
        team.lost_gpu_s += lost_s * sum(course.held.values()) / WHOLE_GPU
        team.preemptions += preempted
        self._hold(job_id, course.held, -1)
        course.held = {}
        if waits:
            self._begin_wait(job_id, at)

    def withdraw_job(self, at: float, job_id: str) -> None:
        """Record that a pending job was withdrawn."""
        self._advance(at)
        self._end_wait(job_id, at)
        self._count(job_id, over=self._courses[job_id].started)

    def finish_job(self, at: float, job_id: str) -> None:
        """Record that a running job ended by itself."""
        self.stop_job(at, job_id, waits=False)
        self._count(job_id, over=True)

    def set_nominal(self, at: float, nominal: Mapping[tuple[str, str], int | None]) -> None:
        """Record a change of quotas."""
        self._advance(at)
        self._nominal = dict(nominal)
        self._dirty.update(self._waiting)

    def close_period(self) -> None:
        """End the period: running jobs count as started, waits of pending jobs as lower bounds."""
        self._advance(self._end)
        for team in list(self._inside_since):
            self._leave_quota(team, self._end)
        for job_id, course in list(self._courses.items()):
            over = course.waiting_since is None
            self._end_wait(job_id, self._end)
            self._count(job_id, over=over)

    def to_json(self, *, capacity: Mapping[str, int]) -> dict[str, Any]:
        """Return all figures; `capacity` is the number of percent points of each pool's GPUs."""
        total = TeamFigures()
        for team in self.teams.values():
            for name in (
                "jobs",
                "not_started",
                "waits",
                "preemptions",
                "lost_gpu_s",
                "gpu_s",
                "inside_quota_s",
            ):
                setattr(total, name, getattr(total, name) + getattr(team, name))
        seconds = self._end - self._begin
        gpus = sum(capacity.values()) / WHOLE_GPU
        return {
            "teams": {key: self.teams[key].to_json() for key in sorted(self.teams)},
            "total": total.to_json(),
            "gpus": gpus,
            "allocation_rate": round(total.gpu_s / (gpus * seconds), 6) if gpus and seconds else None,
            "bucket_s": self._bucket_s,
            "allocated_gpus": [
                round(one / self._length(place), 3) for place, one in enumerate(self._buckets)
            ],
        }

    def _length(self, bucket: int) -> float:
        begin = self._begin + bucket * self._bucket_s
        return max(min(begin + self._bucket_s, self._end) - begin, 1.0)

    def _count(self, job_id: str, *, over: bool) -> None:
        """Count the wait of a job that has no further events."""
        facts, course = self._facts[job_id], self._courses.pop(job_id)
        if not facts.counted:
            return
        team = self.teams[facts.team]
        team.not_started += not course.started
        team.waits.append(JobWait(course.waited_s, at_least=not over))

    def _begin_wait(self, job_id: str, at: float) -> None:
        facts = self._facts[job_id]
        self._courses[job_id].waiting_since = at
        self._waiting[facts.team][facts.flavors, facts.points] += 1
        self._dirty.add(facts.team)

    def _end_wait(self, job_id: str, at: float) -> None:
        course, facts = self._courses[job_id], self._facts[job_id]
        if course.waiting_since is None:
            return
        course.waited_s += at - course.waiting_since
        course.waiting_since = None
        shape, shapes = (facts.flavors, facts.points), self._waiting[facts.team]
        shapes[shape] -= 1
        if not shapes[shape]:
            del shapes[shape]
        self._dirty.add(facts.team)

    def _hold(self, job_id: str, held: Mapping[str, int], sign: int) -> None:
        team = self._facts[job_id].team
        for flavor, points in held.items():
            self._used[team, flavor] += sign * points
            self._by_team[team] += sign * points
        self._dirty.add(team)

    def _advance(self, at: float) -> None:
        """Add the time until `at` with the current state to the figures."""
        if at <= self._now:
            return
        for team in self._dirty:
            if not self._waits_inside_quota(team):
                self._leave_quota(team, self._now)
            else:
                self._inside_since.setdefault(team, self._now)
        self._dirty.clear()
        for team, points in self._by_team.items():
            if points:
                self.teams[team].gpu_s += points / WHOLE_GPU * (at - self._now)
        self._fill_buckets(sum(self._by_team.values()) / WHOLE_GPU, at)
        self._now = at

    def _fill_buckets(self, gpus: float, until: float) -> None:
        at = self._now
        while at < until and gpus:
            place = min(int((at - self._begin) // self._bucket_s), len(self._buckets) - 1)
            last = place == len(self._buckets) - 1
            stop = until if last else min(until, self._begin + (place + 1) * self._bucket_s)
            self._buckets[place] += gpus * (stop - at)
            at = stop

    def _waits_inside_quota(self, team: str) -> bool:
        return any(
            points > 0 and any(self._is_inside(team, flavor, points) for flavor in flavors)
            for flavors, points in self._waiting[team]
        )

    def _is_inside(self, team: str, flavor: str, points: int) -> bool:
        nominal = self._nominal.get((team, flavor), 0)
        return nominal is None or self._used[team, flavor] + points <= nominal

    def _leave_quota(self, team: str, at: float) -> None:
        since = self._inside_since.pop(team, None)
        if since is not None and at - since > GUARANTEE_GRACE_S:
            self.teams[team].inside_quota_s += at - since
