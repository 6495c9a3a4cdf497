"""The reason of each pending job, stored where it has changed since it was last written."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import F

from clusters.models import Cell
from clusters.selectors.foreign import foreign_cards_by_flavor
from foundation.messaging import leases
from foundation.sql.bulk import update_rows
from foundation.sql.prepared import PreparedQuery, PreparedUpdate
from scheduling.commit.batch import Row, decision_row, write_decisions
from scheduling.engine import model as em
from scheduling.models import DecisionKind, Job, JobState
from scheduling.snapshots import CellSnapshot

# A job's place in line changes with every cycle; it is counted when somebody reads it, not stored.
_VOLATILE: Final = frozenset({"position", "ahead"})

_CYCLE_DONE: Final = PreparedUpdate(
    lambda cell, now: Cell.unscoped.filter(pk=cell),
    lambda cell, now: {"cycle_number": F("cycle_number") + 1, "last_cycle_at": now},
)
_WAITING: Final = PreparedQuery(
    lambda jobs: (
        Job.unscoped.filter(pk__any_of=jobs, state=JobState.QUEUED)
        .select_for_update(of=("self",), no_key=True)
        .order_by("pk")
        .values_list("pk", "version")
    )
)
FOREIGN_WORK: Final = "FOREIGN_WORK"
"""Among what would help: `cards` of `flavor` are held by pods that the platform did not make."""


def _steady(numbers: em.Numbers, taken: CellSnapshot) -> dict[str, Any]:
    return {key: value for key, value in taken.with_names(numbers).items() if key not in _VOLATILE}


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason of a pending job, as it is stored."""

    job: Job
    code: str
    numbers: dict[str, Any]
    helps: list[dict[str, Any]]

    @property
    def is_news(self) -> bool:
        known = (self.job.reason, self.job.reason_numbers, self.job.reason_help)
        return known != (self.code, self.numbers, self.helps) or self.job.reason_at is None

    def update_job(self, at: datetime) -> None:
        """Let the job say what its row now says."""
        job = self.job
        job.reason, job.reason_numbers, job.reason_help = self.code, self.numbers, self.helps
        job.reason_at = at


def commit_reasons(
    cell_id: uuid.UUID,
    epoch: int,
    taken: CellSnapshot,
    outcomes: Iterable[em.JobOutcome],
    now: datetime,
) -> int:
    """Store the reasons of one cycle; returns how many had changed. The jobs of `taken` then say so too.

    Raises: LeaseLost.
    """
    outcomes = list(outcomes)
    foreign = _foreign(cell_id, outcomes)
    changed = [
        (wait, outcome)
        for outcome in outcomes
        # Most are told what they were told before: they must cost next to nothing.
        if (foreign or taken.reported.get(outcome.job) is not outcome)
        and (wait := _news(taken, outcome, foreign)) is not None
    ]
    news = [wait for wait, _ in changed]
    with transaction.atomic():
        cell = leases.lock_current(Cell, cell_id, epoch)
        _publish(news, now)
        write_decisions([decision for wait in news for decision in _decisions(cell, wait)])
        _CYCLE_DONE(cell_id, now)
    for wait, outcome in changed:
        wait.update_job(now)
        if all(item["code"] != FOREIGN_WORK for item in wait.helps):
            taken.reported[outcome.job] = outcome
    return len(news)


def _news(taken: CellSnapshot, outcome: em.JobOutcome, foreign: Mapping[str, int]) -> Wait | None:
    """Return the new explanation of a job; None where it is stored already, as for most: they must cost
    little.
    """
    job = taken.jobs.get(outcome.job)
    if job is None or outcome.reason is None:
        return None
    # What others hold is no part of the outcome, and may be another amount each time.
    helped = _others_hold(outcome, foreign, taken.names)
    changed = None if helped else taken.reported.get(outcome.job)
    if changed is not None and _is_equal(changed, outcome):
        return None
    taken.reported.pop(outcome.job, None)
    helps = [{"code": h.code.value, "numbers": _steady(h.numbers, taken)} for h in outcome.help]
    numbers = _steady(outcome.numbers, taken)
    wait = Wait(job, outcome.reason.value, numbers, helps + helped)
    if wait.is_news:
        return wait
    if not helped:
        taken.reported[outcome.job] = outcome
    return None


def _is_equal(changed: em.JobOutcome, outcome: em.JobOutcome) -> bool:
    """Tell whether both are stored as the same; in doubt no."""
    if changed.reason is not outcome.reason or changed.help != outcome.help:
        return False
    known, numbers = changed.numbers, outcome.numbers
    return known == numbers or (
        known.keys() == numbers.keys()
        and all(known[key] == value for key, value in numbers.items() if key not in _VOLATILE)
    )


def _publish(waits: Sequence[Wait], now: datetime) -> None:
    """Write what jobs are told. One that has moved on, or waits no longer, keeps what it says now."""
    # Locked first, in the order in which everybody does.
    current = dict(_WAITING.for_any(sorted(wait.job.pk for wait in waits)))
    rows = [
        (wait.job.pk, wait.code, wait.numbers, wait.helps)
        for wait in waits
        if current.get(wait.job.pk) == wait.job.version
    ]
    update_rows(Job, ("reason", "reason_numbers", "reason_help"), rows, constants={"reason_at": now})


def _foreign(cell_id: uuid.UUID, outcomes: Iterable[em.JobOutcome]) -> Mapping[str, int]:
    """Cards that pods of others hold, by flavor; not looked at while every job finds room."""
    if all(outcome.reason is not em.Reason.NO_ROOM for outcome in outcomes):
        return {}
    return {str(flavor): cards for flavor, cards in foreign_cards_by_flavor(cell_id).items()}


def _others_hold(
    outcome: em.JobOutcome, foreign: Mapping[str, int], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the numbers of a job that foreign pods block: how many cards, and nothing that names their
    owner.
    """
    if not foreign or outcome.reason is not em.Reason.NO_ROOM:
        return []
    flavor = str(outcome.numbers.get("flavor", ""))
    if flavor not in foreign:
        return []
    numbers = {"cards": foreign[flavor], "flavor": names.get(flavor, flavor)}
    return [{"code": FOREIGN_WORK, "numbers": numbers}]


def note_reason(cell: Cell, wait: Wait, now: datetime) -> list[Row]:
    """Store why a job waits; returns the decision that comes with it, if its code has changed."""
    job = wait.job
    # Guarded by the version: a job that has moved on keeps what it says now.
    Job.unscoped.filter(pk=job.pk, version=job.version, state=JobState.QUEUED).update(
        reason=wait.code, reason_numbers=wait.numbers, reason_help=wait.helps, reason_at=now
    )
    return _decisions(cell, wait)


def _decisions(cell: Cell, wait: Wait) -> list[Row]:
    """The decision that comes with what a job is told, if that has another code."""
    if wait.job.reason == wait.code:
        return []
    return [decision_row(cell, wait.job, DecisionKind.PARK, wait.code, wait.numbers)]
