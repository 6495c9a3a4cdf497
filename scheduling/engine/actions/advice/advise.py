"""What would help one waiting job: each recommendation is tried, and only what works is kept.

One that lets the job start says so (`starts`). One after which the job would wait for something else names
that (`also`), and those that work together only name each other (`with`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from foundation.core.quantities import Resource
from scheduling.engine.actions.advice.changes import apply_help, find_role
from scheduling.engine.actions.advice.trial import FeasibilityTrial, StartTrial, is_improvement
from scheduling.engine.model import FlavorResource, Help, HelpCode, Job, Outcome, Queue, Reason
from scheduling.engine.placement.explain import CHOSEN_BY_USER
from scheduling.engine.placement.index.question import members
from scheduling.engine.session.equivalence import HELP_TO_TRY

_PLACES = (HelpCode.LOOSEN_PLACEMENT, HelpCode.ASK_OTHER_MODEL, HelpCode.ASK_OTHER_PROFILE)
_SIZES = (HelpCode.ASK_FEWER_CARDS, HelpCode.ASK_FEWER_TASKS)
_LACKS = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)

_After = Callable[[Job], Reason | None]


def advise_outcome(trial: StartTrial, queue: Queue, job: Job, outcome: Outcome) -> Outcome:
    """The outcome of a job that waits, with the recommendations that work for it."""
    return _Advice(trial, queue, job, outcome, lambda other: trial.reason_to_wait(queue, other)).outcome()


def advise_never_fitting(trial: FeasibilityTrial, queue: Queue, job: Job, outcome: Outcome) -> Outcome:
    """The same of a job that never fits, where it is asked only what would let it start some day."""
    return _Advice(trial, queue, job, outcome, lambda other: trial.reason_when_empty(queue, other)).outcome()


class _Advice:
    """The recommendations of one outcome; `after` says what a changed job would wait for."""

    def __init__(
        self, trial: FeasibilityTrial, queue: Queue, job: Job, outcome: Outcome, after: _After
    ) -> None:
        assert outcome.reason is not None  # noqa: S101 - a job that starts needs no help
        self._snapshot, self._queue, self._job, self._told = trial.snapshot, queue, job, outcome
        self._reason: Reason = outcome.reason
        self._after, self._trial = after, trial
        self._role = find_role(job, str(outcome.numbers.get("role", "")))

    def outcome(self) -> Outcome:
        """The outcome with what works."""
        ways = list(self._tried())
        if not ways and self._reason is Reason.NEVER_FITS:
            ways = self._combined()
        ways += self._raised()
        ways.sort(key=lambda way: "also" in way.numbers or "with" in way.numbers)
        rest = tuple(way for way in self._told.help if way.code not in HELP_TO_TRY)
        return replace(self._told, help=(*ways, *rest))

    # One at a time

    def _tried(self) -> Iterator[Help]:
        for way in self._told.help:
            if way.code not in HELP_TO_TRY or way.code in (HelpCode.RAISE_QUOTA, *_SIZES):
                continue
            if way.code is HelpCode.ASK_LESS:
                found = self._largest(self._job, self._amounts(way))
                if found is not None:
                    yield found
                continue
            named = self._named(way)
            changed = apply_help(self._job, named)
            after = self._reason if changed is None else self._after(changed)
            if changed is not None and is_improvement(self._reason, after):
                yield self._then(named, after)
        for sizes in (self._cards(), self._tasks()):
            found = self._largest(self._job, sizes)
            if found is not None:
                yield found

    def _largest(self, job: Job, ways: list[Help]) -> Help | None:
        """Of the same recommendation with smaller and smaller amounts the first with which the job starts; or
        else the first that helps at all. What an amount does, all smaller ones do as well."""
        known: dict[int, Reason | None] = {}

        def after(place: int) -> Reason | None:
            if place not in known:
                changed = apply_help(job, ways[place])
                known[place] = self._reason if changed is None else self._after(changed)
            return known[place]

        goods: list[Callable[[Reason | None], bool]] = [lambda reason: reason is None]
        # While it is only for now that a job lacks something, to ask for less has to be of use now.
        if self._reason not in _LACKS:
            goods.append(lambda reason: is_improvement(self._reason, reason))
        for good in goods:
            place = _first(len(ways), lambda place, good=good: good(after(place)))  # type: ignore[misc]
            if place is not None:
                return self._then(ways[place], after(place))
        return None

    # Which amounts there are to try

    def _cards(self) -> list[Help]:
        gpu = None if self._role is None else self._role.request.gpu
        if self._role is None or gpu is None:
            return []
        name = {"role": self._role.name}
        return [Help(HelpCode.ASK_FEWER_CARDS, {**name, "cards": n}) for n in range(gpu.cards - 1, 0, -1)]

    def _tasks(self) -> list[Help]:
        role = self._role
        if role is None or self._job.sub_gangs:
            return []
        return [
            Help(HelpCode.ASK_FEWER_TASKS, {"role": role.name, "tasks": n})
            for n in range(role.least - 1, 0, -1)
        ]

    def _amounts(self, way: Help) -> list[Help]:
        """Per task: what nodes have, from the most downwards, or the job's share of a limit of its queue."""
        resource, limit = str(way.numbers["resource"]), int(way.numbers["limit"])
        if self._role is None:
            return []
        facts = {**way.numbers, "role": self._role.name}
        if self._reason is Reason.NEVER_FITS:
            amounts = self._on_nodes(str(way.numbers["flavor"]), resource)
            return [Help(way.code, {**facts, "limit": amount}) for amount in amounts if 0 < amount <= limit]
        each = limit // max(1, self._role.least)
        # Of cards fewer are asked for by their number.
        alone = len(self._job.roles) == 1 and resource in (Resource.CPU, Resource.MEMORY)
        return [Help(way.code, {**facts, "each": each})] if alone and each else []

    def _on_nodes(self, name: str, resource: str) -> list[int]:
        fleet, flavor = self._snapshot.fleet, self._snapshot.flavors.get(name)
        if flavor is None:
            return []
        inside = members(fleet, flavor)
        if resource == Resource.CPU:
            amounts = fleet.cpu[inside]
        elif resource == Resource.MEMORY:
            amounts = fleet.memory[inside]
        elif resource == Resource.GPU_MEMORY:
            amounts = fleet.card_memory[inside][fleet.present[inside]]
        else:
            known = fleet.extended.get(resource)
            amounts = np.zeros(0, np.int64) if known is None else known[inside]
        return [int(amount) for amount in sorted(np.unique(amounts).tolist(), reverse=True)]

    # Several together

    def _combined(self) -> list[Help]:
        """What the user could give up of where the job runs, as far as it is needed, and if need be less of
        something else besides."""
        ways = [*_rules_of(self._job), *map(self._named, self._told.help)]
        ways = [way for way in ways if way.code in _PLACES and apply_help(self._job, way) is not None]
        best = self._needed(ways)
        if best is not None:
            return _together(best)
        job = self._all(ways)
        less = (way for way in self._told.help if way.code is HelpCode.ASK_LESS)
        for sizes in (self._cards(), self._tasks(), *map(self._amounts, less)):
            found = self._largest(job, sizes) if ways else None
            changed = None if found is None else apply_help(self._job, found)
            if found is not None and changed is not None:
                kept = self._without_needless(changed, ways)
                # What is left of them may do less than all of them.
                after = self._after(self._all(kept, changed))
                facts = {key: n for key, n in found.numbers.items() if key not in ("also", "starts")}
                every = (*kept, Help(found.code, facts))
                return _together(self._then(way, after) for way in every)
        return []

    def _needed(self, ways: list[Help]) -> list[Help] | None:
        """Those without which the rest does not help; None where not even all of them do."""
        if not ways or not is_improvement(self._reason, self._after(self._all(ways))):
            return None
        kept = self._without_needless(self._job, ways)
        after = self._after(self._all(kept))
        return [self._then(way, after) for way in kept]

    def _without_needless(self, job: Job, ways: list[Help]) -> list[Help]:
        for way in ways:
            rest = [other for other in ways if other is not way]
            if is_improvement(self._reason, self._after(self._all(rest, job))):
                ways = rest
        return ways

    def _all(self, ways: Iterable[Help], job: Job | None = None) -> Job:
        """The job after all of these."""
        changed = self._job if job is None else job
        for way in ways:
            changed = apply_help(changed, way) or changed
        return changed

    def _raised(self) -> list[Help]:
        """More quota, of all that is short at once."""
        ways = [way for way in self._told.help if way.code is HelpCode.RAISE_QUOTA]
        if not ways or not isinstance(self._trial, StartTrial):
            return []
        raised = {
            FlavorResource(str(way.numbers["flavor"]), str(way.numbers["resource"])): int(
                way.numbers["short"]
            )
            for way in ways
        }
        after = self._trial.reason_to_wait(self._queue, self._job, raised)
        return [self._then(way, after) for way in ways] if is_improvement(self._reason, after) else []

    def _then(self, way: Help, after: Reason | None) -> Help:
        """A recommendation with what becomes of the job: it starts, or waits for something else."""
        if after is not None:
            return Help(way.code, {**way.numbers, "also": after.value})
        # Of what lets it start some day nobody has asked whether that would be at once.
        return Help(way.code, {**way.numbers, "starts": 1}) if isinstance(self._trial, StartTrial) else way

    def _named(self, way: Help) -> Help:
        """A recommendation with the role that it is about."""
        about = way.code in (HelpCode.ASK_OTHER_MODEL, HelpCode.ASK_OTHER_PROFILE)
        if not about or self._role is None:
            return way
        return Help(way.code, {**way.numbers, "role": self._role.name})


def _rules_of(job: Job) -> Iterator[Help]:
    """All rules of placement of a job, to be given up one by one."""
    for veto in CHOSEN_BY_USER:
        way = Help(HelpCode.LOOSEN_PLACEMENT, {"veto": veto})
        if apply_help(job, way) != job:
            yield way


def _together(ways: Iterable[Help]) -> list[Help]:
    all_of_them = list(ways)
    codes = [way.code.value for way in all_of_them]
    return [
        Help(way.code, {**way.numbers, "with": ",".join(codes[:place] + codes[place + 1 :])})
        for place, way in enumerate(all_of_them)
    ]


def _first(count: int, good: Callable[[int], bool]) -> int | None:
    """The first of so many places that is good, where all behind a good one are good as well."""
    if not count or not good(count - 1):
        return None
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle + 1
    return low
