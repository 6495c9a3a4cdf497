"""The alerts that a rule would find now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from alerts.evaluation.observation_index import ObservationIndex
from alerts.metrics.base import MetricUnread, Observation
from alerts.metrics.catalogue import read_metric
from alerts.models import AlertRule, RuleError
from alerts.services.access import require_alert_view, require_edit
from foundation.core.actor import Actor
from foundation.sql import row_scope

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RulePreview:
    """The subjects that a rule covers now: how many, how many without a value, and those that meet it.

    `error`: why nothing could be read, a `RuleError`. `unread_clusters` could not be read.
    """

    subjects: int
    unknown: int
    meeting: Sequence[Observation]
    error: str = ""
    unread_clusters: Sequence[str] = ()


def require_preview(viewer: Actor, rule: AlertRule) -> None:
    """Check that an unsaved rule may be previewed; one with a query only by users who may create it.

    A query can read everything that its server stores. Raises: NotFound, PermissionDenied.
    """
    (require_edit if rule.query else require_alert_view)(viewer, rule.tenant)


def preview_rule(viewer: Actor, rule: AlertRule, *, now: datetime) -> RulePreview:
    """Return the present matches of an unsaved rule, without regard to durations.

    A tenant's rule covers only that tenant's subjects, so no other tenant's data is shown.
    Raises: NotFound, PermissionDenied.
    """
    require_preview(viewer, rule)
    try:
        with row_scope.whole():
            found = ObservationIndex(read_metric(rule.metric, rule.query, rule.cluster_id, now))
            covered = found.select_covered(rule)
    except MetricUnread as unread:
        return RulePreview(0, 0, (), error=unread.error)
    except Exception:
        log.exception("alert metric not read", metric=rule.metric)
        return RulePreview(0, 0, (), error=RuleError.UNREADABLE)
    subjects = len(covered.by_subject)
    return RulePreview(
        subjects,
        subjects - len(covered.ordered),
        covered.find_matches(rule),
        unread_clusters=found.unread_clusters,
    )
