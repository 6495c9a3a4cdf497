"""The transitions of an alert between pending, firing and resolved. Pure: no database, no clock of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Protocol

from alerts.models.alert import AlertState
from alerts.models.rule import Comparison

SEND_AGAIN_AFTER: Final = timedelta(minutes=10)
"""After a notification about a subject, no other firing notification about it is sent for so long."""


class Condition(Protocol):
    """The part of a rule that transitions need."""

    comparison: str
    threshold: float
    hold_s: int
    resolve_s: int


class Step(Enum):
    """A change of the alert of one subject."""

    NOTHING = "nothing"
    """There is no alert, and none begins."""
    BEGIN = "begin"
    """The condition holds for the first time."""
    KEEP = "keep"
    """The state stays; its times may change."""
    FIRE = "fire"
    DROP = "drop"
    """A pending alert whose condition ended is deleted: it never fired."""
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class AlertProgress:
    """The present state of an alert; times as in the model."""

    state: str
    started_at: datetime
    clear_since: datetime | None


def compare_value(condition: Condition, value: float) -> bool:
    """Return whether the condition of a rule holds for a value; a value equal to the threshold does not."""
    if condition.comparison == Comparison.ABOVE:
        return value > condition.threshold
    return value < condition.threshold


def choose_step(
    condition: Condition, progress: AlertProgress | None, *, present: bool, value: float | None, now: datetime
) -> tuple[Step, datetime | None]:
    """Return the next step of an alert, and its new `clear_since`.

    `present` is whether the metric still has the subject; `value` None means that the value is unknown now,
    and leaves the alert as it is. The alert of a subject that no longer exists is resolved at once.
    """
    if progress is None:
        holds = present and value is not None and compare_value(condition, value)
        if not holds:
            return Step.NOTHING, None
        return (Step.FIRE if condition.hold_s == 0 else Step.BEGIN), None
    if not present:
        return (Step.DROP if progress.state == AlertState.PENDING else Step.RESOLVE), None
    if value is None:
        return Step.KEEP, progress.clear_since
    return _choose_known(condition, progress, compare_value(condition, value), now)


def _choose_known(
    condition: Condition, progress: AlertProgress, holds: bool, now: datetime
) -> tuple[Step, datetime | None]:
    if progress.state == AlertState.PENDING:
        if not holds:
            return Step.DROP, None
        due = now - progress.started_at >= timedelta(seconds=condition.hold_s)
        return (Step.FIRE if due else Step.KEEP), None
    if holds:
        return Step.KEEP, None
    clear_since = progress.clear_since or now
    if now - clear_since >= timedelta(seconds=condition.resolve_s):
        return Step.RESOLVE, clear_since
    return Step.KEEP, clear_since
