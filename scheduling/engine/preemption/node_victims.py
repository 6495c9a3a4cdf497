"""Victims by node: arrays over the tasks of all candidates, and the candidates on each row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates.allocation_table import Floats, group_order
from scheduling.engine.preemption.candidates.candidates import CandidateIndex, VictimCandidate
from scheduling.engine.preemption.candidates.policy import max_victim_priority
from scheduling.engine.preemption.trials.context import PreemptionContext
from scheduling.engine.state.fleet import Bools, Fleet, Ints

# The weight of one difficulty level in GPU-seconds: more than all jobs of a row can lose together, and
# small enough that sums stay exact.
LEVEL_WEIGHT = 1e12

_EligibilityKey = tuple[frozenset[FlavorResource], bool]
"""The contested quotas, and whether guaranteed run times of borrowed use count."""


class TaskGroups:
    """Tasks in groups, for example by row, the least difficult to evict first in each group.

    `tasks` are the tasks of all groups; `group`, `level` and `cost` are their groups and their difficulty,
    `min_cost` is the lowest cost in the group at the same level. All arrays are `[tasks]`.
    """

    def __init__(self, order: Ints, group: Ints, level: Ints, cost: Floats) -> None:
        self.tasks, self.group, self.level, self.cost = order, group, level, cost
        first = _group_starts(group) | _group_starts(level)
        starts = np.flatnonzero(first)
        least = np.minimum.reduceat(cost, starts) if len(order) else cost
        self.min_cost: Floats = least[np.cumsum(first) - 1]

    @staticmethod
    def from_unsorted(tasks: Ints, group: Ints, level: Ints, cost: Floats, given: Ints) -> TaskGroups:
        """Sort tasks by group, lower level, and lower cost for the amount `given` that is released."""
        # Stable sorts by one 16-bit key after the other are several times as fast as `lexsort`.
        ranks = group_order(given)
        for key in (_dense_rank(cost / np.maximum(1, given)), level, group):
            ranks = ranks[group_order(key[ranks])]
        return TaskGroups(tasks[ranks], group[ranks], level[ranks], cost[ranks])

    def select_tasks(self, asked: Bools) -> TaskSelection:
        """Return the marked tasks; `asked` is a mask `[tasks]`."""
        return TaskSelection(self, np.flatnonzero(asked))


class TaskSelection:
    """A selection of the tasks of groups; `groups` are the groups that have a selected task.

    The tasks of one group are adjacent, and groups ascend.
    """

    def __init__(self, groups: TaskGroups, at: Ints) -> None:
        self._groups, self._positions = groups, at
        group = groups.group[at]
        self._starts = np.flatnonzero(_group_starts(group))
        self.groups: Ints = group[self._starts]

    @property
    def tasks(self) -> Ints:
        """The selected tasks."""
        return self._groups.tasks[self._positions]

    @property
    def sizes(self) -> Ints:
        """The number of selected tasks in each group. `[groups]`."""
        return np.diff(self._starts, append=len(self._positions))

    def sum_amounts(self, amounts: Ints) -> Ints:
        """Sum amounts of the selected tasks by group. `[groups]`."""
        found: Ints = np.add.reduceat(amounts, self._starts) if len(self.groups) else amounts
        return found

    def min_difficulty(self, amounts: Ints, wanted: Ints) -> Floats:
        """Return a lower bound of the difficulty to release the wanted amount in each group. `[groups]`.

        The bound is the highest level that is needed, and the cost of the easiest tasks, the last one in
        part, but at least the lowest cost of that level; infinity if all tasks of a group together do not
        suffice. `wanted` is `[groups]`.
        """
        if not len(self.groups):
            return np.zeros(0)
        groups, starts, costs = self._groups, self._starts, self._groups.cost[self._positions]
        # Sums up to the start of each group, so that a difference covers one group.
        given, cost = np.cumsum(amounts), np.cumsum(costs)
        before = given[starts] - amounts[starts]
        last = np.searchsorted(given, before + wanted)
        ends = np.append(starts[1:], len(given))
        at = np.minimum(last, len(given) - 1)
        too_much = (given[at] - before - wanted) / np.maximum(1, amounts[at])
        least = cost[at] - cost[starts] + costs[starts] - costs[at] * too_much
        hardest = self._positions[at]
        least = np.maximum(least, groups.min_cost[hardest])
        found: Floats = np.where(last < ends, groups.level[hardest] * LEVEL_WEIGHT + least, np.inf)
        return found


class NodeTasks:
    """Rows of a fleet, and the tasks of whole candidates on them.

    `tasks` (task slots of the allocation table), `owners` (numbers of charged jobs), `cards`, `cores`, `cpu`
    and `memory` are `[tasks]`. `card` is the column of a task's card, negative for a task with none or
    several; `several_cards` and `several_cores` are the cards and cores of such tasks. `cards_per_row` is the
    highest number of cards of a row.
    """

    def __init__(self, victim_index: NodeVictimIndex, rows: Ints) -> None:
        self.rows = rows
        self.cards_per_row = victim_index.fleet.present.shape[1]
        places = victim_index.task_columns
        placed = victim_index.candidate_tasks[np.isin(places["row"][victim_index.candidate_tasks], rows)]
        of_row = np.searchsorted(rows, places["row"][placed])
        found = TaskGroups.from_unsorted(
            placed, of_row, *victim_index.rank_tasks(placed), places["cores"][placed]
        )
        self.tasks = tasks = found.tasks
        self.by_row = TaskGroups(np.arange(len(tasks)), found.group, found.level, found.cost)
        self.owners: Ints = places["owner"][tasks]
        self.cards: Ints = places["cards"][tasks]
        self.cores: Ints = places["cores"][tasks]
        self.cpu: Ints = places["cpu"][tasks]
        self.memory: Ints = places["memory"][tasks]
        self.card: Ints = places["card"][tasks]
        several = self.card < 0
        self.several_cards: Ints = self.cards * several
        self.several_cores: Ints = self.cores * several
        sharing = np.flatnonzero(~several)
        card = (found.group * self.cards_per_row + self.card)[sharing]
        # The tasks of one card are on one row, so a stable sort keeps their order.
        ranks = group_order(card)
        sharing = sharing[ranks]
        self.by_card = TaskGroups(sharing, card[ranks], found.level[sharing], found.cost[sharing])

    def select_victims(self, asked: Bools) -> NodeVictims:
        """Return the marked tasks."""
        return NodeVictims(self, self.by_row.select_tasks(asked))


class NodeVictims:
    """A selection of the tasks on some rows; the rows ascend.

    Results by row are `[rows]`, results by card `[rows, cards]`.
    """

    def __init__(self, node_tasks: NodeTasks, by_row: TaskSelection) -> None:
        self._node_tasks, self._by_row = node_tasks, by_row
        self.rows: Ints = node_tasks.rows[by_row.groups]

    def sum_by_row(self, amounts: Ints) -> Ints:
        """Sum amounts of the tasks by row."""
        return self._by_row.sum_amounts(amounts[self._by_row.tasks])

    def sum_cores_by_card(self) -> Ints:
        """Sum the core units of tasks with a single card by card."""
        node_tasks, tasks = self._node_tasks, self._by_row.tasks
        row, card = np.repeat(np.arange(len(self.rows)), self._by_row.sizes), node_tasks.card[tasks]
        found = np.zeros((len(self.rows), node_tasks.cards_per_row), np.int64)
        sharing = card >= 0
        np.add.at(found, (row[sharing], card[sharing]), node_tasks.cores[tasks[sharing]])
        return found

    def min_card_difficulty(self, wanted: Ints) -> Floats:
        """Return a lower bound of the difficulty to release `wanted` cards of each row."""
        return self._by_row.min_difficulty(self._node_tasks.cards[self._by_row.tasks], wanted)

    @cached_property
    def _by_card(self) -> TaskSelection:
        by_card, asked = self._node_tasks.by_card, np.zeros(len(self._node_tasks.owners), np.bool_)
        asked[self._by_row.tasks] = True
        return by_card.select_tasks(asked[by_card.tasks])

    @property
    def cards(self) -> tuple[Ints, Ints]:
        """The cards of which tasks have a part, as rows of the fleet and columns."""
        row, column = np.divmod(self._by_card.groups, self._node_tasks.cards_per_row)
        return self._node_tasks.rows[row], column

    def min_slice_difficulty(self, wanted: Ints) -> Floats:
        """Return a lower bound of the difficulty to release core units on one card of each row.

        `wanted` is by the cards of `cards`; the easiest card of a row counts.
        """
        of_row = self._by_card.groups // self._node_tasks.cards_per_row
        hard = self._by_card.min_difficulty(self._node_tasks.cores[self._by_card.tasks], wanted)
        starts = np.flatnonzero(_group_starts(of_row))
        found = np.full(len(self.rows), np.inf)
        if len(starts):
            at = np.searchsorted(self._by_row.groups, of_row[starts])
            found[at] = np.minimum.reduceat(hard, starts)
        return found


class NodeVictimIndex:
    """An index of candidates by node.

    `candidate_tasks` are the task slots of all eligible candidates, by row. `infeasible_searches` are those
    that found too few slots: shape, number of tasks, version of the usage, and candidates.
    """

    def __init__(self, index: CandidateIndex, fleet: Fleet) -> None:
        self.fleet = fleet
        self._index = index
        self._table = index.table
        self.task_columns, jobs = self._table.task_columns, self._table.job_columns
        owner, row = self.task_columns["owner"], self.task_columns["row"]
        placed = np.flatnonzero((owner >= 0) & (row >= 0))
        placed = placed[index.eligible[owner[placed]]]
        self.candidate_tasks: Ints = placed[group_order(row[placed])]
        priorities, level = np.unique(jobs["priority"], return_inverse=True)
        self._levels = {priority: number for number, priority in enumerate(priorities.tolist(), 1)}
        self._level: Ints = level + 1
        # The eviction of a surplus task costs no waiting: its job runs on.
        self._surplus_cost: Floats = np.floor(index.weighted_loss / np.maximum(1, jobs["tasks"]))
        # An eviction removes all tasks of a job from a row, whatever tasks it has on other rows.
        self._cost: Floats = np.zeros(self.task_columns.size)
        together = placed[group_order(owner[placed])]
        together = together[group_order(row[together])]
        first = _group_starts(owner[together]) | _group_starts(row[together])
        beside = np.diff(np.flatnonzero(first), append=len(together))
        self._cost[together] = np.floor(index.eviction_cost[owner[together]] / np.repeat(beside, beside))
        self._row: Ints = row[self.candidate_tasks]
        self._owner: Ints = owner[self.candidate_tasks]
        self.infeasible_searches: set[Hashable] = set()
        self._on_row: dict[int, list[tuple[int, VictimCandidate]]] = {}
        self._node_tasks: dict[bytes, NodeTasks] = {}
        self._contested: dict[frozenset[FlavorResource], Bools] = {}
        self._eligible: dict[_EligibilityKey, dict[tuple[str, float, float], Ints]] = {}
        self._queue_numbers: dict[str, Ints] = {}
        self._protected_queues: dict[str, bool] = {}
        self._unprotected: Bools = index.protected_until_borrowing <= index.now
        self._marked: dict[str, int] = {}
        self._still_allocated: Bools = np.ones(self.task_columns.size, np.bool_)

    def rank_tasks(self, tasks: Ints) -> tuple[Ints, Floats]:
        """Return the difficulty of tasks: a level, and the task's part of the cost to evict its job from the
        row.

        Costs are whole numbers, so that sums do not depend on their order.
        """
        owner, whole = self.task_columns["owner"][tasks], self.task_columns["surplus"][tasks] == 0
        levels: Ints = np.where(whole, self._level[owner] + len(self._levels), self._level[owner])
        costs: Floats = np.where(whole, self._cost[tasks], self._surplus_cost[owner])
        return np.where(self._table.job_columns["leaving"][owner] > 0, 0, levels), costs

    def compute_difficulty(self, candidates: Sequence[VictimCandidate]) -> float:
        """Return the difficulty to evict candidates together: the highest level, then the sum of their costs.

        Terminating jobs have the lowest level, then surplus tasks, then whole jobs; each of these by
        priority.
        """
        return max(map(self._level_of, candidates), default=0) * LEVEL_WEIGHT + sum(
            each.eviction_cost for each in candidates
        )

    def _level_of(self, candidate: VictimCandidate) -> int:
        if candidate.leaving:
            return 0
        level = self._levels[candidate.job.priority]
        return level + len(self._levels) if candidate.whole else level

    def mark_evicted(self, candidates: Iterable[VictimCandidate]) -> None:
        """Mark candidates as evicted: once their allocations are released they count no more."""
        for candidate in candidates:
            tasks = {task.id for task in candidate.tasks}
            for holding in self._table.find_charged(candidate.job.id):
                placed = zip(holding.tasks, holding.task_slots, strict=True)
                self._marked.update((task.id, place) for task, place in placed if task.id in tasks)

    def still_allocated(self, tasks: Ints) -> Bools:
        """Return which of some tasks still have an allocation; only marked ones are looked up."""
        held = self._index.snapshot.allocations
        released = [task for task in self._marked if task not in held]
        self._still_allocated[[self._marked.pop(task) for task in released]] = False
        found: Bools = self._still_allocated[tasks]
        return found

    def get_node_tasks(self, rows: Bools) -> NodeTasks:
        """Return the tasks on the marked rows."""
        key = rows.tobytes()
        known = self._node_tasks.get(key)
        if known is None:
            known = self._node_tasks[key] = NodeTasks(self, np.flatnonzero(rows))
        return known

    def candidates_on_row(self, row: int) -> list[tuple[int, VictimCandidate]]:
        """Return the candidates with a task on a row, lowest cost first, with their numbers in the table."""
        known = self._on_row.get(row)
        if known is None:
            first, end = np.searchsorted(self._row, (row, row + 1))
            numbers = dict.fromkeys(self._owner[first:end].tolist())
            found = [(number, candidate) for number in numbers for candidate in self._candidates(number, row)]
            known = self._on_row[row] = sorted(found, key=lambda each: row_order_key(each[1]))
        return known

    def _candidates(self, number: int, row: int) -> Iterator[VictimCandidate]:
        """Yield a charged job as a whole, and each of its surplus tasks on a row."""
        yield self._index.whole_job(number)
        for spared in self._index.surplus_tasks(number):
            if self.fleet.row.get(spared.tasks[0].node) == row:
                yield spared

    def find_eligible(self, context: PreemptionContext, queues: Iterable[str]) -> Bools:
        """Return which charged jobs of these queues may be evicted. `[charged jobs]`.

        Their queue's policy and their priority allow it, and they are charged for a contested quota.
        """
        names, policies = list(queues), context.policies
        # The cache is by these keys first, because most searches of a cycle differ only in their queues.
        key = (context.preemptor.contested, context.protects_borrowed_use)
        known = self._eligible.setdefault(key, {})
        asked: list[Ints] = [np.zeros(0, np.int64)]
        for name, max_loss in zip(names, context.max_losses(names), strict=True):
            bounds = (name, float(max_victim_priority(context.preemptor.job, policies[name])), max_loss)
            if bounds not in known:
                known[bounds] = self._within(*bounds, *key)
            asked.append(known[bounds])
        found = np.zeros(self._table.job_columns.size, np.bool_)
        found[np.concatenate(asked)] = True
        return found

    def _within(
        self, queue: str, priority: float, max_loss: float, contested: frozenset[FlavorResource], guards: bool
    ) -> Ints:
        """Return the candidates of a queue up to a priority and up to a loss per card."""
        asked = self._numbers_of_queue(queue)
        within = (self._table.job_columns["priority"][asked] <= priority) & (
            self._index.loss_per_card[asked] <= max_loss
        )
        within &= self._charged_for(contested)[asked]
        if guards:
            within &= self._unprotected[asked]
        return asked[within]

    def charged_to_queues(self, queues: Iterable[str]) -> Bools:
        """Return which charged jobs are charged to these queues. `[charged jobs]`."""
        numbers = self._table.queue_numbers
        those = np.zeros(len(numbers), np.bool_)
        those[[numbers[queue] for queue in queues if queue in numbers]] = True
        found: Bools = those[self._table.job_columns["queue"]]
        return found

    def has_protected(self, context: PreemptionContext) -> bool:
        """Return whether guaranteed run times protect any candidate of the context's queues."""
        return any(map(self._has_protected_in, context.policies))

    def _has_protected_in(self, queue: str) -> bool:
        known = self._protected_queues.get(queue)
        if known is None:
            known = self._protected_queues[queue] = not self._unprotected[self._numbers_of_queue(queue)].all()
        return known

    def _numbers_of_queue(self, queue: str) -> Ints:
        """Return the numbers of a queue's candidates."""
        known = self._queue_numbers.get(queue)
        if known is None:
            known = self._queue_numbers[queue] = self._index.eligible_numbers(queue)
        return known

    def _charged_for(self, contested: frozenset[FlavorResource]) -> Bools:
        """Return which jobs are charged for one of these quotas."""
        known = self._contested.get(contested)
        if known is None:
            known = np.zeros(self._table.job_columns.size, np.bool_)
            for key in contested:
                known |= self._table.charges_of(key) > 0
            self._contested[contested] = known
        return known


def _group_starts(groups: Ints) -> Bools:
    """Return a mask of the positions at which a new group begins."""
    found = np.ones(len(groups), np.bool_)
    found[1:] = groups[1:] != groups[:-1]
    return found


def _dense_rank(values: Floats) -> Ints:
    """Return the rank of each value among the distinct values, 0 for the lowest."""
    order = np.argsort(values)
    ascending = values[order]
    found = np.zeros(len(values), np.int64)
    found[order[1:]] = np.cumsum(ascending[1:] > ascending[:-1])
    return found


def row_order_key(candidate: VictimCandidate) -> tuple[bool, bool, int, float, str]:
    """Return the sort key of candidates on one row."""
    return (
        not candidate.leaving,
        candidate.whole,
        candidate.job.priority,
        candidate.eviction_cost,
        candidate.id,
    )
