"""Records every evaluation of a cycle; Kueue's tables check them by events and conditions."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.extension import DecisionRecorder, FutureView, NominatedJob, Session
from scheduling.engine.model import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvaluation:
    """The record of one evaluation of one job.

    `more_flavors` means that the search over the queue's flavors ended before the last one, `again` that the
    job was evaluated a second time because another job had taken its victims.
    """

    job: str
    queue: str
    verdict: Verdict
    victims: tuple[str, ...] = ()
    more_flavors: bool = False
    again: bool = False


class TurnRecorder(DecisionRecorder):
    """The engine's recorder, which adds every evaluation to `turns`.

    `partly_searched` are the jobs for which an evaluation did not try all flavors.
    """

    def __init__(self, session: Session, future: FutureView, turns: list[JobEvaluation]) -> None:
        super().__init__(session, future)
        self.turns, self.partly_searched = turns, set[str]()

    def record_turn(self, nominated: NominatedJob, verdict: Verdict) -> None:
        """Count and record an evaluation."""
        super().record_turn(nominated, verdict)
        self.turns.append(
            JobEvaluation(
                job=nominated.job.id,
                queue=nominated.queue.id,
                verdict=verdict,
                victims=tuple(sorted(target.job for target in nominated.targets)),
                more_flavors=self.has_more_flavors(nominated),
            )
        )

    def has_more_flavors(self, nominated: NominatedJob) -> bool:
        """Return whether the search over flavors stopped before the last one."""
        choices = (choice for role in nominated.assignment.roles for choice in role.choices.values())
        return nominated.job.id in self.partly_searched or any(choice.tried_index >= 0 for choice in choices)
