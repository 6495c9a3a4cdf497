"""Tries each recommendation for a previewed or pending job by a cycle with all pending jobs.

The engine finds recommendations without regard to other pending jobs: quota and nodes suffice then, but a job
ahead in the order may take the capacity first or have it reserved. The engine also finds them without
preemption, so that a job which it says would wait may start after all, once other jobs were preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from foundation.core.reasons import find_reason
from scheduling import engine
from scheduling.commit.reclaimed_quota import RECLAIMING
from scheduling.engine import model as em
from scheduling.snapshots import CellSnapshot

_STARTS: Final = "starts"
_WAITS: Final = "also"
_PREEMPTS, _BORROWERS, _MOVES = "preempts", "preempts_borrowers", "moves"
_SIZES: Final = {em.HelpCode.ASK_FEWER_CARDS: "cards", em.HelpCode.ASK_FEWER_TASKS: "tasks"}
_AFTERWARDS: Final = (_STARTS, _WAITS, _PREEMPTS, _BORROWERS, _MOVES, "tried")

_After = Mapping[str, int | str]
"""The outcome of the job as numbers of a recommendation: `starts`; `preempts`, the number of jobs preempted
for it, of which all borrow with `preempts_borrowers`, and `moves`, that of the moved ones; or `also`, the
reason for which it waits."""


@dataclass(frozen=True, slots=True)
class HelpTrial:
    """Tries recommendations for `job` with cycles of `config`, each on a new snapshot of the cell.

    Changes are made to `copy`, which is submitted beside the pending job; a draft is its own copy.
    """

    build_snapshot: Callable[[], CellSnapshot]
    config: engine.EngineConfig
    now: em.Instant
    job: em.Job
    copy: em.Job

    def try_all(self, helps: Sequence[em.Help]) -> list[em.Help]:
        """Return the recommendations with the job's outcome in a cycle with all pending jobs.

        Those after which the job starts come first, then those after which it starts by moves or preemption.
        Recommendations that were not tried, because the time of the preview was over, do not say that the job
        starts.
        """
        found: list[em.Help] = []
        known: dict[tuple[int, ...], _After] = {}
        for place, each in enumerate(helps):
            try:
                found.append(self._try(each, helps, known))
            except engine.DeadlineExceededError:
                found += [_without_numbers(rest, _STARTS) for rest in helps[place:]]
                break
        return sorted(found, key=_rank)

    def _try(
        self, help_item: em.Help, helps: Sequence[em.Help], known: dict[tuple[int, ...], _After]
    ) -> em.Help:
        """Try one recommendation with those that it depends on, which `known` has once they were tried."""
        starts, waits = help_item.numbers.get(_STARTS), find_reason(str(help_item.numbers.get(_WAITS)))
        if not starts and (waits is None or not waits.row.may_end_by_preemption):
            return help_item
        if starts and help_item.code in _SIZES:
            return self._largest_that_starts(help_item, _SIZES[help_item.code])
        together = self.select_together(help_item, helps)
        key = tuple(map(id, together))
        if key not in known:
            known[key] = self._after(together)
        return _with_result(help_item, known[key])

    def _largest_that_starts(self, help_item: em.Help, name: str) -> em.Help:
        """Return the largest size with which the job starts; the recommended size if it starts with none."""
        best, result = help_item, self._after([help_item])
        low, high = 1, int(help_item.numbers[name]) - 1
        if _STARTS in result:
            return _with_result(help_item, result)
        while low <= high:
            size = (low + high + 1) // 2
            smaller = replace(help_item, numbers={**help_item.numbers, name: size})
            after = self._after([smaller])
            if _STARTS in after:
                best, result, low = smaller, after, size + 1
            else:
                high = size - 1
        return _with_result(best, result)

    def _after(self, helps: Sequence[em.Help]) -> _After:
        """Return the job's outcome in a cycle after these recommendations."""
        taken, job = self.apply_helps(helps)
        result = engine.run_cycle(taken.snapshot, self.config, self.now)
        reason = next(item.reason for item in result.outcomes if item.job == job.id)
        if reason is None:
            return {_STARTS: 1}
        released = list_releases(result, job.id)
        if reason is not em.Reason.WAITING_FOR_PREEMPTED or not released:
            return {_WAITS: reason.value}
        moves = len({each.job for each in released if is_move(each)})
        rules = {each.job: each.rule for each in released if not is_move(each)}
        borrow = not moves and all(rule in RECLAIMING for rule in rules.values())
        counts = {_PREEMPTS: len(rules), _BORROWERS: borrow * len(rules), _MOVES: moves}
        return {name: count for name, count in counts.items() if count}

    def apply_helps(self, helps: Sequence[em.Help]) -> tuple[CellSnapshot, em.Job]:
        """Return a new snapshot of the cell after these recommendations, and the job in it."""
        taken, job = self.build_snapshot(), self.apply_all(helps)
        for each in helps:
            if each.code is em.HelpCode.RAISE_QUOTA:
                _raise_quota(taken.snapshot, each.numbers)
        taken.snapshot.apply_delta(engine.Delta((engine.JobPut(job),)))
        return taken, job

    @staticmethod
    def select_together(help_item: em.Help, helps: Sequence[em.Help]) -> list[em.Help]:
        """Return a recommendation with those that it depends on.

        Recommendations of more quota, one for each resource that is short, belong together. Other
        recommendations of the same code, such as fewer tasks of another role, are independent.
        """
        codes = str(help_item.numbers.get("with", "")).split(",")
        if help_item.code is em.HelpCode.RAISE_QUOTA:
            codes.append(help_item.code)
        return [each for each in helps if each is help_item or each.code in codes]

    def apply_all(self, helps: Sequence[em.Help]) -> em.Job:
        """Return the copy with these changes, or the job itself if none of them changes it."""
        changed = self.copy
        for each in helps:
            changed = engine.apply_help(changed, each) or changed
        return self.job if changed is self.copy else changed


def list_releases(result: em.CycleResult, job: str) -> list[em.Decision]:
    """Return the decisions of a cycle that take resources from other jobs for a job."""
    return [each for each in result.decisions if each.beneficiary == job and each.kind in em.RELEASING_KINDS]


def is_move(decision: em.Decision) -> bool:
    """Return whether a decision moves its job to other nodes instead of preempting it."""
    return decision.kind is em.DecisionKind.MIGRATE


def _raise_quota(snapshot: engine.Snapshot, numbers: Mapping[str, int | str]) -> None:
    queue = snapshot.queues[str(numbers["queue"])]
    node = next(node for node in snapshot.export_quota_nodes() if node.id == queue.quota_node)
    key = (numbers["flavor"], numbers["resource"])
    raised = [
        replace(quota, own_nominal=quota.own_nominal + int(numbers["short"]))
        if (quota.flavor, quota.resource) == key and quota.own_nominal is not None
        else quota
        for quota in node.quotas
    ]
    if all((quota.flavor, quota.resource) != key for quota in node.quotas):
        flavor, resource = str(key[0]), str(key[1])
        raised.append(em.Quota(flavor=flavor, resource=resource, own_nominal=int(numbers["short"])))
    snapshot.apply_delta(engine.Delta((engine.QuotaPut(replace(node, quotas=tuple(raised))),)))


def _rank(help_item: em.Help) -> int:
    """Return 0 for a start at once, 1 after moves, 2 after preemptions, and 3 for none."""
    ranks = {_STARTS: 0, _PREEMPTS: 2, _MOVES: 1}
    return next((rank for name, rank in ranks.items() if name in help_item.numbers), 3)


def _with_result(help_item: em.Help, after: _After) -> em.Help:
    numbers = _without_numbers(help_item, *_AFTERWARDS).numbers
    return em.Help(help_item.code, {**numbers, **after, "tried": 1})


def _without_numbers(help_item: em.Help, *names: str) -> em.Help:
    return em.Help(help_item.code, {key: n for key, n in help_item.numbers.items() if key not in names})
