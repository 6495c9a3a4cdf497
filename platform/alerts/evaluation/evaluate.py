"""Reads the metrics of all enabled rules and updates their alerts."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction

from alerts.evaluation.observation_index import ObservationIndex
from alerts.evaluation.outcomes import EvaluationOutcome, describe_outcome, note_error, note_evaluation
from alerts.evaluation.transitions import AlertProgress, Step, choose_step
from alerts.metrics.base import MetricUnread, Observation
from alerts.metrics.catalogue import BY_NAME, read_metric
from alerts.models import Alert, AlertRule, AlertState, RuleError

log = structlog.get_logger(__name__)
_LABEL_MAX: Final = 300
_BATCH: Final = 200
ALERTS_MAX: Final = 1_000
"""The most open alerts of one rule: a threshold that all subjects exceed must not fill the database."""
_CHANGING: Final = (
    *(
        "rule_name",
        "metric",
        "comparison",
        "threshold",
        "severity",
        "tenant_id",
        "cluster_id",
        "label",
        "path",
    ),
    *("value", "state", "fired_at", "resolved_at", "clear_since"),
)


def evaluate_rules(now: datetime) -> int:
    """Evaluate every enabled rule once and return how many alerts changed their state.

    Each metric is read once for all rules that use it. A metric that cannot be read changes no alert, nor
    does a part of it that cannot; the error is stored with its rules. Safe to run concurrently: each rule is
    locked while its alerts are updated.
    """
    rules = list(AlertRule.unscoped.filter(enabled=True).select_related("tenant").order_by("pk"))
    changed = 0
    for read in dict.fromkeys(_what_is_read(rule) for rule in rules):
        of_metric = [rule for rule in rules if _what_is_read(rule) == read]
        name = read[0]
        try:
            observations = ObservationIndex(read_metric(*read, now))
        except MetricUnread as unread:
            note_error([rule.pk for rule in of_metric], unread.error, now)
            continue
        except Exception:
            # The error names hosts and accounts, so it is logged and not shown to the owners of rules.
            log.exception("alert metric not read", metric=name)
            note_error([rule.pk for rule in of_metric], RuleError.UNREADABLE, now)
            continue
        changed += _evaluate_metric(of_metric, observations, now)
    changed += _resolve_disabled(now)
    return changed


def _what_is_read(rule: AlertRule) -> tuple[str, str, uuid.UUID | None]:
    """Return the metric of a rule, and its query and cluster if the metric has queries."""
    metric = BY_NAME.get(rule.metric)
    if metric is None or metric.read_query is None:
        return rule.metric, "", None
    return rule.metric, rule.query, rule.cluster_id


def _evaluate_metric(rules: Sequence[AlertRule], observations: ObservationIndex, now: datetime) -> int:
    """Evaluate the rules of one metric; rules without matches and alerts take one statement together."""
    live = Alert.unscoped.filter(rule__in=rules).exclude(state=AlertState.RESOLVED).order_by()
    alerting = set(live.values_list("rule_id", flat=True))
    changed = 0
    quiet: defaultdict[EvaluationOutcome, list[uuid.UUID]] = defaultdict(list)
    for rule in rules:
        if rule.pk in alerting or observations.select_covered(rule).find_matches(rule):
            changed += _evaluate_rule(rule, observations, now)
        else:
            quiet[describe_outcome(rule, observations)].append(rule.pk)
    for outcome, keys in quiet.items():
        note_evaluation(keys, outcome, now)
    return changed


@transaction.atomic
def _evaluate_rule(rule: AlertRule, observations: ObservationIndex, now: datetime) -> int:
    locked = AlertRule.unscoped.select_for_update().filter(pk=rule.pk, enabled=True, version=rule.version)
    if locked.first() is None:
        return 0  # changed or deleted since it was read; left to the next run
    covered = observations.select_covered(rule)
    live = {alert.subject: alert for alert in rule.alerts.exclude(state=AlertState.RESOLVED)}
    moved, unmoved = _Moved(), set()
    for subject, alert in live.items():
        if observations.is_unread(subject):
            unmoved.add(alert.cluster_id)
            continue
        _move(rule, alert, covered.by_subject.get(subject), now, moved)
    new = [each for each in covered.find_matches(rule) if each.subject not in live]
    _begin_alerts(rule, new, now, moved, len(live))
    moved.save()
    note_evaluation([rule.pk], describe_outcome(rule, observations, moved.error, unmoved), now)
    return moved.changes


@dataclass
class _Moved:
    """The rows of one rule that one run changes; they are written together."""

    created: list[Alert] = field(default_factory=list)
    updated: list[Alert] = field(default_factory=list)
    dropped: list[Alert] = field(default_factory=list)
    changes: int = 0
    error: str = ""

    def save(self) -> None:
        Alert.unscoped.filter(pk__in=[alert.pk for alert in self.dropped]).delete()
        Alert.unscoped.bulk_create(self.created, batch_size=_BATCH)
        Alert.unscoped.bulk_update(self.updated, _CHANGING, batch_size=_BATCH)


def _move(rule: AlertRule, alert: Alert, seen: Observation | None, now: datetime, moved: _Moved) -> None:
    """Update a pending or firing alert; an unchanged one is not written."""
    progress = AlertProgress(alert.state, alert.started_at, alert.clear_since)
    value = seen.value if seen is not None else None
    step, clear_since = choose_step(rule, progress, present=seen is not None, value=value, now=now)
    if step is Step.DROP:
        moved.dropped.append(alert)
        moved.changes += 1
        return
    before = _changing(alert)
    alert.clear_since = clear_since
    if seen is not None:
        _note_facts(alert, rule, seen)
    if step is Step.FIRE:
        _fire(alert, now)
    elif step is Step.RESOLVE:
        alert.state, alert.resolved_at = AlertState.RESOLVED, now
    moved.changes += step is not Step.KEEP
    if _changing(alert) != before:
        moved.updated.append(alert)


def _begin_alerts(
    rule: AlertRule, seen: Sequence[Observation], now: datetime, moved: _Moved, live: int
) -> None:
    """Create alerts for subjects that meet the condition and have none, up to the rule's limit."""
    room = max(0, ALERTS_MAX - live)
    if len(seen) > room:
        moved.error = RuleError.TOO_MANY
    for each in seen[:room]:
        step, _clear_since = choose_step(rule, None, present=True, value=each.value, now=now)
        alert = Alert(rule=rule, subject=each.subject, state=AlertState.PENDING, started_at=now)
        _note_facts(alert, rule, each)
        if step is Step.FIRE:
            _fire(alert, now)
        moved.created.append(alert)
        moved.changes += 1


def _fire(alert: Alert, now: datetime) -> None:
    alert.state, alert.fired_at = AlertState.FIRING, now


def _changing(alert: Alert) -> tuple[object, ...]:
    return tuple(getattr(alert, name) for name in _CHANGING)


def _note_facts(alert: Alert, rule: AlertRule, seen: Observation) -> None:
    alert.rule_name, alert.metric, alert.severity = rule.name, rule.metric, rule.severity
    alert.comparison, alert.threshold = rule.comparison, rule.threshold
    alert.tenant_id, alert.cluster_id = seen.tenant_id, seen.cluster_id
    alert.label, alert.path = seen.label[:_LABEL_MAX], seen.path
    if seen.value is not None:
        alert.value = seen.value


def _resolve_disabled(now: datetime) -> int:
    """Resolve the firing alerts of disabled rules, and delete their pending ones."""
    stale = Alert.unscoped.filter(rule__enabled=False).exclude(state=AlertState.RESOLVED)
    dropped = stale.filter(state=AlertState.PENDING).delete()[0]
    return dropped + stale.filter(state=AlertState.FIRING).update(state=AlertState.RESOLVED, resolved_at=now)
