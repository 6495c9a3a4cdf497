"""This module groups the jobs of a queue into equivalence classes: what holds for one job of a class in a
cycle holds for all.

Source of the idea: the scheduling equivalence hashes of Kueue and of KAI-Scheduler.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields

from scheduling.engine.model import ANYWHERE, HelpCode, Job, JobOutcome, PlacementRules
from scheduling.engine.state.snapshot import Snapshot

MAX_CACHED = 1024

OutcomeKey = tuple[str, int, str]
"""A queue, the number of an equivalence class in it, and what keeps these jobs from being evaluated."""


def request_key(job: Job) -> Hashable:
    """Return a key that is equal for jobs with equal requests, whatever their submitter and state."""
    return (
        *[
            (
                role.name,
                role.replicas,
                role.min_count,
                role.ended,
                role.request,
                _rules(job.rules_of(role)),
                role.topology,
                role.sub_gang,
            )
            for role in job.roles
        ],
        job.min_available,
        job.preemptible,
        job.topology,
        job.sub_gangs,
    )


def _circumstances(job: Job) -> tuple[Hashable, ...]:
    """Return a key that is equal for jobs of a queue that fit or fail together if requests are equal."""
    return (
        job.priority,
        job.evictions,
        job.drained,
        job.drained_until,
        job.preempts_after,
        job.max_run_s,
        job.allowances,
        job.barred,
    )


class EquivalenceClasses:
    """The equivalence classes of jobs as small numbers, kept between cycles for unchanged jobs."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Job, int, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def class_of(self, job: Job) -> int:
        """Return a number that is equal for jobs of one queue that fit or fail together."""
        known = self._of.get(job.id)
        # This is called for every pending job in every cycle.
        return known[1] if known is not None and known[0] is job else self._number_job(job)[1]

    def request_class_of(self, job: Job) -> int:
        """Return a number that is equal for jobs whose `request_key` is equal."""
        known = self._of.get(job.id)
        return known[2] if known is not None and known[0] is job else self._number_job(job)[2]

    def _number_job(self, job: Job) -> tuple[Job, int, int]:
        known = self._of.get(job.id)
        if known is None or known[0] is not job:
            request_number = self._number(request_key(job))
            known = self._of[job.id] = (
                job,
                self._number((request_number, *_circumstances(job))),
                request_number,
            )
        return known

    def _number(self, kind: Hashable) -> int:
        return self._numbers.setdefault(kind, len(self._numbers))

    @property
    def size(self) -> int:
        """The number of cached jobs and classes."""
        return len(self._of) + len(self._numbers)


class OutcomeCache:
    """The outcomes of pending jobs, kept from cycle to cycle.

    As long as the jobs of one class get the same outcome, each keeps its object, so that the commit sees
    at once that it did not change. Recommendations are part of an outcome once they were tried
    (`advise_waiting_jobs`). `seen` are the classes with an outcome in this cycle, each with one of its jobs.
    """

    def __init__(self) -> None:
        self._of: dict[OutcomeKey, ClassOutcomes] = {}
        self.seen: dict[OutcomeKey, str] = {}

    def outcomes_of_class(
        self, queue: str, job_class: int, outcome: JobOutcome, held_up: str = ""
    ) -> Mapping[str, JobOutcome]:
        """Return this outcome for any job of a queue and class, by job id. `held_up` is what keeps these jobs
        from being evaluated."""
        kind = queue, job_class, held_up
        known = self._of.get(kind)
        if known is None or _content(known.computed) != _content(outcome):
            known = self._of[kind] = ClassOutcomes(outcome, without_untried_help(outcome))
        self.seen.setdefault(kind, outcome.job)
        return known

    def get_outcomes(self, kind: OutcomeKey) -> ClassOutcomes:
        """Return the outcomes of a class that was seen."""
        return self._of[kind]

    def replace_outcomes(self, kind: OutcomeKey, outcomes: ClassOutcomes) -> None:
        """Give the jobs of a class another outcome from now on."""
        self._of[kind] = outcomes

    @property
    def size(self) -> int:
        """The number of cached outcomes."""
        return sum(map(len, self._of.values()))


HELP_TO_TRY = frozenset(
    {
        HelpCode.ASK_FEWER_CARDS,
        HelpCode.ASK_FEWER_TASKS,
        HelpCode.ASK_LESS,
        HelpCode.ASK_OTHER_MODEL,
        HelpCode.ASK_OTHER_PROFILE,
        HelpCode.LOOSEN_PLACEMENT,
        HelpCode.MAKE_PREEMPTIBLE,
        HelpCode.RAISE_QUOTA,
    }
)
"""Recommendations that are reported only after they were tried."""


def without_untried_help(outcome: JobOutcome) -> JobOutcome:
    """Return the outcome without the recommendations that were not tried."""
    ways = tuple(way for way in outcome.help if way.code not in HELP_TO_TRY)
    return outcome if len(ways) == len(outcome.help) else outcome._replace(help=ways)


def _content(outcome: JobOutcome) -> tuple[object, ...]:
    """Return all fields of an outcome but its job."""
    return outcome.status, outcome.reason, outcome.numbers, outcome.help


class ClassOutcomes(dict[str, JobOutcome]):
    """One outcome for every job of a class, created when it is first read.

    `computed` is the outcome with all recommendations, `reported` the one that jobs get. `tried_at` is the
    version of the cell's state in which the recommendations were tried, None until that is done.
    """

    def __init__(self, found: JobOutcome, first: JobOutcome, tried_at: int | None = None) -> None:
        super().__init__()
        self.computed, self.reported, self.tried_at = found, first, tried_at

    def __missing__(self, job_id: str) -> JobOutcome:
        first = self.reported
        # This runs once per job, and `_replace` takes three times as long.
        outcome = self[job_id] = JobOutcome(job_id, first.status, first.reason, first.numbers, first.help)
        return outcome


def outcome_cache_of(snapshot: Snapshot) -> OutcomeCache:
    """Return the outcomes kept with a snapshot, cleared once most entries belong to ended jobs."""
    known = snapshot.job_memo.get(OutcomeCache)
    if not isinstance(known, OutcomeCache) or known.size > MAX_CACHED + 2 * len(snapshot.jobs):
        known = snapshot.job_memo[OutcomeCache] = OutcomeCache()
    known.seen = {}
    return known


def equivalence_classes_of(snapshot: Snapshot) -> EquivalenceClasses:
    """Return the classes of a snapshot; they are numbered anew once most numbers belong to jobs that ended.

    Whatever was cached by class number is dropped with them.
    """
    known = snapshot.job_memo.get(EquivalenceClasses)
    if not isinstance(known, EquivalenceClasses) or known.size > MAX_CACHED + 4 * len(snapshot.jobs):
        known = snapshot.job_memo[EquivalenceClasses] = EquivalenceClasses()
        snapshot.memo.clear()
        snapshot.job_memo.pop(OutcomeCache, None)
        snapshot.limits_memo.clear()
    return known


def _rules(rules: PlacementRules) -> Hashable:
    if rules is ANYWHERE or rules == ANYWHERE:
        return ()
    return tuple(
        tuple(sorted(value.items())) if isinstance(value, Mapping) else value
        for value in (getattr(rules, item.name) for item in fields(rules))
    )
