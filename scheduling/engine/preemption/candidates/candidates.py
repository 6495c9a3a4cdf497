"""Candidates for eviction: an index over all queues, built once a cycle, and their order.

The normative order is that of Kueue ("Candidates for preemption",
https://kueue.sigs.k8s.io/docs/concepts/preemption/): terminating jobs first; other queues before the
preemptor's own; inside one queue the users with more recent usage first; lower priority; latest admission;
id. The platform's default order keeps the first rule and then prefers surplus tasks, lower priority and the
lowest eviction cost. The order of KAI-Scheduler sorts by priority first and evicts single surplus tasks
before whole jobs.
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
from scheduling.engine.preemption.candidates.allocation_table import (
    ChargedJob,
    Floats,
    charges_and_cards,
    get_allocation_table,
    group_order,
)
from scheduling.engine.state.charges import add_totals
from scheduling.engine.state.fleet import Bools, Ints
from scheduling.engine.state.snapshot import Snapshot

UserLoad = Callable[[str, str], float | None]
"""The recent usage of a user, by queue and user; None if usage is not tracked."""

Segments = tuple[tuple["VictimCandidate", ...], ...]


@dataclass(slots=True, eq=False, kw_only=True)
class VictimCandidate:
    """A job, or one surplus task of a job, that may be evicted.

    `charges` is the quota that the eviction releases. `lost_work` is the work that it discards, in
    GPU-seconds; `weighted_loss` adds a penalty for earlier evictions of the job, and `eviction_cost`, by
    which candidates are compared, one for waiting again. `protected_until` is the end of the guaranteed run
    time for a job inside its queue's nominal, `protected_until_borrowing` the end for a job that borrows.
    `whole` is False for a single surplus task, `leaving` is True for a job that is terminating already.
    `rank` orders candidates of different queues.
    """

    job: Job
    queue: str
    tasks: tuple[Allocation, ...] = ()
    charges: Mapping[FlavorResource, int] = field(default_factory=dict)
    whole: bool = True
    leaving: bool = False
    lost_work: float = 0.0
    weighted_loss: float = 0.0
    eviction_cost: float = 0.0
    user_load: float | None = None
    protected_until: float = float("-inf")
    protected_until_borrowing: float = float("-inf")
    rank: tuple[Any, ...] = ()

    @property
    def id(self) -> str:
        """The id of the job, or of the task for a surplus task."""
        return self.job.id if self.whole else self.tasks[0].id


def normative_rank(candidate: VictimCandidate, now: Instant) -> tuple[Any, ...]:
    """Return Kueue's rank between queues; a job of unknown admission time counts as admitted last."""
    return (not candidate.leaving, *normative_job_rank(candidate.job, now))


def normative_job_rank(job: Job, now: Instant) -> tuple[int, float, str]:
    """Return the rank by Kueue's rules of a job that is not terminating."""
    at = now if job.admitted_at is None else job.admitted_at
    return (job.priority, -at, job.id)


def priority_rank(candidate: VictimCandidate) -> tuple[Any, ...]:
    """Return KAI-Scheduler's rank: lower priority, surplus tasks, and the latest submission first."""
    spared = -candidate.tasks[0].index if not candidate.whole else 0
    job = candidate.job
    return (not candidate.leaving, job.priority, candidate.whole, -job.submitted_at, job.id, spared)


def least_loss_rank(candidate: VictimCandidate) -> tuple[Any, ...]:
    """Return the platform's rank: surplus tasks, lower priority, and the lowest eviction cost first."""
    spared = -candidate.tasks[0].index if not candidate.whole else 0
    job = candidate.job
    return (not candidate.leaving, candidate.whole, job.priority, candidate.eviction_cost, job.id, spared)


def sort_in_queue(candidates: Iterable[VictimCandidate]) -> list[VictimCandidate]:
    """Sort the candidates of one queue: users with more recent usage first, then by rank."""
    return sorted(candidates, key=lambda c: (not c.leaving, -(c.user_load or 0.0), c.rank))


def merge_queues(candidates: Iterable[VictimCandidate], own: str) -> Iterator[VictimCandidate]:
    """Merge candidates of several queues into one order, those of the preemptor's queue `own` last."""
    by_queue: dict[str, list[VictimCandidate]] = {}
    for candidate in candidates:
        by_queue.setdefault(candidate.queue, []).append(candidate)
    lines = [sort_in_queue(by_queue[name]) for name in sorted(by_queue)]
    return merge(*lines, key=lambda c: cross_queue_key(c, own))


def normative_order(candidates: Iterable[VictimCandidate], own: str, now: Instant) -> list[VictimCandidate]:
    """Sort candidates by Kueue's rules for a preemptor of the queue `own`."""
    ranked = (replace(candidate, rank=normative_rank(candidate, now)) for candidate in candidates)
    return list(merge_queues(ranked, own))


def cross_queue_key(candidate: VictimCandidate, own: str) -> tuple[Any, ...]:
    """Return the sort key between queues for a preemptor of the queue `own`."""
    return (not candidate.leaving, candidate.queue == own, candidate.rank)


class CandidateIndex:
    """The candidates of all queues, each created at its first use.

    The facts are those of the moment when the index is built; a job that was evicted since has no allocation
    left, and the search passes over it. The index holds running and terminating jobs only: a cycle does not
    evict a job that it admitted itself. The arrays are `[charged jobs]`, by the numbers of the allocation
    table: `eligible` is True for a job that no rule protects from every preemptor, `loss_per_card` is what
    each card of the job would lose, in seconds; `weighted_loss`, `eviction_cost`, `protected_until` and
    `protected_until_borrowing` are those of the job's candidate.
    """

    def __init__(
        self, snapshot: Snapshot, options: PreemptionOptions, now: Instant, user_load: UserLoad | None = None
    ) -> None:
        self.snapshot = snapshot
        self.options = options
        self.now = now
        self.least_loss = options.victim_order is VictimOrder.LEAST_LOSS
        self.evicts_surplus = options.victim_order is not VictimOrder.NORMATIVE
        self._user_load = user_load
        self.table = get_allocation_table(snapshot)
        self._segments: dict[str, Segments] = {}
        self._min_losses: dict[str, float] = {}
        self._whole_jobs: dict[int, VictimCandidate] = {}
        self._surplus: dict[int, tuple[VictimCandidate, ...]] = {}
        self._queues_at: dict[str, list[str]] = {}
        for name in sorted(snapshot.queues):
            self._queues_at.setdefault(snapshot.queues[name].quota_node, []).append(name)
        self._borrowed = {leaf: _borrowed_keys(snapshot.quota, leaf) for leaf in self._queues_at}
        self._above_nominal: dict[frozenset[FlavorResource], frozenset[str]] = {}
        self._compute_columns()

    def queues_at(self, node: str) -> Sequence[str]:
        """Return the queues of a quota node, sorted."""
        return self._queues_at.get(node, ())

    def was_above_nominal(self, queue: str, keys: frozenset[FlavorResource]) -> bool:
        """Return whether a queue used more than its nominal of one of these quotas when the index was built.

        Quota that a queue received in this cycle does not count: it cannot be reclaimed in the same cycle,
        and an older job inside the nominal would be evicted in its place.
        """
        return self.snapshot.queues[queue].quota_node in self.leaves_above_nominal(keys)

    def leaves_above_nominal(self, keys: frozenset[FlavorResource]) -> frozenset[str]:
        """Return the quota nodes whose queues used more than their nominal of one of these quotas."""
        known = self._above_nominal.get(keys)
        if known is None:
            over = (leaf for leaf, borrowed in self._borrowed.items() if not borrowed.isdisjoint(keys))
            known = self._above_nominal[keys] = frozenset(over)
        return known

    @property
    def sorts_by_priority(self) -> bool:
        """True if each segment is sorted by priority first, that is, if users' recent usage plays no part."""
        return self._user_load is None

    def queue_segments(self, queue: str) -> Segments:
        """Return a queue's candidates in three segments: terminating jobs, surplus tasks, and all others.

        The normative order has no surplus tasks; the order by priority has them among the others.
        """
        known = self._segments.get(queue)
        if known is None:
            known = self._segments[queue] = self._build_segments(queue)
        return known

    def whole_job(self, number: int) -> VictimCandidate:
        """Return the candidate for a whole job of the allocation table."""
        known = self._whole_jobs.get(number)
        if known is None:
            holding = self._charged_job(number)
            known = self._whole_jobs[number] = self._candidate(
                holding,
                tasks=holding.tasks,
                charges=holding.charges,
                whole=True,
                lost_work=float(self._lost_work[number]),
                weighted_loss=float(self.weighted_loss[number]),
                eviction_cost=float(self.eviction_cost[number]),
                protected_until=float(self.protected_until[number]),
                protected_until_borrowing=float(self.protected_until_borrowing[number]),
            )
        return known

    def surplus_tasks(self, number: int) -> tuple[VictimCandidate, ...]:
        """Return one candidate for each surplus task of an eligible job."""
        known = self._surplus.get(number)
        if known is None:
            holding = self._charged_job(number)
            staying = self.evicts_surplus and not holding.leaving
            tasks = holding.surplus if staying else ()
            known = self._surplus[number] = tuple(self._surplus_candidate(holding, task) for task in tasks)
        return known

    def min_loss_per_card(self, queue: str) -> float:
        """Return the lowest loss per card of a queue's candidates, in seconds; infinity without any."""
        known = self._min_losses.get(queue)
        if known is None:
            known = self._min_losses[queue] = float(
                self.loss_per_card[self.eligible_numbers(queue)].min(initial=np.inf)
            )
        return known

    def _build_segments(self, queue: str) -> Segments:
        segments: tuple[list[VictimCandidate], ...] = ([], [], [])
        numbers: list[int] = self.eligible_numbers(queue).tolist()
        for number in numbers:
            whole = self.whole_job(number)
            segments[0 if whole.leaving else 2].append(whole)
            segments[1 if self.least_loss else 2].extend(self.surplus_tasks(number))
        return tuple(tuple(sort_in_queue(segment)) for segment in segments)

    def eligible_numbers(self, queue: str) -> Ints:
        """Return the numbers of a queue's eligible jobs in the allocation table."""
        at = self.table.queue_numbers.get(queue)
        order, starts = self._eligible_by_queue
        return order[:0] if at is None else order[starts[at] : starts[at + 1]]

    @cached_property
    def _eligible_by_queue(self) -> tuple[Ints, list[int]]:
        """The numbers of eligible jobs ordered by queue, and the start of each queue's part."""
        queues, numbers = self.table.job_columns["queue"], np.flatnonzero(self.eligible)
        order = numbers[group_order(queues[numbers])]
        starts = np.searchsorted(queues[order], np.arange(len(self.table.queue_numbers) + 1))
        return order, starts.tolist()

    def _compute_columns(self) -> None:
        """Compute the columns that depend on the present moment, for all jobs at once."""
        jobs, times, options = self.table.job_columns, self.table.time_columns, self.options
        leaving, allocated = jobs["leaving"].astype(np.bool_), jobs["tasks"] > 0
        # Two things protect a job from every preemptor: its own setting, and the cap on its evictions.
        preemptible, capped = jobs["preemptible"].astype(np.bool_), jobs["evictions"] >= options.eviction_cap
        free = preemptible & ~capped
        if (fixed := np.flatnonzero(preemptible & capped & allocated)).size:
            free[self._capped_above_nominal(fixed)] = True
        self.eligible: Bools = allocated & (leaving | free)
        ran = np.nan_to_num(np.maximum(0.0, self.now - times["since"]), copy=False)
        saved = times["checkpoint"]
        self._unsaved: Floats = np.where(saved > 0, np.mod(ran, np.where(saved > 0, saved, 1.0)), ran)
        cards = np.where(leaving, 0.0, times["cards"])
        self._lost_work: Floats = cards * self._unsaved
        self.loss_per_card: Floats = np.where(
            leaving, 0.0, self._unsaved + jobs["evictions"] * options.repeat_eviction_penalty_s
        )
        self.weighted_loss: Floats = cards * self.loss_per_card
        self.eviction_cost: Floats = self.weighted_loss + np.where(leaving, 0.0, options.requeue_penalty_s)
        # A comparison with NaN, an unknown time, is False.
        promised = ~leaving & (times["min_run"] >= 0)
        since, least = self.now - ran, times["min_run"]
        self.protected_until: Floats = np.where(promised, since + least, -np.inf)
        self.protected_until_borrowing: Floats = np.where(
            promised, since + np.minimum(least, options.grace_s), -np.inf
        )

    def _capped_above_nominal(self, capped: Ints) -> list[int]:
        """Return the jobs at the eviction cap that lie above a nominal that was lowered since they started.

        Beside jobs that are not preemptible, those of the highest rank and the earliest admission keep their
        protection.
        """
        found: list[int] = []
        held: dict[str, dict[FlavorResource, int]] = {}
        holdings = map(self._charged_job, capped.tolist())
        for holding in sorted(
            holdings, key=lambda each: normative_job_rank(each.job, self.now), reverse=True
        ):
            leaf = self.snapshot.queues[holding.queue].quota_node
            if leaf not in held:
                held[leaf] = self._not_preemptible(leaf)
            after = add_totals((held[leaf], holding.charges))
            if any(exceeds_nominal(self.snapshot.quota, leaf, key, after[key]) for key in holding.charges):
                found.append(holding.number)
            else:
                held[leaf] = after
        return found

    def _not_preemptible(self, leaf: str) -> dict[FlavorResource, int]:
        jobs, numbers = self.table.job_columns, self.table.queue_numbers
        rows = [numbers[name] for name in self.queues_at(leaf) if name in numbers]
        fixed = np.flatnonzero((jobs["tasks"] > 0) & (jobs["preemptible"] == 0))
        queues: list[int] = jobs["queue"][fixed].tolist()
        numbered = zip(fixed.tolist(), queues, strict=True)
        return add_totals(self._charged_job(number).charges for number, queue in numbered if queue in rows)

    def _charged_job(self, number: int) -> ChargedJob:
        holding = self.table.charged_jobs[number]
        if holding is None:
            raise AssertionError("no charged job has this number")
        return holding

    def _surplus_candidate(self, holding: ChargedJob, task: Allocation) -> VictimCandidate:
        charges, cards = charges_and_cards((task,))
        unsaved = float(self._unsaved[holding.number])
        again = holding.job.evictions * self.options.repeat_eviction_penalty_s
        return self._candidate(
            holding,
            tasks=(task,),
            charges=charges,
            whole=False,
            lost_work=cards * unsaved,
            weighted_loss=cards * (unsaved + again),
            eviction_cost=cards * (unsaved + again),
        )

    def _candidate(self, holding: ChargedJob, **facts: Any) -> VictimCandidate:
        job, queue = holding.job, holding.queue
        load = None if self._user_load is None else self._user_load(queue, job.user)
        leaving = holding.leaving and facts["whole"]
        candidate = VictimCandidate(job=job, queue=queue, leaving=leaving, user_load=load, **facts)
        candidate.rank = self._rank(candidate)
        return candidate

    def _rank(self, candidate: VictimCandidate) -> tuple[Any, ...]:
        match self.options.victim_order:
            case VictimOrder.LEAST_LOSS:
                return least_loss_rank(candidate)
            case VictimOrder.PRIORITY:
                return priority_rank(candidate)
        return normative_rank(candidate, self.now)


def exceeds_nominal(tree: QuotaTree[FlavorResource], leaf: str, key: FlavorResource, amount: int) -> bool:
    """Return whether an amount is more than a leaf's nominal with its children."""
    nominal = tree.subtree_quota(leaf, key)
    return nominal is not None and amount > nominal


def _borrowed_keys(tree: QuotaTree[FlavorResource], leaf: str) -> frozenset[FlavorResource]:
    return frozenset(key for key in tree.usages(leaf) if tree.borrows(leaf, key))
