"""The action that starts jobs: heads of queues, their order across queues, one decision after another.

The same class serves three actions that differ in whom they may ask to leave. Each
head is judged at its turn against the state of that moment, and the next one of its queue follows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from scheduling.engine.actions.admission.claims import Claims, stands
from scheduling.engine.actions.admission.docket import Docket
from scheduling.engine.actions.admission.drain import drain
from scheduling.engine.actions.admission.nominate import Nominator, Victims
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.actions.admission.rounds import Rounds
from scheduling.engine.actions.admission.tournament import Tournament
from scheduling.engine.actions.head_estimate import HeadEstimate, OwnQuotaFit, Tree, estimate_head
from scheduling.engine.actions.lasting_refusals import find_lasting_refusal
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.model import Job, Outcome, OutcomeStatus, Queue, StopPolicy
from scheduling.engine.order.orders import OWNED
from scheduling.engine.session.session import Session


class Admission:
    """Starts what fits, promises places that others must leave, and gives every tried job a reason."""

    def __init__(self, name: str, victims: Victims) -> None:
        self.name = name
        self._victims = victims

    def run(self, session: Session) -> None:
        """One pass over the heads of all open queues."""
        AdmissionRound(session, self._victims).run()


class AdmissionRound:
    """One pass of one action over one session."""

    def __init__(self, session: Session, victims: Victims) -> None:
        self._session = session
        self._victims = victims
        self._outlook = Outlook(session.snapshot)
        self._claims = Claims(session)
        self._owners: dict[str, OwnQuotaFit] = {}
        self._docket = self.new_docket(self.new_nominator())

    def new_nominator(self) -> Nominator:
        """Hook: the nominator of this round."""
        return Nominator(self._session, self._victims)

    def new_docket(self, nominator: Nominator) -> Docket:
        """Hook: the docket of this round."""
        return Docket(self._session, nominator, self._outlook, self._claims)

    def run(self) -> None:
        """Honour claims, then serve the heads of all open queues."""
        session = self._session
        if self._victims is Victims.ALL:
            drain(session, self._outlook)
        self._keep_promises()
        turns = {
            queue.id: QueueCursor(session, queue, self._outlook.unseen, partial(self.foregone, queue))
            for queue in session.sorted_queues()
            if queue.stop_policy is StopPolicy.NONE
        }
        self.serve(turns)
        self._outlook.present()
        for job_id in self._claims.lost():
            self._docket.ledger.withdraw(session.get_job(job_id))
            session.outcomes.pop(job_id, None)

    def _keep_promises(self) -> None:
        for claim, job, queue in self._claims.due():
            if not self._session.allowances.is_allowed(job, claim.allocations):
                continue
            if stands(self._session.snapshot, claim.allocations):
                self._session.record_outcome(self._docket.honour(queue, job, claim.allocations))
        for outcome in self._claims.book():
            self._session.record_outcome(outcome)

    # The order across queues

    def serve(self, turns: dict[str, QueueCursor]) -> None:
        """Hook: serve the best head, whose queue's next job follows at once, until no head is left.

        Heads are compared by what will be used once all that leaves has left.
        """
        self._outlook.later()
        tree, queues = self._session.snapshot.quota, self._session.snapshot.queues
        order = self._order(tree, [self._contender(turns[queue.id]) for queue, _ in _heads(turns)])
        full_at = -1
        if self._is_over(turns):
            return
        while order:
            decided = len(self._session.decisions)
            contender = order.pop()
            self._hear(turns[contender.queue], contender.job)
            if self._session.planned_moves is not None:
                self._session.counters["unheard"] += sum(turn.head is not None for turn in turns.values())
                return
            if len(self._session.decisions) == decided != full_at:
                full_at = decided
                if self._is_over(turns):
                    return
            jobs = (self._session.get_job(decision.job) for decision in self._session.decisions[decided:])
            changed = dict.fromkeys(job.queue for job in jobs if job.queue in queues)
            for name in changed:
                order.touch(queues[name].quota_node)
            for name in {contender.queue: None, **changed}:
                turn = turns.get(name)
                if turn is not None and turn.head is not None:
                    order.put(self._contender(turn))

    def _contender(self, turn: QueueCursor) -> HeadEstimate:
        """Who stands for a queue: the head, but where that would borrow the first job that stays inside what
        the queue owns, so that no borrower gets a place for which it would then have to ask others."""
        session, tree = self._session, self._session.snapshot.quota
        assert turn.head is not None  # noqa: S101 - asked of turns that go on
        head = estimate_head(session, tree, turn.queue, turn.head)
        if not head.borrow_level:
            return head
        if find_lasting_refusal(session, turn.queue, turn.head) is not None:
            return replace(head, borrow_level=0)
        owner = turn.find_first_with(self._inside(turn.queue))
        if owner is None:
            return head
        # What goes before it in its own queue keeps the start that it would keep at its turn.
        if self._docket.keep_start(turn.queue, turn.head) is not None:
            return replace(head, borrow_level=0)
        turn.promote_job(owner)
        return estimate_head(session, tree, turn.queue, owner)

    def _inside(self, queue: Queue) -> OwnQuotaFit:
        known = self._owners.get(queue.id)
        if known is None:
            known = self._owners[queue.id] = OwnQuotaFit(self._session, queue)
        return known

    def _is_over(self, turns: dict[str, QueueCursor]) -> bool:
        """Whether the round ends here: only those have a turn who may find room, and there is none. What is
        booked is room, too, for those who go before its holder."""
        if not self._session.config.while_room or self._claims:
            return False
        left = [turn for turn in turns.values() if turn.head is not None]
        if any(self._docket.may_start(turn.queue, turn.remaining_candidates()) for turn in left):
            return False
        self._session.counters["unheard"] += len(left)
        return True

    def _order(self, tree: Tree, contenders: Iterable[HeadEstimate]) -> Rounds | Tournament:
        chain = self._session.tools.cycle_order
        if self._session.config.fair_sharing is None:
            return Rounds(tree, chain, contenders)
        return Tournament(tree, (OWNED, *chain), contenders)

    # One turn

    def _hear(self, turn: QueueCursor, job: Job) -> None:
        outcome = find_lasting_refusal(self._session, turn.queue, job)
        self.answer(turn, self._docket.hear(turn.queue, job) if outcome is None else outcome)

    def foregone(self, queue: Queue, job: Job) -> Outcome | None:
        """Hook: the answer of a job that cannot start whichever job goes before it; None where that is not
        known. A turn of its own would only keep those behind it out of the round."""
        evicted = job.evictions or job.drained
        if not evicted or find_lasting_refusal(self._session, queue, job) is not None:
            return None
        outcome = self._docket.foregone(queue, job)
        if outcome is not None:
            self._told(outcome)
        return outcome

    def _told(self, outcome: Outcome) -> None:
        self._session.counters["tried"] += 1
        self._session.record_outcome(outcome)

    def answer(self, turn: QueueCursor, outcome: Outcome) -> None:
        """Record what became of a head; its queue goes on or is done."""
        self._told(outcome)
        if outcome.status is OutcomeStatus.ADMITTED:
            turn.advance_after_admission()
        else:
            turn.advance_after_refusal(outcome)


def _heads(turns: dict[str, QueueCursor]) -> list[tuple[Queue, Job]]:
    return [(turn.queue, turn.head) for turn in turns.values() if turn.head is not None]
