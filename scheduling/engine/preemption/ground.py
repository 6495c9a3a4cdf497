"""Where the candidates of a roster stand: arrays over their tasks, and who stands on a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Candidate, Roster
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.policy import highest_priority
from scheduling.engine.preemption.register import Floats, together
from scheduling.engine.state.fleet import Bools, Fleet, Ints

# What weighs as much as so many GPU-seconds: one level, of those that `Ground` tells. More than all jobs of
# a row may lose together, and sums stay exact.
LEVEL = 1e12

_Asked = tuple[frozenset[FlavorResource], bool]
"""What is contested, and whether guaranteed run times of borrowed use count."""


class Groups:
    """Some tasks by where they stand, in each group those first that are easiest to take for what they give.

    `order` are the tasks of all groups, `group`, `level` and `cost` their groups and how hard each is to
    take, `floor` what the cheapest of its group and level costs.
    """

    def __init__(self, order: Ints, group: Ints, level: Ints, cost: Floats) -> None:
        self.order, self.group, self.level, self.cost = order, group, level, cost
        first = _changes(group) | _changes(level)
        starts = np.flatnonzero(first)
        least = np.minimum.reduceat(cost, starts) if len(order) else cost
        self.floor: Floats = least[np.cumsum(first) - 1]

    @staticmethod
    def ranked(tasks: Ints, group: Ints, level: Ints, cost: Floats, given: Ints) -> Groups:
        """Tasks in any order, put into theirs: the lower level first, then less cost for what is given."""
        # One short number after the other, the least important first, is several times as fast as `lexsort`.
        ranks = together(given)
        for key in (_numbered(cost / np.maximum(1, given)), level, group):
            ranks = ranks[together(key[ranks])]
        return Groups(tasks[ranks], group[ranks], level[ranks], cost[ranks])

    def some(self, asked: Bools) -> Some:
        """Those of the tasks that are marked; `asked` goes by `order`."""
        return Some(self, np.flatnonzero(asked))


class Some:
    """Some tasks of groups, at these places of their order; `taken` are the groups in which any stand.

    Those of one group stand together; the groups ascend, unless they were picked in another order.
    """

    def __init__(self, groups: Groups, at: Ints) -> None:
        self._groups, self._at = groups, at
        group = groups.group[at]
        self._starts = np.flatnonzero(_changes(group))
        self.taken: Ints = group[self._starts]

    @property
    def order(self) -> Ints:
        """The tasks."""
        return self._groups.order[self._at]

    @property
    def sizes(self) -> Ints:
        """How many there are of each group. `[taken]`."""
        return np.diff(self._starts, append=len(self._at))

    def only(self, picked: Ints) -> Some:
        """Those of some groups alone, told by their places in `taken`, in that order."""
        sizes = self.sizes[picked]
        ends = np.cumsum(sizes)
        steps = np.arange(ends[-1] if len(ends) else 0)
        return Some(self._groups, self._at[np.repeat(self._starts[picked] - ends + sizes, sizes) + steps])

    def sums(self, amounts: Ints) -> Ints:
        """Amounts of the tasks in their order, summed for each group. `[taken]`."""
        found: Ints = np.add.reduceat(amounts, self._starts) if len(self.taken) else amounts
        return found

    def easiest(self, amounts: Ints, wanted: Ints) -> Floats:
        """How hard it is at least to have in each group the wanted amount: the highest level, and the cost of
        the easiest with the last of them in part, though no less than any of that level costs; infinite where
        all of them together do not suffice. `[taken]`, as `wanted` is."""
        if not len(self.taken):
            return np.zeros(0)
        groups, starts, costs = self._groups, self._starts, self._groups.cost[self._at]
        # Everything before the group, so that a difference tells of the group alone.
        given, cost = np.cumsum(amounts), np.cumsum(costs)
        before = given[starts] - amounts[starts]
        last = np.searchsorted(given, before + wanted)
        ends = np.append(starts[1:], len(given))
        at = np.minimum(last, len(given) - 1)
        too_much = (given[at] - before - wanted) / np.maximum(1, amounts[at])
        least = cost[at] - cost[starts] + costs[starts] - costs[at] * too_much
        hardest = self._at[at]
        least = np.maximum(least, groups.floor[hardest])
        found: Floats = np.where(last < ends, groups.level[hardest] * LEVEL + least, np.inf)
        return found


class Site:
    """Some rows of a fleet, and the tasks on them by whole jobs.

    `tasks` (their places in the register), `who` (the number of a holding), `cards`, `cores`, `cpu`, `memory`
    are `[tasks]`, `card` is the column of a task's card, negative where it has none or several, and
    `several_cards`, `several_cores` are what such tasks have. `width` is how many cards a row may have.
    """

    def __init__(self, ground: Ground, rows: Ints) -> None:
        self.rows = rows
        self.width = ground.fleet.present.shape[1]
        places = ground.places
        standing = ground.standing[np.isin(places["row"][ground.standing], rows)]
        of_row = np.searchsorted(rows, places["row"][standing])
        found = Groups.ranked(standing, of_row, *ground.hard(standing), places["cores"][standing])
        self.tasks = tasks = found.order
        self.by_row = Groups(np.arange(len(tasks)), found.group, found.level, found.cost)
        self.who: Ints = places["owner"][tasks]
        self.cards: Ints = places["cards"][tasks]
        self.cores: Ints = places["cores"][tasks]
        self.cpu: Ints = places["cpu"][tasks]
        self.memory: Ints = places["memory"][tasks]
        self.card: Ints = places["card"][tasks]
        several = self.card < 0
        self.several_cards: Ints = self.cards * several
        self.several_cores: Ints = self.cores * several
        sharing = np.flatnonzero(~several)
        card = (found.group * self.width + self.card)[sharing]
        # Those of one card are of one row, and so in their order already.
        ranks = together(card)
        sharing = sharing[ranks]
        self.by_card = Groups(sharing, card[ranks], found.level[sharing], found.cost[sharing])

    def crowd(self, asked: Bools) -> Crowd:
        """Those of the tasks that are marked."""
        return Crowd(self, self.by_row.some(asked))


class Crowd:
    """Some of the tasks of a site, and the rows on which they stand, ascending unless they were picked.

    What is told by row is `[rows]`, by card `[rows, cards]`.
    """

    def __init__(self, site: Site, by_row: Some) -> None:
        self._site, self._by_row = site, by_row
        self.rows: Ints = site.rows[by_row.taken]

    def on(self, picked: Ints) -> Crowd:
        """Those alone that stand on some of the rows, told by their places in `rows`, in that order."""
        return Crowd(self._site, self._by_row.only(picked))

    def sums(self, amounts: Ints) -> Ints:
        """Amounts of a site's tasks, summed for each of the rows."""
        return self._by_row.sums(amounts[self._by_row.order])

    def of_cards(self) -> Ints:
        """Core units that the tasks have of single cards."""
        site, tasks = self._site, self._by_row.order
        row, card = np.repeat(np.arange(len(self.rows)), self._by_row.sizes), site.card[tasks]
        found = np.zeros((len(self.rows), site.width), np.int64)
        sharing = card >= 0
        np.add.at(found, (row[sharing], card[sharing]), site.cores[tasks[sharing]])
        return found

    def easiest_cards(self, wanted: Ints) -> Floats:
        """How hard it is to have so many cards of each row."""
        return self._by_row.easiest(self._site.cards[self._by_row.order], wanted)

    @cached_property
    def _by_card(self) -> Some:
        by_card, asked = self._site.by_card, np.zeros(len(self._site.who), np.bool_)
        asked[self._by_row.order] = True
        return by_card.some(asked[by_card.order])

    @property
    def cards(self) -> tuple[Ints, Ints]:
        """The cards of which the tasks have parts, by row of the fleet and column."""
        row, column = np.divmod(self._by_card.taken, self._site.width)
        return self._site.rows[row], column

    def easiest_part(self, wanted: Ints) -> Floats:
        """How hard it is to have of one card of each row as many core units more as are wanted of `cards`."""
        of_row = self._by_card.taken // self._site.width
        hard = self._by_card.easiest(self._site.cores[self._by_card.order], wanted)
        starts = np.flatnonzero(_changes(of_row))
        found = np.full(len(self.rows), np.inf)
        if len(starts):
            at = np.searchsorted(self._by_row.taken, of_row[starts])
            found[at] = np.minimum.reduceat(hard, starts)
        return found


class Ground:
    """Whole jobs by where their tasks stand.

    `standing` are the places of the register where a candidate's task stands, by row.
    """

    def __init__(self, roster: Roster, fleet: Fleet) -> None:
        self.fleet = fleet
        self._roster = roster
        self._register = roster.register
        self.places, jobs = self._register.places, self._register.jobs
        owner, row = self.places["owner"], self.places["row"]
        standing = np.flatnonzero((owner >= 0) & (row >= 0))
        standing = standing[roster.eligible[owner[standing]]]
        self.standing: Ints = standing[together(row[standing])]
        priorities, level = np.unique(jobs["priority"], return_inverse=True)
        self._levels = {priority: number for number, priority in enumerate(priorities.tolist(), 1)}
        self._level: Ints = level + 1
        # Of a job that stays, a task that goes waits for nothing.
        self._work: Floats = np.floor(roster.work / np.maximum(1, jobs["tasks"]))
        # Who leaves a row leaves it as a whole, whatever else he has elsewhere.
        self._cost: Floats = np.zeros(self.places.size)
        holding = owner[self.standing] * len(fleet.present) + row[self.standing]
        _, which, beside = np.unique(holding, return_inverse=True, return_counts=True)
        self._cost[self.standing] = np.floor(roster.cost[owner[self.standing]] / beside[which])
        self._row: Ints = row[self.standing]
        self._who: Ints = owner[self.standing]
        self._on_row: dict[int, list[tuple[int, Candidate]]] = {}
        self._sites: dict[bytes, Site] = {}
        self._holding: dict[frozenset[FlavorResource], Bools] = {}
        self._legal: dict[_Asked, dict[tuple[str, float, float], Ints]] = {}
        self._of_queue: dict[str, Ints] = {}
        self._guarding: dict[str, bool] = {}
        self._unguarded: Bools = roster.guarded_borrowing <= roster.now
        self._told: dict[str, int] = {}
        self._there: Bools = np.ones(self.places.size, np.bool_)

    def hard(self, tasks: Ints) -> tuple[Ints, Floats]:
        """How hard it is to take each of some tasks: its level, and its part of what it costs to have all of
        its job leave the row, in whole numbers, so that sums do not depend on their order."""
        owner, whole = self.places["owner"][tasks], self.places["spared"][tasks] == 0
        levels: Ints = np.where(whole, self._level[owner] + len(self._levels), self._level[owner])
        costs: Floats = np.where(whole, self._cost[tasks], self._work[owner])
        return np.where(self._register.jobs["leaving"][owner] > 0, 0, levels), costs

    def hardness(self, candidates: Sequence[Candidate]) -> float:
        """How hard it is to take candidates together: the highest level, then what they cost.

        Nobody is harder to take than who leaves anyway, then what can be spared, then whole jobs; each of
        these by priority.
        """
        return max(map(self._level_of, candidates), default=0) * LEVEL + sum(each.cost for each in candidates)

    def _level_of(self, candidate: Candidate) -> int:
        if candidate.leaving:
            return 0
        level = self._levels[candidate.job.priority]
        return level + len(self._levels) if candidate.whole else level

    def told(self, candidates: Iterable[Candidate]) -> None:
        """These were told to leave: what they hold counts no more once it is gone."""
        for candidate in candidates:
            tasks = {task.id for task in candidate.tasks}
            for holding in self._register.of(candidate.job.id):
                standing = zip(holding.tasks, holding.places, strict=True)
                self._told.update((task.id, place) for task, place in standing if task.id in tasks)

    def there(self, tasks: Ints) -> Bools:
        """Which of some tasks still stand, as far as anybody was told to leave."""
        held = self._roster.snapshot.allocations
        gone = [task for task in self._told if task not in held]
        self._there[[self._told.pop(task) for task in gone]] = False
        found: Bools = self._there[tasks]
        return found

    def site(self, rows: Bools) -> Site:
        """The marked rows."""
        key = rows.tobytes()
        known = self._sites.get(key)
        if known is None:
            known = self._sites[key] = Site(self, np.flatnonzero(rows))
        return known

    def on_row(self, row: int) -> list[tuple[int, Candidate]]:
        """The candidates of which a task stands on a row, cheapest first, each with its holding's number."""
        known = self._on_row.get(row)
        if known is None:
            first, end = np.searchsorted(self._row, (row, row + 1))
            numbers = dict.fromkeys(self._who[first:end].tolist())
            found = [(number, candidate) for number in numbers for candidate in self._candidates(number, row)]
            known = self._on_row[row] = sorted(found, key=lambda each: by_cost(each[1]))
        return known

    def _candidates(self, number: int, row: int) -> Iterator[Candidate]:
        """A holding as a whole, and its tasks on a row that can be spared, each as a candidate."""
        yield self._roster.whole(number)
        for spared in self._roster.spared(number):
            if self.fleet.row.get(spared.tasks[0].node) == row:
                yield spared

    def legal(self, contest: Contest, queues: Iterable[str]) -> Bools:
        """Holdings of these queues that may be asked: their queue's policy and their priority do not protect
        them, and they hold something that is contested. `[holdings]`."""
        names, policies = list(queues), contest.policies
        # Most searches of a cycle differ in their queues alone.
        key = (contest.preemptor.contested, contest.guards_borrowed_use)
        known = self._legal.setdefault(key, {})
        asked: list[Ints] = [np.zeros(0, np.int64)]
        for name, bearable in zip(names, contest.bearables(names), strict=True):
            bounds = (name, float(highest_priority(contest.preemptor.job, policies[name])), bearable)
            if bounds not in known:
                known[bounds] = self._within(*bounds, *key)
            asked.append(known[bounds])
        found = np.zeros(self._register.jobs.size, np.bool_)
        found[np.concatenate(asked)] = True
        return found

    def _within(
        self,
        queue: str,
        priority: float,
        bearable: float,
        contested: frozenset[FlavorResource],
        guards: bool,
    ) -> Ints:
        """The candidates of a queue up to a priority and what their cards may lose at most."""
        asked = self._of(queue)
        within = (self._register.jobs["priority"][asked] <= priority) & (self._roster.worn[asked] <= bearable)
        within &= self._holders(contested)[asked]
        if guards:
            within &= self._unguarded[asked]
        return asked[within]

    def of_queues(self, queues: Iterable[str]) -> Bools:
        """The holdings of these queues. `[holdings]`."""
        numbers = self._register.queues
        those = np.zeros(len(numbers), np.bool_)
        those[[numbers[queue] for queue in queues if queue in numbers]] = True
        found: Bools = those[self._register.jobs["queue"]]
        return found

    def guarded(self, contest: Contest) -> bool:
        """Whether guaranteed run times protect anybody whose queue may be asked."""
        return any(map(self._guards, contest.policies))

    def _guards(self, queue: str) -> bool:
        known = self._guarding.get(queue)
        if known is None:
            known = self._guarding[queue] = not self._unguarded[self._of(queue)].all()
        return known

    def _of(self, queue: str) -> Ints:
        """The candidates of a queue."""
        known = self._of_queue.get(queue)
        if known is None:
            known = self._of_queue[queue] = self._roster.numbers(queue)
        return known

    def _holders(self, contested: frozenset[FlavorResource]) -> Bools:
        """Holdings of some of these quotas."""
        known = self._holding.get(contested)
        if known is None:
            known = np.zeros(self._register.jobs.size, np.bool_)
            for key in contested:
                known |= self._register.charges(key) > 0
            self._holding[contested] = known
        return known


def _changes(groups: Ints) -> Bools:
    """Where another group begins, and at the first of all."""
    found = np.ones(len(groups), np.bool_)
    found[1:] = groups[1:] != groups[:-1]
    return found


def _numbered(values: Floats) -> Ints:
    """Each value's number among those that there are, the lowest first."""
    order = np.argsort(values)
    ascending = values[order]
    found = np.zeros(len(values), np.int64)
    found[order[1:]] = np.cumsum(ascending[1:] > ascending[:-1])
    return found


def by_cost(candidate: Candidate) -> tuple[bool, bool, int, float, str]:
    """The order of candidates on one row."""
    return (not candidate.leaving, candidate.whole, candidate.job.priority, candidate.cost, candidate.id)
