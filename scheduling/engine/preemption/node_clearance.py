"""Clearance of nodes: victims on the rows that are cheapest to clear, so that a gang can be placed.

Candidates in rank order are spread over the fleet, and on a large one it takes hundreds of them until a node
is free. Here each row is asked which of its candidates have to be evicted for one more task, and the cheapest
rows are cleared one after the other until the gang has its slots, each candidate by a rule that allows its
eviction at that moment. An upper bound of what all eligible candidates together could release ends infeasible
searches early.
"""

from __future__ import annotations

from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from scheduling.engine.model.options import ShareStrategy
from scheduling.engine.placement.index.row import RowState
from scheduling.engine.preemption.candidates.allocation_table import Floats
from scheduling.engine.preemption.candidates.candidates import VictimCandidate
from scheduling.engine.preemption.node_victims import NodeTasks, NodeVictimIndex, NodeVictims
from scheduling.engine.preemption.strategies.fair import FairPreemption
from scheduling.engine.preemption.trials.collect import add_victim
from scheduling.engine.preemption.trials.context import PreemptionContext, Victim
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter
from scheduling.engine.state.fleet import Bools, Ints, sum_rows

# The rows examined together for each missing slot, their minimum, and the maximum of a whole pass.
ROWS_PER_SLOT, MIN_ROWS, MAX_ROWS = 2, 8, 256
# The factor by which the number of sorted rows grows when those sorted are too few.
EXTENSION_FACTOR = 8
# A number of core units that no card has.
IMPOSSIBLE_CORES = 2**40
MAX_BATCHES_IN_VAIN = 2
"""The number of batches without an easier row after which a pass examines no further rows."""


class ClearanceStep(NamedTuple):
    """The candidates of one row whose eviction makes room for one more task, and their difficulty together.

    Steps of equal difficulty sort by row.
    """

    difficulty: float
    tasks: int
    row: int
    candidates: tuple[VictimCandidate, ...]


class FreeableCapacity:
    """The capacity that evictions in some queues could release.

    `eligible` `[charged jobs]` marks the candidates; `rows` are (lower bound of the difficulty of one more
    slot, row) for rows that could gain slots; `gained_slots` is an upper bound of the gain by row. The
    easiest rows come first, and more are sorted on demand: most searches end because all rows together gain
    too little.
    """

    def __init__(
        self, legal: Bools, node_tasks: NodeTasks, victims: NodeVictims, slot_counter: FreeSlotCounter
    ) -> None:
        self.eligible = legal
        self.rows: list[tuple[float, int]] = []
        self.gained_slots: dict[int, int] = {}
        self._victims, self._slot_counter, self._sorted = victims, slot_counter, 0
        needed, rows = slot_counter.needed, victims.rows
        most = np.minimum(_max_slots(node_tasks, victims, slot_counter), needed)
        gain = most - np.minimum(slot_counter.initial_counts[rows], needed)
        self._gain: Ints = np.maximum(gain, 0)
        self.is_infeasible = slot_counter.total + int(self._gain.sum()) < needed

    def has_rows(self, count: int) -> bool:
        """Return whether at least `count` rows could gain slots; that many are sorted then."""
        while len(self.rows) < count and self._sort_more():
            pass
        return len(self.rows) >= count

    @cached_property
    def _difficulty(self) -> Floats:
        return _min_difficulty(self._victims, self._slot_counter)

    def _sort_more(self) -> bool:
        """Add the next easiest rows; return False if there are none."""
        if self._sorted == len(self._difficulty):
            return False
        count = EXTENSION_FACTOR * max(MIN_ROWS, self._sorted)
        picked = _lowest_positions(self._difficulty, count)[self._sorted :]
        self._sorted += len(picked)
        picked = picked[self._gain[picked] > 0]
        rows: list[int] = self._victims.rows[picked].tolist()
        self.rows.extend(zip(self._difficulty[picked].tolist(), rows, strict=True))
        self.gained_slots.update(zip(rows, self._gain[picked].tolist(), strict=True))
        return True


class NodeClearance:
    """The choice of rows to clear for one gang, and of the victims on them."""

    def __init__(
        self, victim_index: NodeVictimIndex, context: PreemptionContext, slot_counter: FreeSlotCounter
    ) -> None:
        self._victim_index, self._context, self._slot_counter = victim_index, context, slot_counter
        self._freeable_by_all: FreeableCapacity | None = None
        self._all_eligible: Bools | None = None

    @property
    def is_infeasible(self) -> bool:
        """True if there were too few slots even with all eligible candidates evicted.

        Surplus tasks are part of whole jobs, so they are counted. Most searches are infeasible, and many of
        them have the shape and the candidates of an earlier search of the cycle.
        """
        if self._freeable_by_all is None:
            board, needed = self._slot_counter.board, self._slot_counter.needed
            version = self._context.index.snapshot.usage_version()
            key = board, needed, version, self._get_all_eligible().tobytes()
            if key in self._victim_index.infeasible_searches:
                return True
            if self._get_freeable_by_all().is_infeasible:
                self._victim_index.infeasible_searches.add(key)
        return self._get_freeable_by_all().is_infeasible

    def has_same_candidates(self, other: NodeClearance) -> bool:
        """Return whether another clearance has the same eligible candidates."""
        return bool((self._get_all_eligible() == other._get_all_eligible()).all())

    def clear_nodes(self, field: FairPreemption, taken: list[Victim]) -> bool:
        """Remove candidates of the cheapest rows until the gang has its slots, and add them to `taken`.

        The first strategy comes first; if it does not suffice, each other strategy may take one more job of
        each queue. Return False if the rows that were examined do not suffice, or the budget is exhausted.
        """
        too_few: set[str] = set()
        for number, strategy in enumerate(field.fair.strategies):
            sweep = _ClearancePass(self, field, taken, strategy, once=number > 0)
            # As long as no victim is taken, a part of the queues can release no more than all of them.
            known = not taken and bool(too_few) and sweep.open_queues <= too_few
            if self._slot_counter.fits or (not known and sweep.clear_nodes()):
                return True
            if field.reclaims_nominal:
                break
            too_few = sweep.open_queues if known or sweep.is_infeasible else set()
        return False

    def freeable_by(self, queues: set[str]) -> FreeableCapacity:
        """Return the capacity that evictions in these queues could release; that of all queues is cached."""
        if len(queues) == len(self._context.policies):
            return self._get_freeable_by_all()
        return self._build_freeable(self._get_all_eligible() & self._victim_index.charged_to_queues(queues))

    def _get_freeable_by_all(self) -> FreeableCapacity:
        if self._freeable_by_all is None:
            self._freeable_by_all = self._build_freeable(self._get_all_eligible())
        return self._freeable_by_all

    def _get_all_eligible(self) -> Bools:
        """Return the eligible candidates of all queues at the first call."""
        if self._all_eligible is None:
            self._all_eligible = self._victim_index.find_eligible(self._context, self._context.policies)
        return self._all_eligible

    def _build_freeable(self, legal: Bools) -> FreeableCapacity:
        node_tasks = self._victim_index.get_node_tasks(self._slot_counter.board.lasting_rows())
        victims = node_tasks.select_victims(
            legal.take(node_tasks.owners) & self._victim_index.still_allocated(node_tasks.tasks)
        )
        return FreeableCapacity(legal, node_tasks, victims, self._slot_counter)


def _min_difficulty(victims: NodeVictims, slot_counter: FreeSlotCounter) -> Floats:
    """Return a lower bound of the difficulty of one more slot on each row, as far as cards decide."""
    question, rows = slot_counter.board.question, victims.rows
    task = question.task
    if task.cards and task.whole:
        wanted = task.cards * (slot_counter.initial_counts[rows] + 1) - slot_counter.usable_cards[rows]
        return victims.min_card_difficulty(np.maximum(wanted, 1))
    if task.cards:
        cards = victims.cards
        usable, free = question.usable[cards], question.fleet.cores_free[cards] % task.cores
        return victims.min_slice_difficulty(np.where(usable, task.cores - free, IMPOSSIBLE_CORES))
    return victims.min_card_difficulty(np.ones(len(rows), np.int64))


def _lowest_positions(hard: Floats, count: int) -> Ints:
    """Return the positions of the `count` lowest values in ascending order; equal values by position."""
    places = np.arange(len(hard))
    if count < len(hard):
        places = np.flatnonzero(hard <= np.partition(hard, count)[count])
    found: Ints = places[np.argsort(hard[places], kind="stable")][:count]
    return found


def _max_slots(node_tasks: NodeTasks, victims: NodeVictims, slot_counter: FreeSlotCounter) -> Ints:
    """Return an upper bound of the slots of each row with all its selected tasks evicted."""
    question, rows = slot_counter.board.question, victims.rows
    fleet, task = question.fleet, question.task
    most = np.full(len(rows), np.iinfo(np.int64).max // 4, np.int64)
    if task.cpu:
        most = np.minimum(most, (fleet.cpu_free[rows] + victims.sum_by_row(node_tasks.cpu)) // task.cpu)
    if task.memory:
        most = np.minimum(
            most, (fleet.memory_free[rows] + victims.sum_by_row(node_tasks.memory)) // task.memory
        )
    if task.cards and task.whole:
        most = np.minimum(
            most, (slot_counter.usable_cards[rows] + victims.sum_by_row(node_tasks.cards)) // task.cards
        )
    elif task.cards:
        free = fleet.cores_free[rows] + victims.sum_cores_by_card()
        parts = sum_rows(np.where(question.usable[rows], free // task.cores, 0))
        # A task with parts of several cards could complete a slot on each of them.
        more = victims.sum_by_row(node_tasks.several_cores) // task.cores + victims.sum_by_row(
            node_tasks.several_cards
        )
        most = np.minimum(most, parts + more)
    return np.maximum(most, 0)


class _ClearancePass:
    """One pass over the rows with one strategy. With `once` each queue gives up one more job at most.

    `open_queues` are the queues that may still contain a victim.
    """

    def __init__(
        self,
        clearing: NodeClearance,
        field: FairPreemption,
        taken: list[Victim],
        strategy: ShareStrategy,
        *,
        once: bool,
    ) -> None:
        self._victim_index, self._context, self._slot_counter = (
            clearing._victim_index,
            clearing._context,
            clearing._slot_counter,
        )
        self._preemption, self._taken, self._strategy, self._one_per_queue = field, taken, strategy, once
        self.open_queues = field.accepted_queues(self._context.policies, strategy)
        self._clearing = clearing
        self._taken_ids = {victim.candidate.id for victim in taken}
        self._max_rows = max(MAX_ROWS, self._batch_size)
        self._refused: set[str] = set()

    @cached_property
    def _freeable(self) -> FreeableCapacity:
        """The capacity that the queues which were open at the first use could release."""
        return self._clearing.freeable_by(self.open_queues)

    @property
    def is_infeasible(self) -> bool:
        """True if there were too few slots even with all candidates evicted that the strategy may accept."""
        return self._freeable.is_infeasible

    def clear_nodes(self) -> bool:
        """Clear rows; return whether there are enough slots now."""
        slot_counter, heap = self._slot_counter, list[ClearanceStep]()
        if self.is_infeasible:
            return False
        freeable, looked, vain = self._freeable, 0, 0
        while not slot_counter.fits:
            # The estimate of a row is a lower bound: rows with a higher one cannot beat the best step.
            if self._should_evaluate_more(looked, heap, vain):
                best = heap[0].difficulty if heap else float("inf")
                upto = min(looked + self._batch_size, self._max_rows)
                freeable.has_rows(upto)
                for _, row in freeable.rows[looked:upto]:
                    self._push_step(heap, row)
                looked = upto
                vain = vain + 1 if heap and heap[0].difficulty >= best else 0
                continue
            vain = 0
            if not heap or not self._context.search_budget.spend_step():
                return False
            step = heappop(heap)
            if all(map(self._may_take, step.candidates)):
                self._take_step(step)
            if not slot_counter.fits:
                self._push_step(heap, step.row)
        return True

    def _should_evaluate_more(self, looked: int, heap: list[ClearanceStep], vain: int) -> bool:
        """Return whether the next rows are examined before the best known step is taken."""
        if looked >= self._max_rows or not self._freeable.has_rows(looked + 1):
            return False
        return not heap or (
            vain < MAX_BATCHES_IN_VAIN and self._freeable.rows[looked][0] < heap[0].difficulty
        )

    def _push_step(self, heap: list[ClearanceStep], row: int) -> None:
        step = self._find_step(row)
        if step is not None:
            heappush(heap, step)

    @property
    def _batch_size(self) -> int:
        """The number of rows that are examined together."""
        return max(MIN_ROWS, ROWS_PER_SLOT * (self._slot_counter.needed - self._slot_counter.total))

    def _find_step(self, row: int) -> ClearanceStep | None:
        """Return a row's first candidates, lowest cost first, whose eviction makes room for one more task."""
        if self._slot_counter.gained_slots(row) >= self._freeable.gained_slots[row]:
            return None
        state = self._slot_counter.copy_row(row)
        before, chosen = state.count_slots(), list[VictimCandidate]()
        legal = self._freeable.eligible
        for number, candidate in self._victim_index.candidates_on_row(row):
            if not legal[number] or not self._is_eligible(candidate):
                continue
            self._apply_tasks(state, candidate, row, 1)
            chosen.append(candidate)
            if state.count_slots() > before:
                break
        else:
            return None
        for candidate in chosen[-2::-1]:
            self._apply_tasks(state, candidate, row, -1)
            if state.count_slots() > before:
                chosen.remove(candidate)
            else:
                self._apply_tasks(state, candidate, row, 1)
        staying = [candidate for candidate in chosen if not candidate.leaving]
        hard = self._victim_index.compute_difficulty(staying)
        return ClearanceStep(hard, sum(len(each.tasks) for each in staying), row, tuple(chosen))

    def _is_eligible(self, candidate: VictimCandidate) -> bool:
        if (
            candidate.queue not in self.open_queues
            or candidate.id in self._refused
            or candidate.id in self._taken_ids
        ):
            return False
        policy = self._context.policies[candidate.queue]
        return candidate.job.id not in self._taken_ids and self._context.is_eligible(candidate, policy)

    def _may_take(self, candidate: VictimCandidate) -> bool:
        """Return whether a candidate that was eligible when its step was found may still be taken."""
        if candidate.queue in self.open_queues and not self._preemption.is_open(
            candidate.queue, self._strategy
        ):
            self.open_queues.remove(candidate.queue)
        return self._is_eligible(candidate)

    def _take_step(self, step: ClearanceStep) -> None:
        """Remove all candidates of a step; restore them all if one of them is refused."""
        found: list[Victim] = []
        for candidate in step.candidates:
            victim = self._preemption.take_candidate(candidate, self._strategy)
            if victim is None:
                self._refused.add(candidate.id)
                for other in reversed(found):
                    self._context.trial.restore_removal(other.removal)
                return
            found.append(victim)
        for victim in found:
            add_victim(self._taken, victim)
            self._taken_ids.add(victim.candidate.id)
            if self._one_per_queue and victim.candidate.queue != self._context.preemptor.queue.id:
                self.open_queues.discard(victim.candidate.queue)

    def _apply_tasks(self, state: RowState, candidate: VictimCandidate, row: int, sign: int) -> None:
        """Remove the candidate's tasks from a copy of a row, or restore them with `sign` -1.

        Tasks that an earlier removal took are skipped.
        """
        for task in candidate.tasks:
            if self._victim_index.fleet.row.get(task.node) == row and not self._context.trial.has_removed(
                task
            ):
                state.apply_task(task, sign)
