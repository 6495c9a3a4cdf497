"""The action that moves running tasks together so that a waiting job finds room.

A move costs the mover what it has not saved, so moves are made for a waiting job only, and only when
that job then starts: nothing is tidied up on suspicion. Every mover has its new place before it gives up
the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduling.engine.actions.leaving import running
from scheduling.engine.actions.make_way import Wanting, make_way, tell
from scheduling.engine.gang.attempt import Attempt
from scheduling.engine.gang.moves import MoveSearch, Opening, Unit, units_of
from scheduling.engine.gang.openings import Promise, openings
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    EvictRule,
    Flavor,
    FlavorResource,
    GpuMode,
    Job,
    JobState,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.question import members
from scheduling.engine.placement.shape import TaskShape, resolve
from scheduling.engine.plugins.protocols import Candidate
from scheduling.engine.preemption.loss import charged, gpus, running_for, unsaved
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.quota.charges import demand
from scheduling.engine.quota.verdict import capped

if TYPE_CHECKING:
    from scheduling.engine.session import Session


SHORT = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What consolidation would do for one job: cards that it would get, tasks and jobs that would move,
    and the GPU-seconds of work that the movers would do again."""

    cards: int
    tasks: int
    jobs: int
    gpu_seconds: float
    opening: Opening


class Consolidate:
    """Opens room for waiting jobs whose quota is free, within the bounds of the configuration.

    Meant to come last in a cycle: what a mover gives up is claimed by the job it moved for.
    """

    name = "consolidate"

    def run(self, session: Session) -> None:
        """Waiting jobs in the cycle's order; each that can be helped gets a claim."""
        session.counters["moved"] += 0
        failed: set[Hashable] = set()
        movers: set[str] = set()
        left = session.config.consolidation.jobs_tried
        for queue, job in self._waiting(session):
            like = (queue.id, session.likes.of(job), bool(session.snapshot.holds(job.id)))
            if left == 0 or session.counters["moved"] >= session.config.consolidation.moves_per_cycle:
                return
            if like in failed:
                continue
            case = _case(session, queue, job)
            # Nobody moves twice in a cycle.
            gain = None if case is None else _solved(session, case, movers)
            if gain is None:
                failed.add(like)
                left -= 1
                continue
            self._move(session, queue, job, gain)
            movers |= {move.before.job for move in gain.opening.moves}
        if session.config.consolidation.with_evictions:
            self._make_way(session)

    def what_if(self, session: Session, job: Job) -> Gain | None:
        """What moving others would give this job now, or None; changes nothing."""
        case = _case(session, session.snapshot.queues[job.queue], job)
        return None if case is None else _solved(session, case, ())

    def _waiting(self, session: Session) -> Iterator[tuple[Queue, Job]]:
        """Jobs that wait for room, in the order in which the cycle would look at them."""
        candidates = []
        for queue in session.queues():
            if queue.stop_policy is not StopPolicy.NONE:
                continue
            line = [session.job(job_id) for job_id in session.line(queue)]
            ready = [job for job in line if self._may_be_helped(session, job)]
            candidates += ready[:1] if queue.strategy is Strategy.STRICT_FIFO else ready
        if session.config.consolidation.for_growth:
            candidates += [job for job, _ in running(session) if job.preemptible]
        for candidate in session.in_order([Candidate(job) for job in candidates]):
            yield session.snapshot.queues[candidate.job.queue], candidate.job

    def _may_be_helped(self, session: Session, job: Job) -> bool:
        known = session.outcomes.get(job.id)
        if known is not None and known.reason is not Reason.NO_ROOM:
            return False
        ready = job.backoff_until is None or job.backoff_until <= session.now
        free = not session.snapshot.holds(job.id) and job.id not in session.snapshot.claims
        allowed = job.preemptible or not session.config.consolidation.preemptible_only
        return job.state is JobState.QUEUED and ready and free and allowed

    def _make_way(self, session: Session) -> None:
        """Evict and move together for the first job of a line that has a right to room and finds none."""
        for queue in session.queues():
            # Victims are looked for among those who stand where they stood when the cycle began.
            if session.counters["moved"]:
                return
            head = next((session.job(key) for key in session.line(queue)), None)
            wanting = None if head is None else _wanting(session, queue, head)
            if wanting is None:
                continue
            search = MoveSearch(
                session.snapshot,
                _attempt(session),
                jobs=session.config.consolidation.jobs_per_move,
                tasks=session.config.consolidation.moves_per_cycle,
            )
            way = make_way(session, wanting, search, _movers(session, wanting.job, float("inf"), ()))
            if way is not None:
                tell(session, wanting.job, way)
                self._move(session, queue, wanting.job, _gain(session, way.opening), way.released)

    def _move(
        self, session: Session, queue: Queue, job: Job, gain: Gain, evicted: tuple[str, ...] = ()
    ) -> None:
        moves, seats = gain.opening.moves, gain.opening.seats
        with session.snapshot.statement() as statement:
            for move in moves:
                statement.release(move.before.id)
            for allocation in (*seats, *(move.after for move in moves)):
                statement.allocate(allocation)
            statement.commit()
        session.counters["moved"] += len(moves)
        by_job: dict[str, list[tuple[Allocation, Allocation]]] = {}
        for move in moves:
            by_job.setdefault(move.before.job, []).append((move.before, move.after))
        for mover in sorted(by_job):
            session.decisions.append(
                Decision(
                    kind=DecisionKind.MIGRATE,
                    job=mover,
                    rule=EvictRule.CONSOLIDATION,
                    beneficiary=job.id,
                    allocations=tuple(after for _, after in by_job[mover]),
                    released=tuple(before.id for before, _ in by_job[mover]),
                )
            )
        self._claim(session, job, gain, evicted)

    def _claim(self, session: Session, job: Job, gain: Gain, evicted: tuple[str, ...]) -> None:
        # Seats may lie where movers of an earlier claim of this cycle still stand.
        moving = (
            task_id
            for decision in session.decisions
            if decision.kind is DecisionKind.MIGRATE
            for task_id in decision.released
        )
        leaving = (*evicted, *moving)
        numbers: dict[str, int | str] = {
            "tasks": gain.tasks,
            "jobs": gain.jobs,
            "cards": gain.cards,
            "gpu_seconds": round(gain.gpu_seconds),
        }
        session.decisions.append(
            Decision(
                kind=DecisionKind.PARK,
                job=job.id,
                allocations=gain.opening.seats,
                released=tuple(dict.fromkeys(leaving)),
                beneficiary=job.id,
                rule=EvictRule.CONSOLIDATION,
                numbers=numbers,
            )
        )
        session.record(
            Outcome(
                job=job.id,
                status=OutcomeStatus.WAITING,
                reason=Reason.WAITING_FOR_PREEMPTED,
                numbers=numbers,
            )
        )


@dataclass(frozen=True, slots=True)
class _Case:
    """A job that lacks nothing but room in the right places: how it is tried, how many more tasks of each
    role it needs, and the hardest of them (see `_hardest`)."""

    queue: Queue
    job: Job
    attempt: Attempt
    more: dict[str, int]
    hardest: tuple[Board, int] | None


def _case(session: Session, queue: Queue, job: Job) -> _Case | None:
    """None where moving others cannot help the job, as far as that is told without looking at them."""
    snapshot, attempt = session.snapshot, _attempt(session)
    more = attempt.next_piece(job)
    if not more:
        return None
    with snapshot.statement() as statement:
        if not isinstance(found := attempt.start(statement, queue, job, more), Refusal):
            return None
    if found.reason is not Reason.NO_ROOM:
        return None
    hardest = _hardest(session, queue, job, more)
    if hardest is not None and not _enough_cores(*hardest):
        return None
    return _Case(queue, job, attempt, more, hardest)


def _enough_cores(board: Board, tasks: int) -> bool:
    """Whether the fleet has as many core units free as the tasks need; no move makes them more.

    Told of a fleet of equal cards only: elsewhere the same task may take less of another card.
    """
    fleet, task = board.question.fleet, board.question.task
    cores, memory = fleet.card_cores[fleet.present], fleet.card_memory[fleet.present]
    if not task.cards or not len(cores) or (cores != cores[0]).any() or (memory != memory[0]).any():
        return True
    each = int(cores[0]) if task.whole else task.cores
    return int(fleet.cores_free[fleet.present].sum()) >= tasks * task.cards * each


def _solved(session: Session, case: _Case, moved: Collection[str]) -> Gain | None:
    """The moves that open room for a case; jobs in `moved` stay where they are."""
    snapshot, options, job = session.snapshot, session.config.consolidation, case.job
    left = options.moves_per_cycle - session.counters["moved"]
    lost = _bearable(session, case)
    search = MoveSearch(snapshot, case.attempt, jobs=options.jobs_per_move, tasks=left, lost=lost)
    movers = _movers(session, job, lost, moved)
    sets: Iterable[tuple[Unit, ...]] = ()
    if case.hardest is not None and options.cheapest_first:
        sets = openings(*case.hardest, movers)
    promising = None if case.hardest is None else Promise(*case.hardest).with_
    opening = search.open_any(case.queue, job, case.more, sets) or search.open(
        case.queue, job, case.more, movers, promising
    )
    return None if opening is None or not opening.moves else _gain(session, opening)


def _bearable(session: Session, case: _Case) -> float:
    """The most GPU-seconds that movers may lose for a case."""
    bound = session.config.consolidation.loss_s
    if bound is None or case.hardest is None:
        return float("inf")
    asked = _asked(case.job, case.more, case.hardest[0].question.flavor)
    return gpus(asked) * bound if _borrows(session, case.queue, asked) else float("inf")


def _asked(job: Job, more: dict[str, int], flavor: Flavor) -> dict[FlavorResource, int]:
    """What so many more tasks of each role are charged in one flavor."""
    asked: dict[FlavorResource, int] = {}
    for role in job.roles:
        for resource, each in demand(role.request, flavor).items():
            key = FlavorResource(flavor.id, resource)
            asked[key] = asked.get(key, 0) + each * more.get(role.name, 0)
    return asked


def _borrows(session: Session, queue: Queue, asked: dict[FlavorResource, int]) -> bool:
    tree = session.snapshot.quota
    return any(tree.borrows(queue.quota_node, key, amount) for key, amount in asked.items())


def _wanting(session: Session, queue: Queue, job: Job) -> Wanting | None:
    """The job with its right to room; None where it has none, or where it waits for something else."""
    known = session.outcomes.get(job.id)
    gated = job.preempts_after is not None and job.preempts_after > session.now
    if known is None or known.reason not in SHORT or gated or session.snapshot.holds(job.id):
        return None
    more = _attempt(session).next_piece(job)
    hardest = None if not more else _hardest(session, queue, job, more)
    if not more or hardest is None:
        return None
    asked = _asked(job, more, hardest[0].question.flavor)
    return None if _borrows(session, queue, asked) else Wanting(queue, job, more, asked, hardest)


def _attempt(session: Session) -> Attempt:
    options = session.config.preemption
    return Attempt(session.snapshot, session.placer, options.eviction_cap, options.beside_capped)


def _movers(session: Session, job: Job, lost: float, moved: Collection[str]) -> list[Unit]:
    """What may move for a job; jobs in `moved` stay where they are."""
    nodes = _nodes(session, job)
    return [
        unit
        for unit in _movable(session, lost)
        if unit.job.id != job.id
        and unit.job.id not in moved
        and any(task.node in nodes for task in unit.tasks)
    ]


def _movable(session: Session, lost: float) -> list[Unit]:
    """What may move and loses no more GPU-seconds: lower priority first, then (where configured) what loses
    least, then the newest."""
    cap = session.config.preemption.eviction_cap

    def may(job: Job) -> bool:
        free = job.preemptible and job.movable and not capped(job, cap) and not _protected(session, job)
        return free and _least_cards(job) * unsaved(job, session.now) <= lost

    jobs = sorted(running(session, may=may), key=lambda pair: _newest(pair[0]))
    units = [
        unit
        for job, staying in jobs
        for unit in units_of(job, staying, unsaved(job, session.now))
        if unit.lost <= lost
    ]
    if not session.config.consolidation.cheapest_first:
        return units
    return sorted(units, key=lambda unit: (unit.job.priority, unit.lost))


def _newest(job: Job) -> tuple[int, float, str]:
    return (job.priority, -job.submitted_at, job.id)


def _least_cards(job: Job) -> int:
    """Whole cards that every task of the job has at least."""
    requests = (role.request.gpu for role in job.roles)
    return min((r.cards if r is not None and r.mode is GpuMode.WHOLE else 0 for r in requests), default=0)


def _hardest(session: Session, queue: Queue, job: Job, more: dict[str, int]) -> tuple[Board, int] | None:
    """The board of the hardest task that the job lacks, in the queue's first flavor that has nodes, and how
    many such tasks it lacks."""
    names = (name for group in queue.groups for name in group.flavors)
    known = (session.snapshot.flavors.get(name) for name in names)
    flavor = next((flavor for flavor in known if flavor is not None and flavor.placed), None)
    if flavor is None:
        return None
    counted: Counter[TaskShape] = Counter()
    for role in job.roles:
        if more.get(role.name):
            counted[resolve(role.request, job.rules_of(role), flavor)] += more[role.name]
    hardest = max(
        counted, key=lambda shape: (shape.whole, shape.cards * shape.cores, shape.cpu), default=None
    )
    return None if hardest is None else (session.placer.board(hardest, flavor), counted[hardest])


def _protected(session: Session, job: Job) -> bool:
    """Whether the job is inside the run time that it was guaranteed."""
    return job.min_run_s is not None and running_for(job, session.now) < job.min_run_s


def _nodes(session: Session, job: Job) -> frozenset[str]:
    """The nodes of the flavors that the job may be given."""
    queue = session.snapshot.queues[job.queue]
    flavors = (session.snapshot.flavors.get(name) for group in queue.groups for name in group.flavors)
    names: set[str] = set()
    for flavor in flavors:
        if flavor is None or not flavor.placed:
            continue
        for row in np.flatnonzero(members(session.snapshot.fleet, flavor)):
            names.add(session.snapshot.fleet.nodes[row].id)
    return frozenset(names)


def _gain(session: Session, opening: Opening) -> Gain:
    jobs = {move.before.job for move in opening.moves}
    return Gain(
        cards=sum(len(seat.slices) for seat in opening.seats),
        tasks=len(opening.moves),
        jobs=len(jobs),
        gpu_seconds=sum(
            gpus(charged((move.before,))) * unsaved(session.job(move.before.job), session.now)
            for move in opening.moves
        ),
        opening=opening,
    )
