"""One job after another against the same changing state: it starts, is promised a place, or waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduling.engine.actions.admission.awaiting import Awaiting
from scheduling.engine.actions.admission.backfill import Backfill
from scheduling.engine.actions.admission.claims import Claims
from scheduling.engine.actions.admission.entry import Entry, gated
from scheduling.engine.actions.admission.instead import cheaper_moves
from scheduling.engine.actions.admission.ledger import Ledger
from scheduling.engine.actions.admission.nominate import Ask, Nominator
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.actions.admission.outright import Outright
from scheduling.engine.actions.admission.shut import all_shut, shut_flavors, told_over_all
from scheduling.engine.actions.admission.spare import too_little_spare
from scheduling.engine.gang import RefusalCache
from scheduling.engine.gang.moves import SearchBudget
from scheduling.engine.model import Allocation, Job, Outcome, Queue, Reason, Verdict
from scheduling.engine.quota.assignment import Assignment, Mode, Refusal
from scheduling.engine.session.session import Session

UNASSIGNED = Assignment(roles=())


class Docket:
    """What the turns of one action share."""

    def __init__(self, session: Session, nominator: Nominator, outlook: Outlook, claims: Claims) -> None:
        self._session = session
        self._claims = claims
        self._snapshot = session.snapshot
        self._nominator = nominator
        self._outlook = outlook
        self._full = RefusalCache()
        self._full_later = (0, RefusalCache())
        self._backfill = Backfill(session, nominator, outlook)
        self._awaiting = Awaiting(session.snapshot, outlook)
        self._outright = Outright(session)
        self._effort = SearchBudget(session.config.consolidation.effort)
        self.ledger = Ledger(session, outlook)

    def hear(self, queue: Queue, job: Job) -> Outcome:
        """Judge a job against the state of this moment, and act on it.

        Those that are leaving count twice: as still there when the job is to start now, and as gone
        when it asks whether anybody else would have to leave for it.
        """
        shut = self._shut(queue, job)
        if all_shut(self._session, queue, shut):
            return self._refused_by_rules(queue, job, shut)
        behind, shunned = self._claims.behind(queue, job), frozenset(shut)
        with self._claims.without(behind):
            now = self._at_once(queue, job, shunned, fresh=bool(behind))
            if isinstance(now, Outcome):
                return now
            tried = None if self._outlook else now
            entry = tried or self._later(queue, job, shunned, fresh=bool(behind))
            if entry.fits and now is None:
                self._outlook.present()
                now = self._now(queue, job, shunned, fresh=bool(behind))
                if isinstance(now, Outcome):
                    return now
            kept = self._held_back(entry) if entry.fits or entry.targets else None
            if kept is not None:
                return self.ledger.refuse(entry, kept, Verdict.RESERVED)
            if entry.fits or entry.targets:
                self._outlook.present()
            else:
                self._backfill.reserve(entry)
                if shut:
                    entry = replace(entry, refusal=self._over_all(queue, job, shut, entry.refusal))
            return self._settled(entry, may_move=not behind)

    def keep_start(self, queue: Queue, job: Job) -> Refusal | None:
        """Keep a start for a job that does not fit before another of its queue has its turn; where that
        cannot be, because what it lacks is neither quota nor room, why it waits."""
        if not self._backfill.may_keep(queue, job):
            return None
        self._outlook.present()
        with self._snapshot.statement() as statement:
            entry = self._nominator.nominate(statement, queue, job, Ask(RefusalCache(), leave=False))
        if entry.refusal is None:
            return None
        self._backfill.reserve(entry)
        return None if self._backfill.keeps(entry) else entry.refusal

    def honour(self, queue: Queue, job: Job, places: tuple[Allocation, ...]) -> Outcome:
        """A job gets the places that it was promised, which are free now."""
        before = self.ledger.borrowed(queue)
        for allocation in places:
            self._snapshot.take(allocation)
        self._awaiting.started(places)
        self._backfill.taken(places)
        entry = replace(_untried(queue, job), placed=places)
        return self.ledger.admit(entry, places, before)

    def foregone(self, queue: Queue, job: Job) -> Outcome | None:
        """The refusal of a job to which all flavors of its queue are shut, and stay so in this cycle."""
        shut = self._shut(queue, job)
        return self._refused_by_rules(queue, job, shut) if all_shut(self._session, queue, shut) else None

    def may_start(self, queue: Queue, jobs: Iterable[Job]) -> bool:
        """Whether there may be room for one of these jobs beside everybody who is still there."""
        self._outlook.present()
        return any(self._outright.may_find_room(queue, job) for job in jobs)

    def _shut(self, queue: Queue, job: Job) -> Mapping[str, Refusal]:
        if job.evictions or job.drained:
            self._outlook.present()
        return shut_flavors(self._session, queue, job)

    def _refused_by_rules(self, queue: Queue, job: Job, shut: Mapping[str, Refusal]) -> Outcome:
        why = self._over_all(queue, job, shut, None) or next(iter(shut.values()))
        entry = replace(_untried(queue, job), refusal=why)
        self._backfill.reserve_late(entry)
        return self.ledger.refuse(entry, why, Verdict.RESERVED)

    def _over_all(
        self, queue: Queue, job: Job, shut: Mapping[str, Refusal], rest: Refusal | None
    ) -> Refusal | None:
        return told_over_all(self._nominator.quota_of(queue, job), shut, rest)

    def _at_once(
        self, queue: Queue, job: Job, shunned: frozenset[str], *, fresh: bool
    ) -> Entry | Outcome | None:
        """As `_now`; None where it is better asked first how the job would stand later."""
        self._outlook.present()
        if self._outlook and (fresh or not self._outright.has_room(queue, job)):
            return None
        return self._now(queue, job, shunned, fresh=fresh)

    def _now(self, queue: Queue, job: Job, shunned: frozenset[str], *, fresh: bool) -> Entry | Outcome:
        """Start the job if it can start beside everybody who is still there."""
        before = self.ledger.borrowed(queue)
        with self._snapshot.statement() as statement:
            full = RefusalCache() if fresh else self._full
            ask = Ask(full, leave=not self._outlook, shunned=shunned)
            entry = self._nominator.nominate(statement, queue, job, ask)
            if entry.fits:
                kept = self._backfill.refusal(entry) or too_little_spare(self._session, entry, charged=True)
                if kept is not None:
                    return self.ledger.refuse(entry, kept, Verdict.RESERVED)
                statement.commit()
                self._awaiting.started(entry.placed, entry.previous)
                self._backfill.served(entry)
                self._backfill.taken(entry.placed)
                return self.ledger.admit(entry, entry.placed, before)
        return entry

    def _later(self, queue: Queue, job: Job, shunned: frozenset[str], *, fresh: bool) -> Entry:
        """What the job would get once all that is leaving has left.

        `fresh`: more is free for this job than for others, so what they found full may not be.
        """
        self._outlook.later()
        if self._full_later[0] != self._outlook.changes:
            self._full_later = (self._outlook.changes, RefusalCache())
        full = RefusalCache() if fresh else self._full_later[1]
        with self._snapshot.statement() as statement:
            return self._nominator.nominate(statement, queue, job, Ask(full, shunned=shunned))

    def _held_back(self, entry: Entry) -> Refusal | None:
        """Why a job that fits once all that is leaving has left must leave its places to another; why one for
        which others would have to leave must wait for one that has waited long."""
        self._outlook.later()
        if entry.targets and not self._backfill.holds(entry):
            return None
        with self._snapshot.statement() as statement:
            for key in (*entry.replaced, *self.ledger.tasks_of(entry.targets)):
                if key in self._snapshot.allocations:
                    statement.release(key)
            for allocation in entry.placed:
                statement.allocate(allocation)
            return self._backfill.refusal(entry)

    def _settled(self, entry: Entry, *, may_move: bool) -> Outcome:
        """`may_move`: the snapshot shows all that others were promised, so that nobody moves there."""
        if entry.fits or entry.targets:
            kept = too_little_spare(self._session, entry, charged=False)
            if kept is not None:
                return self.ledger.refuse(entry, kept, Verdict.RESERVED)
            if entry.targets and (refusal := self._too_soon(entry)) is not None:
                return self.ledger.refuse(entry, refusal, Verdict.GATED)
            gain = cheaper_moves(self._session, entry, self._effort) if entry.targets and may_move else None
            if gain is not None:
                self._session.planned_moves = entry.queue, entry.job, gain
                return self.ledger.refuse(entry, Refusal(Reason.NO_ROOM), Verdict.NO_ROOM)
            verdict = Verdict.PREEMPTING if entry.targets else Verdict.DEFERRED
            self._backfill.served(entry)
            self._backfill.taken(entry.placed)
            return self.ledger.promise(entry, self._awaited(entry), verdict)
        return self._refused(entry)

    def _refused(self, entry: Entry) -> Outcome:
        refusal = entry.refusal
        assert refusal is not None  # noqa: S101 - who neither fits nor has victims was refused
        if refusal.reason is Reason.NO_ROOM and entry.mode in (Mode.NO_FIT, Mode.FIT):
            return self.ledger.refuse(entry, refusal, Verdict.NO_ROOM)
        if entry.mode is Mode.NO_FIT:
            return self.ledger.refuse(entry, refusal, Verdict.NO_FIT)
        return self.ledger.refuse(entry, refusal, Verdict.NO_VICTIMS)

    def _awaited(self, entry: Entry) -> tuple[str, ...]:
        """What must be gone before the job can start."""
        return self._awaiting.of(entry, self.ledger.tasks_of(entry.targets))

    def _too_soon(self, entry: Entry) -> Refusal | None:
        at = entry.job.preempts_after
        if at is None or at <= self._session.now:
            return None
        return gated(entry.assignment.refusal or Refusal(Reason.NO_ROOM), at)


def _untried(queue: Queue, job: Job) -> Entry:
    return Entry(job=job, queue=queue, assignment=UNASSIGNED)
