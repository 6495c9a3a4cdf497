"""Which jobs of a queue are alike: what holds for one of them in a cycle holds for all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, replace

from scheduling.engine.model import HelpCode, Job, Outcome, PlacementRules
from scheduling.engine.state.charges import ANYWHERE
from scheduling.engine.state.snapshot import Snapshot

MAX_CACHED = 1024

AnswerKey = tuple[str, int, str]
"""A queue, the equivalence of some of its jobs, and what holds these up besides."""


def request_key(job: Job) -> Hashable:
    """Equal for jobs that ask for the same, whoever they are and whatever has become of them."""
    return (
        tuple(
            (
                role.name,
                role.replicas,
                role.least,
                role.ended,
                role.request,
                _rules(job.rules_of(role)),
                role.topology,
                role.sub_gang,
            )
            for role in job.roles
        ),
        job.min_available,
        job.preemptible,
        job.topology,
        job.sub_gangs,
    )


def _besides(job: Job) -> tuple[Hashable, ...]:
    """Equal for jobs of one queue that ask for the same and fit or fail together, when they stand in line in
    this order."""
    return (
        job.priority,
        job.evictions,
        job.drained,
        job.drained_until,
        job.preempts_after,
        job.replaces,
        job.max_run_s,
        job.allowances,
        job.barred,
    )


class EquivalenceClasses:
    """The equivalence of jobs as small numbers, kept from cycle to cycle for jobs that did not change."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Job, int, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def class_of(self, job: Job) -> int:
        """Equal for two jobs of one queue that fit or fail together, when they stand in line like this."""
        known = self._of.get(job.id)
        # Asked of every waiting job in every cycle.
        return known[1] if known is not None and known[0] is job else self._numbered(job)[1]

    def request_class_of(self, job: Job) -> int:
        """Equal for two jobs for which `request_key` is equal."""
        known = self._of.get(job.id)
        return known[2] if known is not None and known[0] is job else self._numbered(job)[2]

    def _numbered(self, job: Job) -> tuple[Job, int, int]:
        known = self._of.get(job.id)
        if known is None or known[0] is not job:
            wanted = self._number(request_key(job))
            known = self._of[job.id] = (job, self._number((wanted, *_besides(job))), wanted)
        return known

    def _number(self, kind: Hashable) -> int:
        return self._numbers.setdefault(kind, len(self._numbers))

    @property
    def size(self) -> int:
        """How many jobs and kinds are kept."""
        return len(self._of) + len(self._numbers)


class AnswerCache:
    """Answers of jobs that wait, kept from cycle to cycle: as long as those of a queue that are alike are
    told the same, each keeps the answer that it has, and whoever stores answers sees at once that it does.

    What would help is part of an answer once it was tried (`advise`). `seen` are the kinds that were told
    something in this cycle, each with one of its jobs.
    """

    def __init__(self) -> None:
        self._of: dict[AnswerKey, SharedAnswers] = {}
        self.seen: dict[AnswerKey, str] = {}

    def answers_for(
        self, queue: str, job_class: int, outcome: Outcome, held_up: str = ""
    ) -> Mapping[str, Outcome]:
        """This answer for any job of a queue, by its id, given to one with the equivalence `job_class`;
        `held_up`
        is what keeps these from a turn."""
        kind = queue, job_class, held_up
        known = self._of.get(kind)
        if known is None or _said(known.computed) != _said(outcome):
            known = self._of[kind] = SharedAnswers(outcome, without_untried_help(outcome))
        self.seen.setdefault(kind, outcome.job)
        return known

    def get_answers(self, kind: AnswerKey) -> SharedAnswers:
        """What jobs of a kind that was seen are told."""
        return self._of[kind]

    def replace_answers(self, kind: AnswerKey, answers: SharedAnswers) -> None:
        """Tell jobs of a kind something else from now on."""
        self._of[kind] = answers

    @property
    def size(self) -> int:
        """How many answers are kept."""
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
"""Recommendations that are told only once they were tried."""


def without_untried_help(outcome: Outcome) -> Outcome:
    """The outcome without the recommendations that nobody has tried."""
    ways = tuple(way for way in outcome.help if way.code not in HELP_TO_TRY)
    return outcome if len(ways) == len(outcome.help) else replace(outcome, help=ways)


def _said(outcome: Outcome) -> tuple[object, ...]:
    """All that an outcome says, but for whose it is."""
    return outcome.status, outcome.reason, outcome.numbers, outcome.help


class SharedAnswers(dict[str, Outcome]):
    """One answer for every job that was told so, made when it is first asked for.

    `computed` is what the cycle found out, `reported` what is told. `tried_at` is in which state of the cell
    its recommendations were tried, None where that is still to be done.
    """

    def __init__(self, found: Outcome, first: Outcome, tried_at: int | None = None) -> None:
        super().__init__()
        self.computed, self.reported, self.tried_at = found, first, tried_at

    def __missing__(self, job_id: str) -> Outcome:
        first = self.reported
        # As often as there are jobs: `replace` takes three times as long.
        told = self[job_id] = Outcome(
            job=job_id, status=first.status, reason=first.reason, numbers=first.numbers, help=first.help
        )
        return told


def answer_cache_of(snapshot: Snapshot) -> AnswerCache:
    """The answers kept with a snapshot; made anew where most are of jobs that are gone."""
    known = snapshot.job_memo.get(AnswerCache)
    if not isinstance(known, AnswerCache) or known.size > MAX_CACHED + 2 * len(snapshot.jobs):
        known = snapshot.job_memo[AnswerCache] = AnswerCache()
    known.seen = {}
    return known


def equivalence_classes_of(snapshot: Snapshot) -> EquivalenceClasses:
    """The numbers of a snapshot; made anew where most of them belong to jobs that are gone.

    What was kept by number goes with them.
    """
    known = snapshot.job_memo.get(EquivalenceClasses)
    if not isinstance(known, EquivalenceClasses) or known.size > MAX_CACHED + 4 * len(snapshot.jobs):
        known = snapshot.job_memo[EquivalenceClasses] = EquivalenceClasses()
        snapshot.memo.clear()
        snapshot.job_memo.pop(AnswerCache, None)
        snapshot.limits_memo.clear()
    return known


def _rules(rules: PlacementRules) -> Hashable:
    if rules == ANYWHERE:
        return ()
    return tuple(
        tuple(sorted(value.items())) if isinstance(value, Mapping) else value
        for value in (getattr(rules, item.name) for item in fields(rules))
    )
