"""Whom to ask first so that a gang finds its places: candidates on the rows that are cheapest to clear.

Candidates taken in the order of their rank stand anywhere, and on a large fleet it takes hundreds of them
before one node is free. Here each row is asked for which of its candidates one more task would fit, and
the cheapest rows are cleared one after the other until the gang has its seats. What all legal candidates
together could free is a bound that ends hopeless searches early.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from scheduling.engine.placement.board import Board
from scheduling.engine.placement.question import card_parts
from scheduling.engine.preemption.candidates import Candidate
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.ground import Ground
from scheduling.engine.preemption.policy import Policy, may_push_anyone
from scheduling.engine.preemption.seats import Row, Seats
from scheduling.engine.state.fleet import ALL_ROWS, Fleet, Ints

# Rows that are looked at closely for each seat that is missing, and at least.
ROWS_PER_SEAT, FEWEST_ROWS = 2, 16


class Step(NamedTuple):
    """Candidates of one row with which it holds one more task. Steps of equal cost go by row."""

    priority: float
    cost: float
    tasks: int
    row: int
    candidates: tuple[Candidate, ...]


class Clearing:
    """One gang's question: which rows to clear for it, and of whom."""

    def __init__(self, ground: Ground, contest: Contest, seats: Seats) -> None:
        self._ground, self._contest, self._seats = ground, contest, seats
        self._policies = dict(_policies(contest))
        legal = ground.legal(contest, self._policies)
        self._tasks = legal[ground.who]
        before = np.minimum(seats.counts, seats.needed)
        self._steps: dict[int, Step | None] = {}
        self._gain: Ints = np.minimum(self._potential(seats.board), seats.needed) - before

    @property
    def hopeless(self) -> bool:
        """Whether there would be too few seats with everybody gone who may be asked.

        Tasks that can be spared are part of whole jobs, so they are counted.
        """
        return self._seats.total + int(np.maximum(self._gain, 0).sum()) < self._seats.needed

    def chosen(self) -> dict[str, list[Candidate]]:
        """The candidates of each queue that clear the cheapest rows, in the order of the rows; nobody where
        the rows that were looked at do not suffice."""
        seats = self._seats
        heap = [step for row in self._promising() if (step := self._first_step(row)) is not None]
        heapify(heap)
        taken: dict[str, Candidate] = {}
        while heap and not seats.fit:
            step = heappop(heap)
            before = seats.slots_at(step.row)
            for candidate in step.candidates:
                if candidate.id not in taken:
                    taken[candidate.id] = candidate
                    seats.leave(candidate.tasks)
            if self._gain[step.row] > seats.slots_at(step.row) - before and not seats.fit:
                following = self._step(step.row, taken)
                if following is not None:
                    heappush(heap, following)
        enough = seats.fit
        for candidate in reversed(taken.values()):
            seats.leave(candidate.tasks, -1)
        if not enough:
            return {}
        lines: dict[str, list[Candidate]] = {}
        for candidate in taken.values():
            lines.setdefault(candidate.queue, []).append(candidate)
        return lines

    def _potential(self, board: Board) -> Ints:
        """Slots of each row if all legal candidates had left, at most."""
        ground, fleet, task = self._ground, board.question.fleet, board.question.task
        most = np.full(len(fleet), np.iinfo(np.int64).max // 4, np.int64)
        if task.cpu:
            most = np.minimum(most, (fleet.cpu_free + self._freed(ground.cpu)) // task.cpu)
        if task.memory:
            most = np.minimum(most, (fleet.memory_free + self._freed(ground.memory)) // task.memory)
        if task.cards and task.whole:
            empty = card_parts(board.question, ALL_ROWS).sum(axis=1)
            most = np.minimum(most, (empty + self._freed(ground.cards)) // task.cards)
        elif task.cards:
            free = np.where(board.question.usable, fleet.cores_free, 0).sum(axis=1)
            most = np.minimum(most, (free + self._freed(ground.cores)) // task.cores)
        return np.where(board.lasting(), np.maximum(most, 0), 0)

    def _freed(self, amounts: Ints) -> Ints:
        mask, size = self._tasks, len(self._ground.fleet)
        found = np.bincount(self._ground.row[mask], weights=amounts[mask], minlength=size)
        return found.astype(np.int64)

    def _promising(self) -> list[int]:
        """The rows that look cheapest by priority and cost for each seat that they could give."""
        ground, mask = self._ground, self._tasks
        rows = np.flatnonzero(self._gain > 0)
        short = self._seats.needed - self._seats.total
        wanted = max(FEWEST_ROWS, ROWS_PER_SEAT * short)
        if len(rows) > wanted:
            who = ground.who[mask]
            lowest = int(ground.priority.min(initial=0))
            dear = (ground.priority[who] - lowest).astype(np.float64) * 1e9 + ground.each[who] + 1.0
            rough = np.bincount(ground.row[mask], weights=dear, minlength=len(ground.fleet))[rows]
            order = np.lexsort((rows, rough / self._gain[rows]))
            rows = rows[order[:wanted]]
        found: list[int] = rows.tolist()
        return found

    def _first_step(self, row: int) -> Step | None:
        """As `_step`; told again as long as nobody in it is banned."""
        if row in self._steps:
            known, banned = self._steps[row], self._contest.banned
            if known is None or all(candidate.id not in banned for candidate in known.candidates):
                return known
        self._steps[row] = self._step(row)
        return self._steps[row]

    def _step(self, row: int, taken: dict[str, Candidate] | None = None) -> Step | None:
        """The first candidates of a row, cheapest first, with which it holds one task more."""
        ground, gone = self._ground, taken or {}
        state = Row(self._seats.board, row)
        for candidate in gone.values():
            _lift(state, candidate, row, ground.fleet, 1)
        aim, chosen = state.slots() + 1, []
        ranked = sorted((c for c in ground.on_row(row) if self._may_ask(c, gone)), key=_by_cost)
        for candidate in ranked:
            _lift(state, candidate, row, ground.fleet, 1)
            chosen.append(candidate)
            if state.slots() >= aim:
                break
        else:
            return None
        for candidate in chosen[-2::-1]:
            _lift(state, candidate, row, ground.fleet, -1)
            if state.slots() >= aim:
                chosen.remove(candidate)
            else:
                _lift(state, candidate, row, ground.fleet, 1)
        staying = [candidate for candidate in chosen if not candidate.leaving]
        return Step(
            max((c.job.priority for c in staying), default=float("-inf")),
            sum(c.cost for c in staying),
            sum(len(c.tasks) for c in staying),
            row,
            tuple(chosen),
        )

    def _may_ask(self, candidate: Candidate, gone: dict[str, Candidate]) -> bool:
        if candidate.id in gone or candidate.job.id in gone:
            return False
        policy = self._policies.get(candidate.queue)
        return policy is not None and self._contest.may_ask(candidate, policy)


def _policies(contest: Contest) -> Iterator[tuple[str, Policy]]:
    """Of which queues candidates may be asked at all, and by which policy."""
    rules, snapshot = contest.preemptor.queue.preemption, contest.roster.snapshot
    own, tree = contest.preemptor.queue.id, contest.tree
    if may_push_anyone(rules.within_queue):
        yield own, rules.within_queue
    if not may_push_anyone(rules.reclaim):
        return
    root = tuple(tree.path(contest.leaf))[-1]
    for name, queue in snapshot.queues.items():
        if name == own or tree.inside(queue.quota_node, contest.preemptor.contested):
            continue
        if tuple(tree.path(queue.quota_node))[-1] == root:
            yield name, rules.reclaim


def _by_cost(candidate: Candidate) -> tuple[bool, bool, int, float, str]:
    return (not candidate.leaving, candidate.whole, candidate.job.priority, candidate.cost, candidate.id)


def _lift(state: Row, candidate: Candidate, row: int, fleet: Fleet, sign: int) -> None:
    for task in candidate.tasks:
        if fleet.row.get(task.node) == row:
            state.book(task, sign)
