"""This module tries the recommendations for one pending job and keeps those that work.

One that lets the job start says so (`starts`). One after which the job would wait for something else names
that reason (`also`), and those that work together only name each other (`with`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np

from foundation.core.quantities import Resource
from scheduling.engine.actions.advice.apply_help import apply_help, find_role
from scheduling.engine.actions.advice.trial import FeasibilityTrial, StartTrial, is_improvement
from scheduling.engine.model import FlavorResource, Help, HelpCode, Job, JobOutcome, Queue, Reason, Role
from scheduling.engine.placement.explain import CHOSEN_BY_USER
from scheduling.engine.placement.index.question import member_rows
from scheduling.engine.session.equivalence import HELP_TO_TRY
from scheduling.engine.state.snapshot import Snapshot

_PLACES = (HelpCode.LOOSEN_PLACEMENT, HelpCode.ASK_OTHER_MODEL, HelpCode.ASK_OTHER_PROFILE)
_SIZES = (HelpCode.ASK_FEWER_CARDS, HelpCode.ASK_FEWER_TASKS)
TEMPORARY = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)

_After = Callable[[Job], Reason | None]


def advise_outcome(trial: StartTrial, queue: Queue, job: Job, outcome: JobOutcome) -> JobOutcome:
    """Return the outcome of a pending job with the recommendations that work for it."""
    return _Advice(trial, queue, job, outcome, lambda other: trial.reason_to_wait(queue, other)).outcome()


def advise_never_fitting(trial: FeasibilityTrial, queue: Queue, job: Job, outcome: JobOutcome) -> JobOutcome:
    """Return the same for a job that never fits, with what would let it start some day."""
    return _Advice(trial, queue, job, outcome, lambda other: trial.reason_when_empty(queue, other)).outcome()


class _Advice:
    """The recommendations of one outcome; `reason_after` returns what a changed job would wait for."""

    def __init__(
        self, trial: FeasibilityTrial, queue: Queue, job: Job, outcome: JobOutcome, reason_after: _After
    ) -> None:
        assert outcome.reason is not None  # noqa: S101 - a job that starts needs no help
        self._snapshot, self._queue, self._job, self._outcome = trial.snapshot, queue, job, outcome
        self._reason: Reason = outcome.reason
        self._after, self._trial = reason_after, trial
        self._role = find_role(job, str(outcome.numbers.get("role", "")))

    def outcome(self) -> JobOutcome:
        """Return the outcome with the recommendations that work."""
        help_items = list(self._tried_alone())
        if not help_items and self._reason is Reason.NEVER_FITS:
            help_items = self._combined()
        help_items += self._raised()
        help_items.sort(key=lambda help_item: "also" in help_item.numbers or "with" in help_item.numbers)
        rest = tuple(help_item for help_item in self._outcome.help if help_item.code not in HELP_TO_TRY)
        return self._outcome._replace(help=(*help_items, *rest))

    # Recommendations tried alone

    def _tried_alone(self) -> Iterator[Help]:
        for help_item in self._outcome.help:
            if help_item.code not in HELP_TO_TRY or help_item.code in (HelpCode.RAISE_QUOTA, *_SIZES):
                continue
            if help_item.code is HelpCode.ASK_LESS:
                for amounts in self._amounts(help_item):
                    found = self._largest(self._job, amounts)
                    if found is not None:
                        yield found
                continue
            named = self._named(help_item)
            changed = apply_help(self._job, named)
            reason_after = self._reason if changed is None else self._after(changed)
            if changed is not None and is_improvement(self._reason, reason_after):
                yield self._then(named, reason_after)
        for help_item in suggest_more_models(self._snapshot, self._queue, self._job, self._outcome):
            changed = apply_help(self._job, help_item)
            if changed is not None and self._after(changed) is None:
                yield self._then(help_item, None)
        for sizes in self._sizes():
            found = self._largest(self._job, sizes)
            if found is not None:
                yield found

    def _largest(self, job: Job, help_items: list[Help]) -> Help | None:
        """Return the first of ever smaller amounts with which the job starts, or else the first that helps at
        all.

        What one amount does, all smaller ones do as well.
        """
        known: dict[int, Reason | None] = {}

        def reason_after(place: int) -> Reason | None:
            if place not in known:
                changed = apply_help(job, help_items[place])
                known[place] = self._reason if changed is None else self._after(changed)
            return known[place]

        goods: list[Callable[[Reason | None], bool]] = [lambda reason: reason is None]
        # A job with a temporary shortage must profit now from asking for less.
        if self._reason not in TEMPORARY:
            goods.append(lambda reason: is_improvement(self._reason, reason))
        for good in goods:
            place = _first(len(help_items), lambda place, good=good: good(reason_after(place)))  # type: ignore[misc]
            if place is not None:
                return self._then(help_items[place], reason_after(place))
        return None

    # Amounts to try

    def _sizes(self) -> Iterator[list[Help]]:
        """Yield the smaller sizes of the role that the outcome names, or of each role if it names none."""
        for role in self._job.roles if self._role is None else (self._role,):
            gpu, name = role.request.gpu, self._name(role)
            if gpu is not None:
                yield [
                    Help(HelpCode.ASK_FEWER_CARDS, {**name, "cards": n}) for n in range(gpu.cards - 1, 0, -1)
                ]
            if not self._job.sub_gangs:
                yield [
                    Help(HelpCode.ASK_FEWER_TASKS, {**name, "tasks": n})
                    for n in range(role.min_count - 1, 0, -1)
                ]

    def _name(self, role: Role) -> dict[str, str]:
        """Return the role as numbers; `of_role` where the job has others, for people to read."""
        return {"role": role.name} | ({"of_role": role.name} if len(self._job.roles) > 1 else {})

    def _amounts(self, help_item: Help) -> Iterator[list[Help]]:
        """Yield the amounts per task to try: what nodes have, from the most downwards, or for each role what
        the others leave of a queue limit."""
        resource, limit = str(help_item.numbers["resource"]), int(help_item.numbers["limit"])
        if self._reason is Reason.NEVER_FITS:
            if self._role is None:
                return
            facts = {**help_item.numbers, **self._name(self._role)}
            amounts = self._on_nodes(str(help_item.numbers["flavor"]), resource)
            yield [
                Help(help_item.code, {**facts, "limit": amount}) for amount in amounts if 0 < amount <= limit
            ]
            return
        # A smaller number of cards is a recommendation of its own.
        if resource not in (Resource.CPU, Resource.MEMORY):
            return
        sizes = {role.name: role.min_count * _amount(role, resource) for role in self._job.roles}
        for role in self._job.roles:
            left = limit - sum(sizes.values()) + sizes[role.name]
            each = left // max(1, role.min_count)
            if each > 0:
                facts = {**help_item.numbers, **self._name(role), "limit": left, "each": each}
                yield [Help(help_item.code, facts)]

    def _on_nodes(self, name: str, resource: str) -> list[int]:
        fleet, flavor = self._snapshot.fleet, self._snapshot.flavors.get(name)
        if flavor is None:
            return []
        inside = member_rows(fleet, flavor)
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

    # Recommendations tried together

    def _combined(self) -> list[Help]:
        """Return the placement rules that the user could drop together, without needless ones, and if need be
        a smaller amount besides."""
        help_items = [*_rules_of(self._job), *map(self._named, self._outcome.help)]
        help_items = [
            help_item
            for help_item in help_items
            if help_item.code in _PLACES and apply_help(self._job, help_item) is not None
        ]
        best = self._needed(help_items)
        if best is not None:
            return _together(best)
        job = self._all(help_items)
        less = (help_item for help_item in self._outcome.help if help_item.code is HelpCode.ASK_LESS)
        for sizes in (*self._sizes(), *chain.from_iterable(map(self._amounts, less))):
            found = self._largest(job, sizes) if help_items else None
            changed = None if found is None else apply_help(self._job, found)
            if found is not None and changed is not None:
                remaining = self._without_needless(changed, help_items)
                # The remaining ones may have a smaller effect than all of them.
                reason_after = self._after(self._all(remaining, changed))
                facts = {key: n for key, n in found.numbers.items() if key not in ("also", "starts")}
                every = (*remaining, Help(found.code, facts))
                return _together(self._then(help_item, reason_after) for help_item in every)
        return []

    def _needed(self, help_items: list[Help]) -> list[Help] | None:
        """Return the recommendations without which the rest does not help; None if all do not help."""
        if not help_items or not is_improvement(self._reason, self._after(self._all(help_items))):
            return None
        remaining = self._without_needless(self._job, help_items)
        reason_after = self._after(self._all(remaining))
        return [self._then(help_item, reason_after) for help_item in remaining]

    def _without_needless(self, job: Job, help_items: list[Help]) -> list[Help]:
        for help_item in help_items:
            rest = [other for other in help_items if other is not help_item]
            if is_improvement(self._reason, self._after(self._all(rest, job))):
                help_items = rest
        return help_items

    def _all(self, help_items: Iterable[Help], job: Job | None = None) -> Job:
        """Return the job after all of these recommendations."""
        changed = self._job if job is None else job
        for help_item in help_items:
            changed = apply_help(changed, help_item) or changed
        return changed

    def _raised(self) -> list[Help]:
        """Recommend more quota for all resources that are short at once."""
        help_items = [help_item for help_item in self._outcome.help if help_item.code is HelpCode.RAISE_QUOTA]
        if not help_items or not isinstance(self._trial, StartTrial):
            return []
        raised = {
            FlavorResource(str(help_item.numbers["flavor"]), str(help_item.numbers["resource"])): int(
                help_item.numbers["short"]
            )
            for help_item in help_items
        }
        reason_after = self._trial.reason_to_wait(self._queue, self._job, raised)
        return (
            [self._then(help_item, reason_after) for help_item in help_items]
            if is_improvement(self._reason, reason_after)
            else []
        )

    def _then(self, help_item: Help, reason_after: Reason | None) -> Help:
        """Return a recommendation with its effect: the job starts, or waits for something else."""
        if reason_after is not None:
            return Help(help_item.code, {**help_item.numbers, "also": reason_after.value})
        # Whether a feasible job would start at once was not tried.
        return (
            Help(help_item.code, {**help_item.numbers, "starts": 1})
            if isinstance(self._trial, StartTrial)
            else help_item
        )

    def _named(self, help_item: Help) -> Help:
        """Return a recommendation with the role that it is about."""
        about = help_item.code in (HelpCode.ASK_OTHER_MODEL, HelpCode.ASK_OTHER_PROFILE)
        if not about or self._role is None:
            return help_item
        return Help(help_item.code, {**help_item.numbers, **self._name(self._role)})


def suggest_more_models(snapshot: Snapshot, queue: Queue, job: Job, outcome: JobOutcome) -> Iterator[Help]:
    """Yield each card model of the queue's flavors that a job with a temporary shortage does not accept.

    `more` is that model, `models` are those that the job accepts and that one.
    """
    role = find_role(job, str(outcome.numbers.get("role", "")))
    gpu = None if role is None else role.request.gpu
    if role is None or gpu is None or not gpu.models or outcome.reason not in TEMPORARY:
        return
    flavors = (snapshot.flavors.get(name) for group in queue.effective_groups for name in group.flavors)
    others = {f.card_model for f in flavors if f is not None and f.card_model not in gpu.models}
    for model in sorted(others - {""}):
        models = ",".join((*gpu.models, model))
        yield Help(HelpCode.ASK_OTHER_MODEL, {"role": role.name, "models": models, "more": model})


def _rules_of(job: Job) -> Iterator[Help]:
    """Yield all placement rules of a job, to be dropped one by one."""
    for veto in CHOSEN_BY_USER:
        help_item = Help(HelpCode.LOOSEN_PLACEMENT, {"veto": veto})
        if apply_help(job, help_item) != job:
            yield help_item


def _amount(role: Role, resource: str) -> int:
    return role.request.cpu if resource == Resource.CPU else role.request.memory


def _together(help_items: Iterable[Help]) -> list[Help]:
    all_of_them = list(help_items)
    codes = [help_item.code.value for help_item in all_of_them]
    return [
        Help(help_item.code, {**help_item.numbers, "with": ",".join(codes[:place] + codes[place + 1 :])})
        for place, help_item in enumerate(all_of_them)
    ]


def _first(count: int, good: Callable[[int], bool]) -> int | None:
    """Return the first of `count` places that is good, where all behind a good one are good as well."""
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
