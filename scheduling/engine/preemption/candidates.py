"""Who could give way: the holders of each queue, sorted once a cycle, and the order among them.

Order of the rules (Kueue's): already told to leave; other queues before the own; inside one queue the
users who used more lately; lower priority; latest to get its quota; id. The platform's own order keeps
the first, and then prefers tasks that their job can spare, lower priority, and the fewest GPU-seconds
thrown away. KAI-Scheduler's goes by priority first, and spares jobs by taking single tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from typing import Any

import numpy as np

from quotas.tree import QuotaTree
from scheduling.engine.model import Allocation, FlavorResource, Instant, Job
from scheduling.engine.model.options import PreemptionOptions, VictimOrder
from scheduling.engine.preemption.register import Floats, Holding, register_of, together, worth
from scheduling.engine.state.charges import merged
from scheduling.engine.state.fleet import Bools, Ints
from scheduling.engine.state.snapshot import Snapshot

UserLoad = Callable[[str, str], float | None]
"""What a user of a queue used lately, by queue and user; None where nobody counts."""

Segments = tuple[tuple["Candidate", ...], ...]


@dataclass(slots=True, eq=False, kw_only=True)
class Candidate:
    """A job, or one task that its job can spare, that could leave.

    `charges` is what that gives back. `lost` are the GPU-seconds thrown away, `work` the same with the job's
    earlier evictions weighed in, and `cost` with its waiting again as well, by which candidates are compared.
    `guarded` and `guarded_borrowing` are until when its guaranteed run time protects it: where its queue
    stands inside its nominal, and where it borrows. `rank` orders candidates of different queues.
    """

    job: Job
    queue: str
    tasks: tuple[Allocation, ...] = ()
    charges: Mapping[FlavorResource, int] = field(default_factory=dict)
    whole: bool = True
    leaving: bool = False
    lost: float = 0.0
    work: float = 0.0
    cost: float = 0.0
    load: float | None = None
    guarded: float = float("-inf")
    guarded_borrowing: float = float("-inf")
    rank: tuple[Any, ...] = ()

    @property
    def id(self) -> str:
        """The job's id, or the task's where the job stays."""
        return self.job.id if self.whole else self.tasks[0].id


def normative_rank(candidate: Candidate, now: Instant) -> tuple[Any, ...]:
    """The order of the rules between queues; a job whose time of admission is unknown came last."""
    return (not candidate.leaving, *normative_rank_of(candidate.job, now))


def normative_rank_of(job: Job, now: Instant) -> tuple[int, float, str]:
    """The same of jobs that all stay."""
    at = now if job.admitted_at is None else job.admitted_at
    return (job.priority, -at, job.id)


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
    """The candidates of all queues, each made when it is first asked for.

    Facts are those of the moment when the roster is made; a job that has left since holds nothing and is
    passed over by the search. Only jobs that run or are leaving stand in it: what this cycle admits, it
    does not evict. Arrays are by the number of a holding in the register: `eligible` says that nobody
    protects it, `worn` what each of its cards would lose, in seconds; `work`, `cost`, `guarded`
    and `guarded_borrowing` are those of its candidate.
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
        self.spares = options.victim_order is not VictimOrder.NORMATIVE
        self._user_load = user_load
        self.register = register_of(snapshot)
        self._lines: dict[str, Segments] = {}
        self._cheapest: dict[str, float] = {}
        self._whole: dict[int, Candidate] = {}
        self._spared: dict[int, tuple[Candidate, ...]] = {}
        self._everyone: dict[int, tuple[Candidate, ...]] = {}
        self._queues_at: dict[str, list[str]] = {}
        for name in sorted(snapshot.queues):
            self._queues_at.setdefault(snapshot.queues[name].quota_node, []).append(name)
        self._borrowed = {leaf: _above_nominal(snapshot.quota, leaf) for leaf in self._queues_at}
        self._above: dict[frozenset[FlavorResource], frozenset[str]] = {}
        self._assess()

    def queues_at(self, node: str) -> Sequence[str]:
        """The queues that stand at a node of the quota tree, sorted."""
        return self._queues_at.get(node, ())

    def stood_above(self, queue: str, keys: frozenset[FlavorResource]) -> bool:
        """Whether what ran of a queue when the roster was made was above its nominal of one of these.

        What a queue was given or promised since cannot be taken back in the same cycle: in its place an
        older job would leave that stood inside the nominal.
        """
        return self.snapshot.queues[queue].quota_node in self.above(keys)

    def above(self, keys: frozenset[FlavorResource]) -> frozenset[str]:
        """The quota nodes of all queues that stood above their nominal of one of these."""
        known = self._above.get(keys)
        if known is None:
            over = (leaf for leaf, borrowed in self._borrowed.items() if not borrowed.isdisjoint(keys))
            known = self._above[keys] = frozenset(over)
        return known

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

    def whole(self, number: int) -> Candidate:
        """All that an eligible holding of the register has, as one candidate."""
        known = self._whole.get(number)
        if known is None:
            holding = self._holding(number)
            known = self._whole[number] = self._candidate(
                holding,
                tasks=holding.tasks,
                charges=holding.charges,
                whole=True,
                lost=float(self._lost[number]),
                work=float(self.work[number]),
                cost=float(self.cost[number]),
                guarded=float(self.guarded[number]),
                guarded_borrowing=float(self.guarded_borrowing[number]),
            )
        return known

    def spared(self, number: int) -> tuple[Candidate, ...]:
        """The tasks of an eligible holding that can leave one by one, each as a candidate."""
        known = self._spared.get(number)
        if known is None:
            holding = self._holding(number)
            staying = self.spares and not holding.leaving
            tasks = holding.spared if staying else ()
            known = self._spared[number] = tuple(self._single(holding, task) for task in tasks)
        return known

    def cheapest(self, queue: str) -> float:
        """What a queue's cheapest candidate loses for each of its cards, in seconds; infinite without any."""
        known = self._cheapest.get(queue)
        if known is None:
            known = self._cheapest[queue] = float(self.worn[self.numbers(queue)].min(initial=np.inf))
        return known

    def _build(self, queue: str) -> Segments:
        segments: tuple[list[Candidate], ...] = ([], [], [])
        numbers: list[int] = self.numbers(queue).tolist()
        for number in numbers:
            whole = self.whole(number)
            segments[0 if whole.leaving else 2].append(whole)
            segments[1 if self.least_loss else 2].extend(self.spared(number))
        return tuple(tuple(in_queue(segment)) for segment in segments)

    def numbers(self, queue: str) -> Ints:
        """The eligible holdings of a queue."""
        at = self.register.queues.get(queue)
        order, starts = self._in_queues
        return order[:0] if at is None else order[starts[at] : starts[at + 1]]

    @cached_property
    def _in_queues(self) -> tuple[Ints, list[int]]:
        """The eligible holdings queue by queue, and where the queues of the register begin among them."""
        queues, numbers = self.register.jobs["queue"], np.flatnonzero(self.eligible)
        order = numbers[together(queues[numbers])]
        starts = np.searchsorted(queues[order], np.arange(len(self.register.queues) + 1))
        return order, starts.tolist()

    def _assess(self) -> None:
        """What depends on the moment, for all holdings at once."""
        jobs, times, options = self.register.jobs, self.register.times, self.options
        leaving, standing = jobs["leaving"].astype(np.bool_), jobs["tasks"] > 0
        # A job that nobody may take anything from: it says so itself, or it was evicted often enough.
        preemptible, capped = jobs["preemptible"].astype(np.bool_), jobs["evictions"] >= options.eviction_cap
        free = preemptible & ~capped
        if (fixed := np.flatnonzero(preemptible & capped & standing)).size:
            free[self._beyond_nominal(fixed)] = True
        self.eligible: Bools = standing & (leaving | free)
        ran = np.nan_to_num(np.maximum(0.0, self.now - times["since"]), copy=False)
        saved = times["checkpoint"]
        self._unsaved: Floats = np.where(saved > 0, np.mod(ran, np.where(saved > 0, saved, 1.0)), ran)
        cards = np.where(leaving, 0.0, times["cards"])
        self._lost: Floats = cards * self._unsaved
        self.worn: Floats = np.where(leaving, 0.0, self._unsaved + jobs["evictions"] * options.repeat_s)
        self.work: Floats = cards * self.worn
        self.cost: Floats = self.work + np.where(leaving, 0.0, options.wait_s)
        # Comparing with what is unknown is false.
        promised = ~leaving & (times["min_run"] >= 0)
        since, least = self.now - ran, times["min_run"]
        self.guarded: Floats = np.where(promised, since + least, -np.inf)
        self.guarded_borrowing: Floats = np.where(
            promised, since + np.minimum(least, options.grace_s), -np.inf
        )

    def _beyond_nominal(self, capped: Ints) -> list[int]:
        """Those of the holdings at their cap that stand above their queue's nominal, which was lowered since
        they started: beside jobs that are not preemptible those stay that rank highest and came first.
        """
        found: list[int] = []
        held: dict[str, dict[FlavorResource, int]] = {}
        holdings = map(self._holding, capped.tolist())
        for holding in sorted(holdings, key=lambda each: normative_rank_of(each.job, self.now), reverse=True):
            leaf = self.snapshot.queues[holding.queue].quota_node
            if leaf not in held:
                held[leaf] = self._not_preemptible(leaf)
            after = merged((held[leaf], holding.charges))
            if any(above(self.snapshot.quota, leaf, key, after[key]) for key in holding.charges):
                found.append(holding.number)
            else:
                held[leaf] = after
        return found

    def _not_preemptible(self, leaf: str) -> dict[FlavorResource, int]:
        jobs, numbers = self.register.jobs, self.register.queues
        rows = [numbers[name] for name in self.queues_at(leaf) if name in numbers]
        fixed = np.flatnonzero((jobs["tasks"] > 0) & (jobs["preemptible"] == 0))
        queues: list[int] = jobs["queue"][fixed].tolist()
        numbered = zip(fixed.tolist(), queues, strict=True)
        return merged(self._holding(number).charges for number, queue in numbered if queue in rows)

    def _holding(self, number: int) -> Holding:
        holding = self.register.holdings[number]
        if holding is None:
            raise AssertionError("nobody has this number in the register")
        return holding

    def _single(self, holding: Holding, task: Allocation) -> Candidate:
        charges, cards = worth((task,))
        unsaved = float(self._unsaved[holding.number])
        again = holding.job.evictions * self.options.repeat_s
        return self._candidate(
            holding,
            tasks=(task,),
            charges=charges,
            whole=False,
            lost=cards * unsaved,
            work=cards * (unsaved + again),
            cost=cards * (unsaved + again),
        )

    def _candidate(self, holding: Holding, **facts: Any) -> Candidate:
        job, queue = holding.job, holding.queue
        load = None if self._user_load is None else self._user_load(queue, job.user)
        leaving = holding.leaving and facts["whole"]
        candidate = Candidate(job=job, queue=queue, leaving=leaving, load=load, **facts)
        candidate.rank = self._rank(candidate)
        return candidate

    def _rank(self, candidate: Candidate) -> tuple[Any, ...]:
        match self.options.victim_order:
            case VictimOrder.LEAST_LOSS:
                return least_loss_rank(candidate)
            case VictimOrder.PRIORITY:
                return priority_rank(candidate)
        return normative_rank(candidate, self.now)


def above(tree: QuotaTree[FlavorResource], leaf: str, key: FlavorResource, amount: int) -> bool:
    """Whether an amount is more than a leaf owns."""
    nominal = tree.subtree_quota(leaf, key)
    return nominal is not None and amount > nominal


def _above_nominal(tree: QuotaTree[FlavorResource], leaf: str) -> frozenset[FlavorResource]:
    return frozenset(key for key in tree.usages(leaf) if tree.borrows(leaf, key))
