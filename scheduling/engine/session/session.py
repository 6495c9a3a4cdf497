"""This module holds what the actions of one cycle share: the snapshot, the plug-ins, and the decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from scheduling.engine.model import (
    Decision,
    FlavorResource,
    Instant,
    Job,
    JobOutcome,
    Queue,
    Reason,
    Strategy,
)
from scheduling.engine.model.registry import ConfigError
from scheduling.engine.order.orders import Preempting, candidate_key, job_key
from scheduling.engine.order.protocols import Candidate, Order
from scheduling.engine.order.user_usage import UserUsageTable
from scheduling.engine.placement.feasibility import InfeasibleFlavors
from scheduling.engine.placement.index.volumes import CLAIM
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.preemption.search import VictimSearch
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.equivalence import equivalence_classes_of, outcome_cache_of
from scheduling.engine.session.plugin_sets import ResolvedPlugins
from scheduling.engine.session.queue_classes import QueueClasses, class_index_of
from scheduling.engine.session.user_allowances import UserAllowances
from scheduling.engine.session.workload import learning_policies, workload_to_learn
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.pending_jobs import JobKey, PendingQueue
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.task_shape import TaskShape

PREEMPTORS_FIRST: Order = Preempting()
T = TypeVar("T")
FlavorUsage = Mapping[FlavorResource, int]

MemoTable = dict[tuple[Hashable, ...], T]


class DeadlineExceededError(Exception):
    """The cycle has not ended at the configured deadline; nothing was decided."""


class Session:
    """One cycle in progress. Actions read it, decide inside statements, and record their decisions here."""

    def __init__(
        self, snapshot: Snapshot, config: EngineConfig, tools: ResolvedPlugins, now: Instant
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.tools = tools
        self.decisions: list[Decision] = []
        self.outcomes: dict[str, JobOutcome] = {}
        # The jobs whose outcome says that they lack nothing but room.
        self.lacking_room: set[str] = set()
        # The jobs whose outcome may be due to a volume claim.
        self.naming_claims: set[str] = set()
        self.counters: Counter[str] = Counter()
        self.equivalence = equivalence_classes_of(snapshot)
        self.class_outcomes = outcome_cache_of(snapshot)
        self._class_index = class_index_of(snapshot, self.equivalence)
        # Tables by request class and flavors: the outcome of jobs that never fit, their infeasible flavors,
        # the outcome beyond quota limits, the usage in the first choice of flavors, and the smallest usage by
        # flavor.
        self.never_fitting: MemoTable[JobOutcome | None] = read_memo(
            snapshot.memo, ("never", self.equivalence, self.tools.rule), dict
        )
        self.infeasible_flavors: MemoTable[InfeasibleFlavors] = read_memo(
            snapshot.memo, ("dead", self.equivalence, self.tools.rule), dict
        )
        self.beyond_limits: MemoTable[JobOutcome | None] = read_memo(
            snapshot.limits_memo, ("beyond", self.equivalence), dict
        )
        self.first_choice: MemoTable[FlavorUsage] = read_memo(
            snapshot.limits_memo, ("first choice", self.equivalence), dict
        )
        self.smallest_usages: MemoTable[list[tuple[str, FlavorUsage]]] = read_memo(
            snapshot.limits_memo, ("least", self.equivalence), dict
        )
        # What the only task of a job of each class gets of the first flavors of its queue; its shape by
        # flavor.
        self.direct_choices: MemoTable[Any] = read_memo(
            snapshot.memo, ("direct", self.equivalence, self.tools.rule), dict
        )
        self.task_shapes: MemoTable[TaskShape] = read_memo(snapshot.memo, ("shapes", self.equivalence), dict)
        self.users = UserUsageTable(snapshot, config.user_shares, now)
        self.allowances = UserAllowances(snapshot, now)
        self._cycle_key = candidate_key(self.tools.cycle_order)
        self._present_placer = _placer(snapshot, self.tools)
        self._victims: VictimSearch | None = None
        # The job at which admission stopped, and the moves that will make it fit.
        self.planned_moves: tuple[Queue, Job, ConsolidationGain] | None = None

    def check_deadline(self) -> None:
        """Raise DeadlineExceededError if the configured deadline is over."""
        config = self.config
        if config.deadline is None or config.stopwatch is None:
            return
        if config.stopwatch() > config.deadline:
            raise DeadlineExceededError

    def sorted_queues(self) -> Iterator[Queue]:
        """Yield all queues by id."""
        return (self.snapshot.queues[key] for key in sorted(self.snapshot.queues))

    @property
    def placer(self) -> Placer:
        """The placer over what the snapshot shows at the moment."""
        fleet = self.snapshot.fleet
        if fleet is self._present_placer.fleet:
            return self._present_placer
        other = placer_for(fleet, self.tools.rule)
        other.adopt_scores(self._present_placer)
        return other

    @property
    def victims(self) -> VictimSearch:
        """The search for victims by the configured rules; candidates are sorted once a cycle."""
        if self._victims is None:
            self._victims = VictimSearch(
                self.snapshot,
                options=self.config.preemption,
                now=self.now,
                fair=self.config.fair_sharing,
                user_load=None if self.config.user_shares is None else self.users.compute_load,
            )
        return self._victims

    def pending_jobs(self, queue: Queue) -> PendingQueue:
        """Return the pending jobs of a queue in its order.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        chain = self._chain(queue)
        return self.snapshot.pending_jobs.jobs_of_queue(queue.id, chain, job_key(chain))

    def jobs_in_turn(self, queue: Queue) -> Iterable[str]:
        """Return the pending jobs of a queue as a cycle that began now would consider them: first those of
        users with less recent usage where that counts, then in the queue's order.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        line, jobs = self.pending_jobs(queue), self.snapshot.jobs
        if not self.users.uses_shares(queue):
            return line
        return sorted(line, key=lambda job_id: self.users.compute_load(queue.id, jobs[job_id].user) or 0.0)

    def job_key(self, queue: Queue) -> JobKey:
        """Return the sort key by which a queue orders its jobs; a claim does not move its job forward.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        return job_key(self._criteria(queue))

    def queue_classes(self, queue: Queue) -> QueueClasses:
        """Return the pending jobs of a queue by equivalence class, each class in the queue's order.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        if len(self.pending_jobs(queue)):
            self.users.measure_queue(queue)  # what is used before anything of this queue is decided
        chain = self._chain(queue)
        return self._class_index.get_queue(queue.id, chain, job_key(chain))

    def _chain(self, queue: Queue) -> tuple[Order, ...]:
        chain = self._criteria(queue)
        # In a best-effort queue no job may overtake one for which others terminate.
        return chain if queue.strategy is Strategy.STRICT_FIFO else (PREEMPTORS_FIRST, *chain)

    def _criteria(self, queue: Queue) -> tuple[Order, ...]:
        chain = self.tools.orderings.get(queue.ordering)
        if chain is None:
            raise ConfigError(
                f"queue {queue.id} has the ordering {queue.ordering!r}, which is not configured"
            )
        return chain

    def sort_candidates(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return heads of different queues in the order in which they are processed."""
        return sorted(candidates, key=self._cycle_key)

    def record_outcome(self, outcome: JobOutcome) -> None:
        """Record the outcome of a job; a later action may replace it."""
        self.outcomes[outcome.job] = outcome
        if CLAIM in outcome.numbers:
            self.naming_claims.add(outcome.job)
        if outcome.reason is Reason.NO_ROOM:
            self.lacking_room.add(outcome.job)
        else:
            self.lacking_room.discard(outcome.job)

    def record_outcomes(self, outcomes: Mapping[str, JobOutcome]) -> None:
        """Record outcomes of jobs that had none before; they all have the same reason."""
        self.outcomes.update(outcomes)
        if any(CLAIM in outcome.numbers for outcome in islice(outcomes.values(), 1)):
            self.naming_claims.update(outcomes)
        if any(outcome.reason is Reason.NO_ROOM for outcome in islice(outcomes.values(), 1)):
            self.lacking_room.update(outcomes)

    def get_job(self, job_id: str) -> Job:
        """Return a job of the snapshot."""
        return self.snapshot.jobs[job_id]


def _placer(snapshot: Snapshot, tools: ResolvedPlugins) -> Placer:
    """Return the placer over the snapshot's fleet with the configured plug-ins.

    Policies that learn do so here, from the snapshot before anything is decided: what earlier cycles of the
    process learnt, or when a policy is first used, makes no difference.
    """
    placer = placer_for(snapshot.fleet, tools.rule)
    learning = learning_policies(snapshot, tools.rule)
    if learning:
        placer.learn_workload(workload_to_learn(snapshot), learning)
    return placer
