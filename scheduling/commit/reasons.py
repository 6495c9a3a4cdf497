"""Why each job waits, stored where that has changed since it was last written."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import F

from clusters.models import Cell
from clusters.selectors.foreign import foreign_cards_by_flavor
from foundation import leases
from scheduling.commit.batch import CHUNK, decision_row
from scheduling.engine import model as em
from scheduling.models import Decision, DecisionKind, Job, JobState
from scheduling.snapshots import CellSnapshot, with_names

# A job's place in line changes with every cycle; it is counted when somebody reads it, not stored.
_VOLATILE: Final = frozenset({"position", "ahead"})

FOREIGN_WORK: Final = "FOREIGN_WORK"
"""Among what would help: `cards` of `flavor` are held by pods that the platform did not make."""


def _steady(numbers: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {key: value for key, value in with_names(numbers, names).items() if key not in _VOLATILE}


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job waits, as it is stored."""

    job: Job
    code: str
    numbers: dict[str, Any]
    helps: list[dict[str, Any]]

    @property
    def is_news(self) -> bool:
        known = (self.job.reason, self.job.reason_numbers, self.job.reason_help)
        return known != (self.code, self.numbers, self.helps) or self.job.reason_at is None


def commit_reasons(
    cell_id: uuid.UUID,
    epoch: int,
    taken: CellSnapshot,
    outcomes: Iterable[em.Outcome],
    now: datetime,
) -> int:
    """Store the reasons of one cycle; returns how many had changed.

    Raises: LeaseLost.
    """
    changed: list[Wait] = []
    outcomes = list(outcomes)
    foreign = _foreign(cell_id, outcomes)
    for outcome in outcomes:
        job = taken.jobs.get(outcome.job)
        if job is None or outcome.reason is None:
            continue
        helps = [{"code": h.code.value, "numbers": _steady(h.numbers, taken.names)} for h in outcome.help]
        helps += _others_hold(outcome, foreign, taken.names)
        wait = Wait(job, outcome.reason.value, _steady(outcome.numbers, taken.names), helps)
        if wait.is_news:
            changed.append(wait)
    with transaction.atomic():
        cell = leases.lock_current(Cell, cell_id, epoch)
        decisions = [decision for wait in changed for decision in note_reason(cell, wait, now)]
        Decision.unscoped.bulk_create(decisions, batch_size=CHUNK)
        Cell.unscoped.filter(pk=cell_id).update(cycle_number=F("cycle_number") + 1, last_cycle_at=now)
    return len(changed)


def _foreign(cell_id: uuid.UUID, outcomes: Iterable[em.Outcome]) -> Mapping[str, int]:
    """Cards that pods of others hold, by flavor; not looked at while every job finds room."""
    if all(outcome.reason is not em.Reason.NO_ROOM for outcome in outcomes):
        return {}
    return {str(flavor): cards for flavor, cards in foreign_cards_by_flavor(cell_id).items()}


def _others_hold(
    outcome: em.Outcome, foreign: Mapping[str, int], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """That work of others takes the room: how many cards, and nothing that would tell whose it is."""
    flavor = str(outcome.numbers.get("flavor", ""))
    if outcome.reason is not em.Reason.NO_ROOM or flavor not in foreign:
        return []
    numbers = {"cards": foreign[flavor], "flavor": names.get(flavor, flavor)}
    return [{"code": FOREIGN_WORK, "numbers": numbers}]


def note_reason(cell: Cell, wait: Wait, now: datetime) -> list[Decision]:
    """Store why a job waits; returns the decision that comes with it, if its code has changed."""
    job = wait.job
    # Guarded by the version: a job that has moved on keeps what it says now.
    Job.unscoped.filter(pk=job.pk, version=job.version, state=JobState.QUEUED).update(
        reason=wait.code, reason_numbers=wait.numbers, reason_help=wait.helps, reason_at=now
    )
    if job.reason == wait.code:
        return []
    return [decision_row(cell, job, DecisionKind.PARK, wait.code, wait.numbers)]
