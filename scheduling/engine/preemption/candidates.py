"""Who could give way: the holders of each queue, sorted once a cycle, and the order among them.

Order of the rules (Kueue's): already told to leave; other queues before the own; inside one queue the
users who used more lately; lower priority; latest to get its quota; id. The platform's own order keeps
the first, and then prefers tasks that their job can spare, lower priority, and the fewest GPU-seconds
thrown away. KAI-Scheduler's goes by priority first, and spares jobs by taking single tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from typing import Any

from scheduling.engine.model import Allocation, FlavorResource, Instant, Job, JobState
from scheduling.engine.options import PreemptionOptions, VictimOrder
from scheduling.engine.preemption.loss import charged, gpus, running_for, surplus, unsaved
from scheduling.engine.state.snapshot import Snapshot

UserLoad = Callable[[str, str], float | None]
"""What a user of a queue used lately, by queue and user; None where nobody counts."""

Segments = tuple[tuple["Candidate", ...], ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Candidate:
    """A job, or one task that its job can spare, that could leave.

    `charges` is what that gives back. `lost` are the GPU-seconds thrown away, `cost` the same with the job's
    earlier evictions weighed in. `guarded` and
    `guarded_borrowing` are until when its guaranteed run time protects it: where its queue stands
    inside its nominal, and where it borrows. `rank` orders candidates of different queues.
    """

    job: Job
    queue: str
    tasks: tuple[Allocation, ...] = ()
    charges: Mapping[FlavorResource, int] = field(default_factory=dict)
    whole: bool = True
    leaving: bool = False
    lost: float = 0.0
    cost: float = 0.0
    load: float | None = None
    guarded: float = float("-inf")
    guarded_borrowing: float = float("-inf")
    rank: tuple[Any, ...] = ()

    @property
    def id(self) -> str:
        """The job's id, or the task's where the job stays."""
        return self.job.id if self.whole else self.tasks[0].id

    def uses(self, keys: frozenset[FlavorResource]) -> bool:
        """Whether it holds something of one of these quotas."""
        return not keys.isdisjoint(self.charges)


_Part = tuple[tuple[Allocation, ...], Mapping[FlavorResource, int]]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Tasks that leave together, and what that gives back: the whole job, and what it can spare."""

    held: tuple[Allocation, ...]
    whole: _Part
    spared: tuple[_Part, ...]


def normative_rank(candidate: Candidate, now: Instant) -> tuple[Any, ...]:
    """The order of the rules between queues; a job whose time of admission is unknown came last."""
    job = candidate.job
    at = now if job.admitted_at is None else job.admitted_at
    return (not candidate.leaving, job.priority, -at, job.id)


def priority_rank(candidate: Candidate) -> tuple[Any, ...]:
    """Lower priority first; of equals what a job can spare, then what was submitted last."""
    spared = -candidate.tasks[0].index if not candidate.whole else 0
    job = candidate.job
    return (not candidate.leaving, job.priority, candidate.whole, -job.submitted_at, job.id, spared)


def least_loss_rank(candidate: Candidate) -> tuple[Any, ...]:
    """The platform's order."""
    spared = -candidate.tasks[0].index if not candidate.whole else 0
    job = candidate.job
    return (not candidate.leaving, candidate.whole, job.priority, candidate.cost, job.id, spared)


def in_queue(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates of one queue in order: users who used more lately come first, then by rank."""
    return sorted(candidates, key=lambda c: (not c.leaving, -(c.load or 0.0), c.rank))


def ordered(candidates: Iterable[Candidate], own: str) -> Iterator[Candidate]:
    """Candidates of several queues in one order, others before those of the queue `own`."""
    by_queue: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_queue.setdefault(candidate.queue, []).append(candidate)
    lines = [in_queue(by_queue[name]) for name in sorted(by_queue)]
    return merge(*lines, key=lambda c: across(c, own))


def normative_order(candidates: Iterable[Candidate], own: str, now: Instant) -> list[Candidate]:
    """Candidates as the rules order them for a preemptor of the queue `own`."""
    ranked = (replace(candidate, rank=normative_rank(candidate, now)) for candidate in candidates)
    return list(ordered(ranked, own))


def across(candidate: Candidate, own: str) -> tuple[Any, ...]:
    """The sort key between queues, seen from the queue `own`."""
    return (not candidate.leaving, candidate.queue == own, candidate.rank)


class Roster:
    """The candidates of all queues, each queue's built and sorted when first asked for.

    Facts are those of the moment of asking; a job that has left since holds nothing and is passed over
    by the search. Only jobs that run or are leaving stand in it: what this cycle admits, it does not
    evict.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: PreemptionOptions,
        now: Instant,
        user_load: UserLoad | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.options = options
        self.now = now
        self.least_loss = options.victim_order is VictimOrder.LEAST_LOSS
        self._spares = options.victim_order is not VictimOrder.NORMATIVE
        self._user_load = user_load
        self._lines: dict[str, Segments] = {}
        self._everyone: dict[int, tuple[Candidate, ...]] = {}
        self._queues_at: dict[str, list[str]] = {}
        for name in sorted(snapshot.queues):
            self._queues_at.setdefault(snapshot.queues[name].quota_node, []).append(name)

    def queues_at(self, node: str) -> Sequence[str]:
        """The queues that stand at a node of the quota tree, sorted."""
        return self._queues_at.get(node, ())

    @property
    def by_priority(self) -> bool:
        """Whether each segment is sorted by priority first."""
        return self._user_load is None

    def of(self, queue: str) -> Segments:
        """A queue's candidates: those leaving already, tasks that can be spared, and the others.

        Under the normative order nothing is spared singly, under that by priority it stands with the others.
        """
        known = self._lines.get(queue)
        if known is None:
            known = self._lines[queue] = self._build(queue)
        return known

    def everyone(self, segment: int) -> tuple[Candidate, ...]:
        """One segment of all queues together, by rank."""
        known = self._everyone.get(segment)
        if known is None:
            found = (candidate for name in self.snapshot.queues for candidate in self.of(name)[segment])
            known = self._everyone[segment] = tuple(sorted(found, key=lambda candidate: candidate.rank))
        return known

    def _build(self, queue: str) -> Segments:
        segments: tuple[list[Candidate], ...] = ([], [], [])
        for job_id in self.snapshot.holders(queue):
            job = self.snapshot.jobs.get(job_id)
            if job is None or job.state not in (JobState.LIVE, JobState.LEAVING):
                continue
            for candidate in self._of_job(queue, job):
                early = self.least_loss and not candidate.whole
                segments[0 if candidate.leaving else 1 if early else 2].append(candidate)
        return tuple(tuple(in_queue(segment)) for segment in segments)

    def _of_job(self, queue: str, job: Job) -> Iterator[Candidate]:
        parts = self._parts(queue, job)
        held = parts.held
        leaving = job.state is JobState.LEAVING or all(task.leaving for task in held)
        # A job that nobody may take anything from: it says so itself, or it was evicted often enough.
        if not leaving and (not job.preemptible or job.evictions >= self.options.eviction_cap):
            return
        if self._spares and not leaving:
            for spared in parts.spared:
                yield self._candidate(queue, job, spared, whole=False, leaving=False)
        yield self._candidate(queue, job, parts.whole, whole=True, leaving=leaving)

    def _parts(self, queue: str, job: Job) -> _Parts:
        """The parts in which a job could leave; kept from cycle to cycle while it holds the same."""
        held, known = self.snapshot.held(job.id), self.snapshot.derived.get(job.id)
        if known is not None and known[0] is held and isinstance(known[1], _Parts):
            return known[1]
        own = all(task.queue == queue for task in held)
        tasks = held if own else tuple(task for task in held if task.queue == queue)
        staying = tuple(task for task in tasks if not task.leaving)
        parts = _Parts(
            held=tasks,
            whole=(tasks, charged(tasks)),
            spared=tuple(((task,), charged((task,))) for task in surplus(job, staying)),
        )
        if own:
            self.snapshot.derived[job.id] = (held, parts)
        return parts

    def _candidate(self, queue: str, job: Job, part: _Part, *, whole: bool, leaving: bool) -> Candidate:
        tasks, charges = part
        guarded, borrowing = self._guard(job) if whole and not leaving else (float("-inf"), float("-inf"))
        cards = gpus(charges)
        plain = Candidate(
            job=job,
            queue=queue,
            tasks=tasks,
            charges=charges,
            whole=whole,
            leaving=leaving,
            lost=0.0 if leaving else cards * unsaved(job, self.now),
            cost=0.0 if leaving else cards * (unsaved(job, self.now) + job.evictions * self.options.repeat_s),
            load=None if self._user_load is None else self._user_load(queue, job.user),
            guarded=guarded,
            guarded_borrowing=borrowing,
        )
        return replace(plain, rank=self._rank(plain))

    def _rank(self, candidate: Candidate) -> tuple[Any, ...]:
        match self.options.victim_order:
            case VictimOrder.LEAST_LOSS:
                return least_loss_rank(candidate)
            case VictimOrder.PRIORITY:
                return priority_rank(candidate)
        return normative_rank(candidate, self.now)

    def _guard(self, job: Job) -> tuple[float, float]:
        if job.min_run_s is None:
            return float("-inf"), float("-inf")
        since = self.now - running_for(job, self.now)
        return since + job.min_run_s, since + min(job.min_run_s, self.options.grace_s)
