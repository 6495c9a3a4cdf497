"""The matches of a rule over the last day, as if it had existed then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from alerts.evaluation.transitions import AlertProgress, Step, choose_step
from alerts.metrics.base import MetricUnread
from alerts.metrics.catalogue import BY_NAME
from alerts.metrics.history import Values, find_reader
from alerts.models import AlertRule, AlertState
from alerts.selectors.preview import require_preview
from foundation.core.actor import Actor
from foundation.sql import row_scope
from telemetry.series import SeriesSet

log = structlog.get_logger(__name__)
SPAN: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RuleHistory:
    """The extreme of the subjects' values over time, and how often the rule would have fired.

    `of_extreme`: there are too many subjects to evaluate each, and `fired` counts how often the rule would
    have fired for the extreme value of all. `measured` has the gaps. `jobs_max` is set if only so many jobs,
    those submitted last, are considered. `unreadable`: nothing could be read. `unread_clusters` are left out,
    because they could not be read, and so are events before `since`.
    """

    start: datetime
    end: datetime
    extreme: Values
    fired: int
    of_extreme: bool
    measured: SeriesSet | None
    jobs_max: int | None = None
    unreadable: bool = False
    unread_clusters: Sequence[str] = ()
    since: datetime | None = None

    @property
    def has_values(self) -> bool:
        """Return whether a value is known, or there was nothing to measure."""
        return self.measured is None or any(value is not None for _at, value in self.extreme)


def read_rule_history(viewer: Actor, rule: AlertRule, *, now: datetime) -> RuleHistory | None:
    """Return what an unsaved rule would have found in the last day; None if its metric is not stored.

    A tenant's rule covers only that tenant's subjects, so no other tenant's data is shown.
    Raises: NotFound, PermissionDenied.
    """
    require_preview(viewer, rule)
    read = find_reader(rule.metric)
    if read is None or (rule.tenant is not None and not BY_NAME[rule.metric].for_tenants):
        return None
    try:
        with row_scope.whole():
            found = read(rule, now - SPAN, now)
    except MetricUnread:
        return RuleHistory(now - SPAN, now, (), 0, of_extreme=False, measured=None, unreadable=True)
    except Exception:
        log.exception("history of an alert metric not read", metric=rule.metric)
        return RuleHistory(now - SPAN, now, (), 0, of_extreme=False, measured=None, unreadable=True)
    of_extreme = not found.subjects and any(value is not None for _at, value in found.extreme)
    subjects = [found.extreme] if of_extreme else found.subjects
    fired = sum(_count_firings(rule, values, ends=found.ends) for values in subjects)
    return RuleHistory(
        now - SPAN,
        now,
        found.extreme,
        fired,
        of_extreme,
        found.measured,
        jobs_max=found.jobs_max,
        unread_clusters=found.unread_clusters,
        since=found.since,
    )


def _count_firings(rule: AlertRule, values: Values, *, ends: bool) -> int:
    """Count how often the alert of one subject would have begun to fire; `ends` as in `MetricHistory`."""
    progress: AlertProgress | None = None
    fired = 0
    for at, value in values:
        is_removed = value is None and ends
        step, clear_since = choose_step(rule, progress, present=not is_removed, value=value, now=at)
        fired += step is Step.FIRE
        if step in (Step.NOTHING, Step.DROP, Step.RESOLVE):
            progress = None
        elif progress is None:
            state = AlertState.FIRING if step is Step.FIRE else AlertState.PENDING
            progress = AlertProgress(state, at, None)
        else:
            then = AlertState.FIRING if step is Step.FIRE else progress.state
            progress = AlertProgress(then, progress.started_at, clear_since)
    return fired
