"""Writes the reasons of pending jobs that have changed since they were last written."""

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

# A job's position in its queue changes with every cycle; it is computed when it is read, and not stored.
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
"""The code of a recommendation: `cards` of `flavor` are used by pods that the platform did not create."""


def _steady(numbers: em.Numbers, taken: CellSnapshot) -> dict[str, Any]:
    return {key: value for key, value in taken.with_names(numbers).items() if key not in _VOLATILE}


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason of a pending job in its stored form: code, numbers and recommendations."""

    job: Job
    code: str
    numbers: dict[str, Any]
    helps: list[dict[str, Any]]

    @property
    def is_news(self) -> bool:
        known = (self.job.reason, self.job.reason_numbers, self.job.reason_help)
        return known != (self.code, self.numbers, self.helps) or self.job.reason_at is None

    def update_job(self, at: datetime) -> None:
        """Set the fields of the job object to what was written to its row."""
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
    """Write the reasons of one cycle that have changed, also to the jobs of `taken`; return their number.

    Raises: LeaseLost.
    """
    outcomes = list(outcomes)
    foreign = _foreign(cell_id, outcomes)
    changed = [
        (wait, outcome)
        for outcome in outcomes
        # Most outcomes are unchanged, so the check for them has to be cheap.
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
    """Return the new reason of a job; None if it is stored already. Most are, so that check comes first."""
    job = taken.jobs.get(outcome.job)
    if job is None or outcome.reason is None:
        return None
    # The cards of foreign pods are no part of the outcome, and their number may change at any time.
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
    """Return whether both outcomes are stored as the same reason; False if that cannot be decided cheaply."""
    if changed.reason is not outcome.reason or changed.help != outcome.help:
        return False
    known, numbers = changed.numbers, outcome.numbers
    return known == numbers or (
        known.keys() == numbers.keys()
        and all(known[key] == value for key, value in numbers.items() if key not in _VOLATILE)
    )


def _publish(waits: Sequence[Wait], now: datetime) -> None:
    """Write the reasons of jobs that are still queued and unchanged since the snapshot."""
    # Jobs are locked by primary key, as in all other transactions.
    current = dict(_WAITING.for_any(sorted(wait.job.pk for wait in waits)))
    rows = [
        (wait.job.pk, wait.code, wait.numbers, wait.helps)
        for wait in waits
        if current.get(wait.job.pk) == wait.job.version
    ]
    update_rows(Job, ("reason", "reason_numbers", "reason_help"), rows, constants={"reason_at": now})


def _foreign(cell_id: uuid.UUID, outcomes: Iterable[em.JobOutcome]) -> Mapping[str, int]:
    """Return the cards that foreign pods use, by flavor; empty if no job lacks capacity (`NO_ROOM`)."""
    if all(outcome.reason is not em.Reason.NO_ROOM for outcome in outcomes):
        return {}
    return {str(flavor): cards for flavor, cards in foreign_cards_by_flavor(cell_id).items()}


def _others_hold(
    outcome: em.JobOutcome, foreign: Mapping[str, int], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a recommendation with the number of cards that foreign pods use in the job's flavor; it doesn't
    name their owners.
    """
    if not foreign or outcome.reason is not em.Reason.NO_ROOM:
        return []
    flavor = str(outcome.numbers.get("flavor", ""))
    if flavor not in foreign:
        return []
    numbers = {"cards": foreign[flavor], "flavor": names.get(flavor, flavor)}
    return [{"code": FOREIGN_WORK, "numbers": numbers}]


def note_reason(cell: Cell, wait: Wait, now: datetime) -> list[Row]:
    """Write the reason of a pending job; return the decision to write if the reason's code has changed."""
    job = wait.job
    # The version guards the update: a job that has changed since keeps its reason.
    Job.unscoped.filter(pk=job.pk, version=job.version, state=JobState.QUEUED).update(
        reason=wait.code, reason_numbers=wait.numbers, reason_help=wait.helps, reason_at=now
    )
    return _decisions(cell, wait)


def _decisions(cell: Cell, wait: Wait) -> list[Row]:
    """Return the decision for a new reason, if its code differs from the stored one."""
    if wait.job.reason == wait.code:
        return []
    return [decision_row(cell, wait.job, DecisionKind.PARK, wait.code, wait.numbers)]
