"""Places jobs that already hold quota: their placement was delayed until nodes exist, or a node has failed.

Such a job needs no quota, so it is processed before all pending jobs. Its running tasks stay on their nodes.
Source of the rules: Kueue's second scheduling pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from scheduling.conformance.kueue.scheduler.heads import HeadProcessor
from scheduling.conformance.kueue.scheduler.options import CycleOptions
from scheduling.conformance.kueue.scheduler.reserve import RESERVED
from scheduling.conformance.kueue.scheduler.turns import JobEvaluation
from scheduling.conformance.kueue.topology_aware.model import DomainAllocation, TopologyState
from scheduling.conformance.kueue.topology_aware.second_places import (
    Moves,
    added_places,
    find_first_places,
    find_substitutes,
    lacks_places,
)
from scheduling.conformance.kueue.topology_aware.snapshot import TopologySnapshot
from scheduling.engine import Preemptor, Refusal, TargetSet
from scheduling.engine.extension import FutureView, Session
from scheduling.engine.model import (
    Decision,
    DecisionKind,
    EvictRule,
    Job,
    JobState,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The new allocations of a job that holds quota, or the reason why it can't be placed.

    `found` are the victims whose capacity it would get.
    """

    job: Job
    moves: Moves = field(default_factory=dict)
    refusal: Refusal | None = None
    found: TargetSet = field(default_factory=TargetSet)


class SecondPass:
    """Places the jobs of one session that lack domains, by priority and submission."""

    def __init__(
        self,
        session: Session,
        heads: HeadProcessor,
        future: FutureView,
        state: TopologyState,
        options: CycleOptions,
    ) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._heads = heads
        self._future = future
        self._state = state
        self._options = options

    def nominate(self) -> tuple[Settlement, ...]:
        """Return the nomination of each of these jobs in the current state."""
        return tuple(self._nominate(job) for job in self._due())

    def process(self, settlement: Settlement) -> None:
        """Process a nomination, unless its domains were taken since."""
        if settlement.moves and not self._holds(settlement) and self._options.judge_again:
            settlement = self._nominate(settlement.job)
        leavers = self._heads.recorder.victim_tasks(settlement.found.targets)
        if settlement.moves and not self._heads.marked(leavers) and self._holds(settlement):
            if leavers:
                self._await(settlement, leavers)
            else:
                self._move(settlement)
        elif self._lost(settlement.job) and self._options.leave_unreplaced:
            self._leave(settlement.job)
        else:
            self._trace(settlement, Verdict.NO_ROOM)

    def _due(self) -> Iterator[Job]:
        evicted = {d.job for d in self._session.decisions if d.kind is DecisionKind.EVICT}
        jobs = [
            job
            for job in self._snapshot.jobs.values()
            if (job.id in self._state.unplaced or self._lost(job))
            and job.state is JobState.LIVE
            and job.id not in evicted
        ]
        for job in sorted(jobs, key=lambda job: (-job.priority, job.submitted_at, job.id)):
            if lacks_places(self._snapshot, job, self._state):
                yield job

    def _nominate(self, job: Job) -> Settlement:
        found = self._places(job)
        if not isinstance(found, Refusal):
            return Settlement(job=job, moves=found)
        if self._lost(job) or isinstance(self._places(job, if_empty=True), Refusal):
            return Settlement(job=job, refusal=found)
        return self._with_victims(job, found)

    def _lost(self, job: Job) -> bool:
        return bool(self._state.lost_nodes.get(job.id))

    def _places(self, job: Job, *, if_empty: bool = False) -> Moves | Refusal:
        if self._lost(job):
            return find_substitutes(self._snapshot, job, self._state)
        return find_first_places(self._snapshot, job, self._state, if_empty=if_empty)

    def _with_victims(self, job: Job, refusal: Refusal) -> Settlement:
        """Return a nomination with victims: the job already has its quota, so only its placement is
        evaluated."""
        queue = self._snapshot.queues[job.queue]
        charges = (charge for held in self._snapshot.allocations_of(job.id) for charge in held.charges)
        keys = frozenset(charge.key for charge in charges)
        preemptor = Preemptor(job=job, queue=queue, usage=dict.fromkeys(keys, 0), contested=keys)
        found = self._session.victims.find_victims(
            preemptor, lambda: not isinstance(self._places(job), Refusal)
        )
        if not found.targets:
            return Settlement(job=job, refusal=refusal)
        with self._snapshot.statement() as statement:
            for key in self._heads.recorder.victim_tasks(found.targets):
                statement.release(key)
            moves = self._places(job)
        if isinstance(moves, Refusal):
            return Settlement(job=job, refusal=refusal)
        return Settlement(job=job, moves=moves, found=found)

    def _holds(self, settlement: Settlement) -> bool:
        """Return whether the new domains of a nomination are still free, without its victims."""
        with self._snapshot.statement() as statement:
            for key in self._heads.recorder.victim_tasks(settlement.found.targets):
                statement.release(key)
            topologies = TopologySnapshot(self._snapshot, apart=self._state.apart)
            return topologies.fits_all(self._new(settlement))

    def _new(self, settlement: Settlement) -> list[DomainAllocation]:
        return [added_places(self._held(key), to) for key, to in settlement.moves.items()]

    def _held(self, key: str) -> DomainAllocation:
        held = self._snapshot.allocations[key]
        assert isinstance(held, DomainAllocation)  # noqa: S101 - moves are of nothing else
        return held

    def _move(self, settlement: Settlement) -> None:
        for key, moved in settlement.moves.items():
            before = self._held(key)
            self._snapshot.remove_allocation(key)
            self._snapshot.add_allocation(moved)
            # The former domains are on a failed node; no task may be placed there in this cycle.
            behind = added_places(moved, before)
            if behind.domains:
                self._snapshot.add_allocation(replace(behind, role=f"{RESERVED} {behind.role}"))
        self._session.counters["settled"] += 1
        self._session.decisions.append(
            Decision(
                kind=DecisionKind.MIGRATE,
                job=settlement.job.id,
                allocations=tuple(settlement.moves.values()),
                released=tuple(settlement.moves),
            )
        )
        self._trace(settlement, Verdict.ADMITTED)

    def _await(self, settlement: Settlement, leavers: tuple[str, ...]) -> None:
        """Evict the victims of a nomination and reserve its domains; a later cycle places the job."""
        for target in settlement.found.targets:
            self._heads.recorder.evict_target(settlement.job, target)
        self._heads.mark_for_eviction(leavers)
        for places in self._new(settlement):
            self._snapshot.add_allocation(replace(places, role=f"{RESERVED} {places.role}"))
        self._trace(settlement, Verdict.PREEMPTING)

    def _leave(self, job: Job) -> None:
        held = tuple(task.id for task in self._snapshot.allocations_of(job.id))
        self._future.mark_terminating(held)
        self._session.counters["evicted"] += 1
        self._session.decisions.append(
            Decision(kind=DecisionKind.EVICT, job=job.id, rule=EvictRule.NODE_LOST, released=held)
        )

    def _trace(self, settlement: Settlement, verdict: Verdict) -> None:
        job = settlement.job
        victims = tuple(sorted(target.job for target in settlement.found.targets))
        turn = JobEvaluation(job=job.id, queue=job.queue, verdict=verdict, victims=victims)
        self._heads.recorder.turns.append(turn)
