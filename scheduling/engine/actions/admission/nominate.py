"""What a job would get in the present state of the snapshot: flavors, places, and who has to leave.

Quota comes first, then room. Where a flavor has quota but no room, the queue's other flavors are tried;
where that is in vain too, somebody may have to leave for room alone. Of a job with elastic roles the
largest size that can be had is taken, the full one also at the cost of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.engine.actions.admission.entry import Entry, protected
from scheduling.engine.actions.lasting_refusals import infeasible_flavors_of
from scheduling.engine.gang import GangPlacer, RefusalCache, find_uniform_minimum, smallest_gang
from scheduling.engine.model import (
    Allocation,
    Job,
    PreemptionPolicy,
    Preference,
    Queue,
    Reason,
    ResourceName,
    WhenCan,
)
from scheduling.engine.placement.index.clusters import CLUSTERS
from scheduling.engine.preemption.oracle import PreemptionOracle
from scheduling.engine.preemption.targets import CountedShape, PlacementCheck, Preemptor, TargetSet
from scheduling.engine.quota.assign import Replaced, assign
from scheduling.engine.quota.assignment import SEVERITY, Assignment, Mode, Refusal
from scheduling.engine.quota.clusters import Allowed
from scheduling.engine.quota.reduce import Counts, largest
from scheduling.engine.session.session import Session
from scheduling.engine.state.statement import Statement

Kept = Mapping[str, Mapping[ResourceName, str]]
"""The flavors that a job keeps to: by role, then by resource."""

Barred = frozenset[tuple[str, str]]
"""Roles and the flavors that they do not look at."""


class Victims(StrEnum):
    """Who may be asked to leave for a job."""

    NONE = "none"
    OWN_QUEUE = "own-queue"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Ask:
    """How one question is put. `leave`: others may be asked to leave. `keep`: only these flavors; `shunned`:
    none of these. `dead`: where the job's roles could never stand, worked out here where it is not given.

    `full` knows what found no room; it holds for one state from which nothing is freed.
    """

    full: RefusalCache
    leave: bool = True
    keep: Kept | None = None
    shunned: frozenset[str] = frozenset()
    dead: Barred | None = None


class Nominator:
    """Answers for one session what jobs would get; changes nothing but what it places in a statement."""

    def __init__(self, session: Session, victims: Victims) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._victims = victims
        self._oracle = None if victims is Victims.NONE else PreemptionOracle(session.victims)

    def nominate(self, statement: Statement, queue: Queue, job: Job, ask: Ask) -> Entry:
        """What the job would get. A job that fits is left placed in the statement; others leave nothing."""
        mark = statement.checkpoint()
        replaced = tuple(held.id for held in self._snapshot.held(job.replaces)) if job.replaces else ()
        if self._session.config.housekeeping.surplus_later:
            return self._allowed_at(statement, queue, job, ask, replaced, smallest_gang(job))
        full = self._allowed_at(statement, queue, job, ask, replaced, None)
        if full.refusal is None:
            return full

        least: Refusal | None = None

        def attempt(counts: Counts) -> Counts | None:
            nonlocal least
            statement.rollback(mark)
            reduced = self._allowed_at(statement, queue, job, ask, replaced, counts)
            if reduced.refusal is not None and least is None:
                # The smallest size is tried first: what it lacks is what the job waits for.
                least = reduced.refusal
            return counts if reduced.refusal is None else None

        counts = largest(job, attempt)
        statement.rollback(mark)
        if counts is not None:
            return self._at(statement, queue, job, ask, replaced, counts)
        return full if least is None else replace(full, refusal=least)

    def has_quota(self, queue: Queue, job: Job) -> bool:
        """Whether quota would hold the job's smallest size without anybody leaving."""
        found = self.quota_of(queue, job)
        return found.refusal is None and found.mode is Mode.FIT

    def quota_of(self, queue: Queue, job: Job, dead: Barred | None = None) -> Assignment:
        """What a job's smallest size would get of all flavors without anybody leaving; `dead` as in `Ask`."""
        ask = Ask(RefusalCache(), leave=False)
        barred = infeasible_flavors_of(self._session, queue, job) if dead is None else dead
        return self._assignment(queue, job, ask, smallest_gang(job), barred, None)

    def place(
        self, statement: Statement, entry: Entry, full: RefusalCache | None = None
    ) -> tuple[Allocation, ...] | Refusal:
        """Seat an entry's tasks by its assignment, inside the statement."""
        placer = GangPlacer(self._snapshot, self._session.placer, full)
        return placer.place_job(statement, entry.queue, entry.job, entry.assignment)

    def _allowed_at(
        self,
        statement: Statement,
        queue: Queue,
        job: Job,
        ask: Ask,
        replaced: tuple[str, ...],
        counts: Counts | None,
    ) -> Entry:
        """One size, refused where the job's allowances do not hold it."""
        mark = statement.checkpoint()
        entry = self._at(statement, queue, job, ask, replaced, counts)
        over = (
            self._session.allowances.find_exceeded_cap(job, entry.assignment.usage)
            if job.allowances
            else None
        )
        if over is None or entry.refusal is not None:
            return entry
        statement.rollback(mark)
        return replace(entry, refusal=over, placed=(), found=TargetSet())

    def _at(
        self,
        statement: Statement,
        queue: Queue,
        job: Job,
        ask: Ask,
        replaced: tuple[str, ...],
        counts: Counts | None,
    ) -> Entry:
        """One size: flavor after flavor until the job fits with room, or somebody can leave for it."""
        held = self._taken_over(replaced)
        previous = tuple(self._snapshot.allocations[key] for key in replaced)
        for key in replaced:
            statement.release(key)
        shunned = frozenset((role.name, flavor) for role in job.roles for flavor in ask.shunned)
        barred = shunned | (
            infeasible_flavors_of(self._session, queue, job) if ask.dead is None else ask.dead
        )

        def entry_without(barred: Barred) -> Entry:
            assignment = self._assignment(queue, job, ask, counts, barred, held)
            return Entry(
                job=job,
                queue=queue,
                assignment=assignment,
                refusal=assignment.refusal,
                replaced=replaced,
                previous=previous,
            )

        search = self._first_that_would_do if self._stops(queue, ask) else self._best_of_all
        return search(statement, ask, entry_without, barred)

    def _best_of_all(
        self, statement: Statement, ask: Ask, entry_without: Callable[[Barred], Entry], barred: Barred
    ) -> Entry:
        """All flavors are looked at before others are asked to leave one."""
        roomless: Entry | None = None
        while True:
            entry = entry_without(barred)
            if entry.mode is not Mode.FIT:
                break
            entry = self._placed(statement, entry, ask)
            if entry.refusal is None:
                return entry
            roomless = roomless or entry
            where = _without_room(entry.refusal)
            if not self._goes_on(entry, where, barred):
                return self._with_victims(statement, roomless, None, ask)
            barred |= where
        if roomless is not None:
            return self._with_victims(statement, entry, _naming_clusters(roomless, entry.assignment), ask)
        return entry if entry.mode is Mode.NO_FIT else self._with_victims(statement, entry, None, ask)

    def _first_that_would_do(
        self, statement: Statement, ask: Ask, entry_without: Callable[[Barred], Entry], barred: Barred
    ) -> Entry:
        """Others are asked to leave a flavor before the next one is looked at, which comes where they
        cannot help. In Kueue that is the next cycle, which goes on behind the flavor that is remembered."""
        nearest: Entry | None = None
        while (entry := entry_without(barred)).mode is not Mode.NO_FIT:
            where = _contested(entry)
            if entry.mode is Mode.FIT:
                entry = self._placed(statement, entry, ask)
                if entry.refusal is None:
                    return entry
                where = _without_room(entry.refusal)
            entry = self._with_victims(statement, entry, None, ask)
            if entry.refusal is None:
                return entry
            if nearest is None or _gravity(entry) < _gravity(nearest):
                nearest = entry
            if not self._goes_on(entry, where, barred):
                break
            barred |= where
        return nearest or entry

    def _placed(self, statement: Statement, entry: Entry, ask: Ask) -> Entry:
        """An entry that has quota with its places, or with why there are none."""
        placed = self.place(statement, entry, ask.full)
        if not isinstance(placed, Refusal):
            return replace(entry, placed=placed)
        # What is replaced counts as gone here only.
        return replace(entry, refusal=placed.told() if entry.replaced else placed)

    def _goes_on(self, entry: Entry, where: Barred, barred: Barred) -> bool:
        """Whether other flavors are left to look at once these roles leave these out."""
        if not where or where <= barred or not self._session.config.room.other_flavors:
            return False
        return _any_left(entry.queue, entry.job, barred | where)

    def _stops(self, queue: Queue, ask: Ask) -> bool:
        """Whether others are asked to leave a flavor before the next one is looked at."""
        asks = ask.leave and self._victims is not Victims.NONE
        return asks and queue.fungibility.when_can_preempt is WhenCan.MAY_STOP_SEARCH

    def _assignment(
        self,
        queue: Queue,
        job: Job,
        ask: Ask,
        counts: Counts | None,
        barred: Barred,
        held: Mapping[str, Replaced] | None,
    ) -> Assignment:
        config = self._session.config
        return assign(
            self._snapshot,
            _within(queue, self._victims),
            job,
            oracle=self._oracle if self._weighs(queue, ask) else None,
            fair=config.fair_sharing is not None,
            counts=counts,
            replaced=held,
            allowed=_allowed(ask.keep, barred),
            eviction_cap=config.preemption.eviction_cap,
            beside_preemptible=config.preemption.beside_preemptible,
            beside_capped=config.preemption.beside_capped,
        )

    def _weighs(self, queue: Queue, ask: Ask) -> bool:
        """Whether it matters beforehand what preemption would bring.

        It does where flavors are weighed against each other. Who may
        ask nobody to leave has use for a flavor that fits alone, and unless the queue's fungibility
        says otherwise, that is found and taken whatever preemption would bring in the others.
        """
        rules = queue.fungibility
        stops = rules.when_can_preempt is WhenCan.MAY_STOP_SEARCH
        if not ask.leave and not stops and rules.preference is Preference.BORROWING_OVER_PREEMPTION:
            return False
        return any(len(group.flavors) > 1 for group in queue.groups)

    def _taken_over(self, replaced: tuple[str, ...]) -> Mapping[str, Replaced] | None:
        """The flavors that a job which takes over another's place must stay in."""
        if not replaced:
            return None
        found = (self._snapshot.allocations[key] for key in replaced)
        return {
            task.role: Replaced({charge.resource: charge.flavor for charge in task.charges}, {})
            for task in found
        }

    def _with_victims(self, statement: Statement, entry: Entry, roomless: Entry | None, ask: Ask) -> Entry:
        """The entry with those who have to leave, or why nobody can.

        `roomless` is another try of the same job, which found quota but no room: it comes second.
        """
        entry = self.before_victims(entry)
        roomless = None if roomless is None else self.before_victims(roomless)
        refused = roomless or entry
        if not ask.leave or self._victims is Victims.NONE:
            return refused
        found = TargetSet()
        for candidate in (entry, roomless):
            if candidate is None or candidate.mode is Mode.NO_FIT:
                continue
            found = self._targets(candidate)
            placed = self._placed_without(statement, candidate, found) if found.targets else None
            if placed is not None:
                return replace(candidate, found=found, placed=placed, refusal=None)
        told = refused.refusal or Refusal(Reason.WAITING_FOR_QUOTA)
        return replace(refused, refusal=protected(told, found))

    def before_victims(self, entry: Entry) -> Entry:
        """Hook: an entry that lacks quota or room as it is when victims are searched for it."""
        return entry

    def _targets(self, entry: Entry) -> TargetSet:
        """The victims that make the entry fit, with quota and with room."""
        contested = entry.assignment.contested
        if entry.mode is Mode.FIT:
            contested = frozenset(key for key, amount in entry.assignment.usage.items() if amount)
        preemptor = Preemptor(
            job=entry.job,
            queue=_within(entry.queue, self._victims),
            usage=entry.assignment.usage,
            contested=contested,
        )

        def like() -> CountedShape | None:
            return find_uniform_minimum(self._snapshot, self._session.placer, entry.job, entry.assignment)

        return self._session.victims.find_victims(preemptor, self._room(entry), like)

    def _room(self, entry: Entry) -> PlacementCheck | None:
        """Asks whether the entry finds its places; None where its flavors have no nodes."""
        if not self._stands(entry):
            return None

        def room() -> bool:
            with self._snapshot.statement() as trial:
                return not isinstance(self.place(trial, entry), Refusal)

        return room

    def _stands(self, entry: Entry) -> bool:
        flavors = self._snapshot.flavors
        return any(flavors[name].placed for role in entry.assignment.roles for name in role.flavors)

    def _placed_without(
        self, statement: Statement, entry: Entry, found: TargetSet
    ) -> tuple[Allocation, ...] | None:
        """Where the entry stands once its victims are gone; leaves nothing in the statement."""
        mark = statement.checkpoint()
        for target in found.targets:
            for key in target.tasks or tuple(held.id for held in self._snapshot.held(target.job)):
                statement.release(key)
        placed = self.place(statement, entry)
        statement.rollback(mark)
        return None if isinstance(placed, Refusal) else placed


def _without_room(placed: Refusal) -> Barred:
    """The role that found no room and the flavor in which it looked, where the refusal names both."""
    where = (str(placed.known.get("role", "")), str(placed.known.get("flavor", "")))
    return frozenset({where} if where[1] else ())


def _contested(entry: Entry) -> Barred:
    """The roles and flavors for whose quota others would have to leave."""
    return frozenset(
        (role.role, choice.flavor)
        for role in entry.assignment.roles
        for choice in role.choices.values()
        if choice.mode is not Mode.FIT
    )


def _gravity(entry: Entry) -> int:
    return 0 if entry.refusal is None else SEVERITY.get(entry.refusal.reason, 0)


def _naming_clusters(roomless: Entry, last: Assignment) -> Entry:
    """An entry without room, with the clusters that were tried if no single one holds the job."""
    tried = None if last.refusal is None else last.refusal.known.get(CLUSTERS)
    if tried is None or roomless.refusal is None:
        return roomless
    return replace(roomless, refusal=roomless.refusal.but(**{CLUSTERS: tried}))


def _allowed(keep: Kept | None, barred: Barred) -> Allowed | None:
    if keep is None and not barred:
        return None

    def allowed(role: str, resource: ResourceName, flavor: str) -> bool:
        if (role, flavor) in barred:
            return False
        return keep is None or keep.get(role, {}).get(resource) == flavor

    return allowed


def _any_left(queue: Queue, job: Job, barred: Barred) -> bool:
    """Whether each role has a flavor of the queue that it may still look at, as far as that is simple."""
    if len(job.roles) != 1:
        return True
    return any((job.roles[0].name, name) not in barred for group in queue.groups for name in group.flavors)


def _within(queue: Queue, victims: Victims) -> Queue:
    """The queue with no more rights than the action has."""
    if victims is not Victims.OWN_QUEUE:
        return queue
    return replace(queue, preemption=PreemptionPolicy(within_queue=queue.preemption.within_queue))
