"""Kueue's scheduling cycle: one head for each queue; all are evaluated, ordered, and processed one by one.

Source: `schedule` in Kueue's pkg/scheduler/scheduler.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scheduling.conformance.kueue.scheduler.heads import HeadProcessor
from scheduling.conformance.kueue.scheduler.nominator import KueueNominator
from scheduling.conformance.kueue.scheduler.options import CycleOptions
from scheduling.conformance.kueue.scheduler.second_pass import SecondPass
from scheduling.conformance.kueue.scheduler.turns import JobEvaluation
from scheduling.conformance.kueue.topology_aware.model import TopologyState
from scheduling.engine import BUILTIN, Candidate, PluginSet
from scheduling.engine.extension import (
    AdmissionRound,
    FairSharingIterator,
    HeadEstimate,
    NominatedJob,
    Nominator,
    QueueCursor,
    Registry,
    Session,
    find_lasting_refusal,
)
from scheduling.engine.model import Job, JobOutcome, Queue


@dataclass(slots=True)
class KueueAdmission:
    """The action `admit` with Kueue's cycle."""

    state: TopologyState
    options: CycleOptions
    turns: list[JobEvaluation]
    name: str = "admit"

    def run(self, session: Session) -> None:
        """Evaluate and process the heads of all open queues once."""
        _HeadsTogether(session, self.state, self.options, self.turns).run()


def with_cycle(state: TopologyState, options: CycleOptions, turns: list[JobEvaluation]) -> PluginSet:
    """Return the built-in plug-ins with Kueue's cycle as the action `admit`, which adds its evaluations to
    `turns`."""
    return replace(BUILTIN, actions=Registry("action", (KueueAdmission(state, options, turns),)))


class _HeadsTogether(AdmissionRound):
    """A round in which all heads are evaluated before the first is processed."""

    def __init__(
        self, session: Session, state: TopologyState, options: CycleOptions, turns: list[JobEvaluation]
    ) -> None:
        self._state, self._options, self._turns = state, options, turns
        super().__init__(session, may_preempt=True)

    def new_nominator(self) -> KueueNominator:
        return KueueNominator(self._session, self._state)

    def new_processor(self, nominator: Nominator) -> HeadProcessor:
        assert isinstance(nominator, KueueNominator)  # noqa: S101 - it comes from `new_nominator`
        self._heads = HeadProcessor(
            self._session, nominator, self._future_view, self._claims, self._state, self._options, self._turns
        )
        return self._heads

    def find_precluded(self, queue: Queue, job: Job) -> JobOutcome | None:
        """Return None: every head is evaluated."""
        return None

    def process_heads(self, turns: dict[str, QueueCursor]) -> None:
        """Process the heads, after the jobs that already hold quota."""
        second = SecondPass(self._session, self._heads, self._future_view, self._state, self._options)
        settlements = second.nominate()
        while (heads := _heads(turns)) or settlements:
            entries = {}
            for queue, job in heads:
                lasting = find_lasting_refusal(self._session, queue, job)
                if lasting is None:
                    entries[queue.id] = self._heads.nominate(queue, job)
                else:
                    self.advance_cursor(turns[queue.id], lasting)
            for settlement in settlements:
                second.process(settlement)
            settlements = ()
            for head in self._lineup(entries):
                self.advance_cursor(turns[head.queue], self._heads.process(entries[head.queue]))

    def _lineup(self, entries: dict[str, NominatedJob]) -> Iterator[HeadEstimate]:
        contenders = [
            HeadEstimate(
                job=entry.job,
                leaf=entry.queue.quota_node,
                queue=name,
                usage=entry.assignment.usage,
                borrow_level=entry.assignment.borrow_level,
            )
            for name, entry in entries.items()
        ]
        if self._session.config.fair_sharing is None:
            yield from self._by_rank(contenders)
            return
        iterator = FairSharingIterator(
            self._session.snapshot.quota, self._session.tools.cycle_order, contenders
        )
        while iterator:
            head = iterator.pop_next()
            yield head
            iterator.update_leaf(head.leaf)

    def _by_rank(self, contenders: Iterable[HeadEstimate]) -> Iterator[HeadEstimate]:
        by_id = {head.job.id: head for head in contenders}
        ranked = self._session.sort_candidates([Candidate(c.job, c.borrow_level) for c in by_id.values()])
        yield from (by_id[candidate.job.id] for candidate in ranked)


def _heads(turns: dict[str, QueueCursor]) -> list[tuple[Queue, Job]]:
    return [(turn.queue, turn.head) for turn in turns.values() if turn.head is not None]
