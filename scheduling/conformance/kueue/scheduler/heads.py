"""Processes heads that were evaluated together, one by one, each in the state after the previous one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from quotas.tree import is_at_least
from scheduling.conformance.kueue.scheduler.nominator import KueueNominator, wished_by
from scheduling.conformance.kueue.scheduler.options import CycleOptions
from scheduling.conformance.kueue.scheduler.reserve import reserve_quota
from scheduling.conformance.kueue.scheduler.turns import JobEvaluation, TurnRecorder
from scheduling.conformance.kueue.topology_aware.model import DomainAllocation, TopologyState
from scheduling.conformance.kueue.topology_aware.snapshot import TopologySnapshot
from scheduling.engine import AssignmentMode, Refusal, Statement
from scheduling.engine.extension import (
    ActiveClaims,
    EvaluationRequest,
    FutureView,
    JobProcessor,
    NominatedJob,
    Preempting,
    RefusalCache,
    RequiredFlavors,
    Session,
)
from scheduling.engine.model import Allocation, Job, JobOutcome, Queue, Reason, Verdict


class HeadProcessor(JobProcessor):
    """The engine's job processor with Kueue's processing of nominated heads."""

    def __init__(
        self,
        session: Session,
        nominator: KueueNominator,
        future: FutureView,
        claims: ActiveClaims,
        state: TopologyState,
        options: CycleOptions,
        turns: list[JobEvaluation],
    ) -> None:
        super().__init__(session, nominator, future, claims)
        self.recorder: TurnRecorder = TurnRecorder(session, future, turns)
        self._state, self._options, self._previous_of = state, options, nominator.previous_of
        self._marked: dict[str, None] = {}

    def nominate(self, queue: Queue, job: Job) -> NominatedJob:
        """Return the nomination of a head in the state before the first head is processed."""
        with self._snapshot.statement() as statement:
            return _dated(
                self._nominator.evaluate_job(statement, queue, job, EvaluationRequest(RefusalCache()))
            )

    def mark_for_eviction(self, tasks: Iterable[str]) -> None:
        """Record tasks that are evicted for one job and can't be victims of another one."""
        self._marked.update(dict.fromkeys(tasks))

    def marked(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Return the tasks that are marked for eviction already."""
        return tuple(key for key in tasks if key in self._marked)

    def process(self, entry: NominatedJob) -> JobOutcome:
        """Process a nomination, unless decisions since then prevent it."""
        marked, again = self._overlapping(entry), False
        if marked and self._options.recompute_targets:
            entry, again = self._judge_again(entry, self._marked), True
            if entry.fits:
                return self._noted(
                    self.recorder.claim_placement(entry, self._find_awaited(entry), Verdict.DEFERRED)
                )
            marked = self._overlapping(entry)
        if self._options.judge_again and self._lost_places(entry):
            entry, again = self._judge_again(entry, ()), False
            marked = self._overlapping(entry)
        outcome = self._process(entry, marked)
        return self._noted(outcome) if again else outcome

    def _process(self, entry: NominatedJob, marked: tuple[str, ...]) -> JobOutcome:
        if not entry.fits and not entry.targets:
            return self._refuse(entry)
        if entry.targets and (refusal := self._refuse_gated(entry)) is not None:
            return self.recorder.refuse_job(entry, refusal, Verdict.GATED)
        if marked:
            return self.recorder.refuse_job(entry, _lost_to_others(entry, marked), Verdict.OVERLAPS)
        if not self._still_fits(entry) or self._lost_places(entry):
            return self.recorder.refuse_job(entry, _lost_to_others(entry, ()), Verdict.OVERTAKEN)
        if entry.targets:
            self.mark_for_eviction(self.recorder.victim_tasks(entry.targets))
            return self.recorder.claim_placement(entry, self._find_awaited(entry), Verdict.PREEMPTING)
        return self._start(entry)

    def _refuse(self, entry: NominatedJob) -> JobOutcome:
        waits_for_room = entry.refusal is not None and entry.refusal.reason is Reason.NO_ROOM
        if entry.mode is not AssignmentMode.NO_FIT and not (
            waits_for_room and entry.mode is AssignmentMode.FIT
        ):
            prioritised = Preempting.name in self._session.config.cycle_order
            reserve_quota(self._snapshot, entry, wished_by(entry.assignment), prioritised=prioritised)
        return super()._refuse(entry)

    def _noted(self, outcome: JobOutcome) -> JobOutcome:
        """Return the outcome of a second evaluation, which is marked in the record of turns."""
        turns = self.recorder.turns
        turns[-1] = replace(turns[-1], again=True)
        return outcome

    def _start(self, entry: NominatedJob) -> JobOutcome:
        with self._snapshot.statement() as statement:
            previous = self._previous_of(entry.job)
            for held in previous:
                statement.release(held.id)
            placed = self._placed(statement, entry)
            if isinstance(placed, Refusal):
                return self.recorder.refuse_job(entry, placed, Verdict.OVERTAKEN)
            statement.commit()
            self._awaited_releases.record_start(placed, previous)
            outcome = self.recorder.admit_job(entry, placed)
            released = tuple(held.id for held in previous)
            self._session.decisions[-1] = self._session.decisions[-1]._replace(released=released)
            return outcome

    def _placed(self, statement: Statement, entry: NominatedJob) -> tuple[Allocation, ...] | Refusal:
        """Return the entry's allocations: domains are those of the nomination, nodes are chosen again."""
        if any(held.node for held in entry.placed):
            return self._nominator.place_nominated(statement, entry)
        for held in entry.placed:
            statement.allocate(held)
        return entry.placed

    def _judge_again(self, entry: NominatedJob, released: Iterable[str]) -> NominatedJob:
        """Return a new nomination in the same flavors, as if the `released` tasks had ended."""
        with self._snapshot.statement() as statement:
            for key in released:
                statement.release(key)
            ask = EvaluationRequest(RefusalCache(), required_flavors=_required_flavors(entry))
            fresh = _dated(self._nominator.evaluate_job(statement, entry.queue, entry.job, ask))
            # This evaluation was limited to its flavors; other flavors may still suit the job.
            if self.recorder.has_more_flavors(entry):
                self.recorder.partly_searched.add(entry.job.id)
            return fresh

    def _overlapping(self, entry: NominatedJob) -> tuple[str, ...]:
        return self.marked(self.recorder.victim_tasks(entry.targets))

    def _still_fits(self, entry: NominatedJob) -> bool:
        """Return whether the quota suffices for the entry after all evictions of this cycle, including its
        own."""
        tree, leaf = self._snapshot.quota, entry.queue.quota_node
        with self._without_victims(entry):
            return all(
                not amount or is_at_least(tree.available(leaf, key), amount)
                for key, amount in entry.assignment.usage.items()
            )

    def _lost_places(self, entry: NominatedJob) -> bool:
        """Return whether the entry's quota still suffices, but its domains were taken by other jobs."""
        if not any(isinstance(held, DomainAllocation) and held.domains for held in entry.placed):
            return False
        if not self._still_fits(entry):
            return False
        with self._without_victims(entry):
            return not TopologySnapshot(self._snapshot, apart=self._state.apart).fits_all(entry.placed)

    @contextmanager
    def _without_victims(self, entry: NominatedJob) -> Iterator[None]:
        """Release all victims of this cycle, including the entry's own, within the context."""
        with self._snapshot.statement() as statement:
            replaced = (held.id for held in self._previous_of(entry.job))
            for key in dict.fromkeys((*self._marked, *self.recorder.victim_tasks(entry.targets), *replaced)):
                statement.release(key)
            yield


def _dated(entry: NominatedJob) -> NominatedJob:
    """Return the entry with the numbers of its refusal computed now, before other jobs start."""
    if entry.refusal is not None:
        entry.refusal.resolve_numbers()
    return entry


def _required_flavors(entry: NominatedJob) -> RequiredFlavors:
    return {
        role.role: {name: choice.flavor for name, choice in role.choices.items()}
        for role in entry.assignment.roles
    }


def _lost_to_others(entry: NominatedJob, marked: tuple[str, ...]) -> Refusal:
    found = entry.assignment.refusal
    numbers: dict[str, int | str] = {**(found.numbers if found else {}), "outrun": 1}
    if marked:
        numbers["victims_taken"] = len(marked)
    return Refusal(Reason.WAITING_FOR_BORROWED, numbers, found.help if found else ())
