"""Stores the outcome of the last evaluation of rules."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.models import Case, F, Value, When

from alerts.evaluation.observation_index import ObservationIndex
from alerts.metrics.catalogue import BY_NAME
from alerts.models import UNEVALUATED, AlertRule, RuleError


class EvaluationOutcome(NamedTuple):
    """The error of an evaluation, "" for none, and the names of the clusters that it concerns."""

    error: str
    clusters: tuple[str, ...]


def describe_outcome(
    rule: AlertRule,
    observations: ObservationIndex,
    error: str = "",
    unmoved: Iterable[uuid.UUID | None] = (),
) -> EvaluationOutcome:
    """Return the outcome of an evaluation of a rule, with the caller's `error`, if any.

    `unmoved` are the clusters of alerts that were left unchanged because they could not be read. The outcome
    of a metric of clusters names those whose subjects have no values, because unknown values meet no
    condition.
    """
    unread = sorted({*observations.unread_clusters, *observations.name_clusters(unmoved)})
    if unread:
        return EvaluationOutcome(error or observations.error, tuple(unread))
    covered = observations.select_covered(rule)
    if error or not covered.by_subject or not BY_NAME[rule.metric].of_cluster:
        return EvaluationOutcome(error, ())
    if not covered.ordered:
        return EvaluationOutcome(RuleError.NO_VALUES, ())
    if not covered.silent_clusters:
        return EvaluationOutcome("", ())
    names = observations.name_clusters(covered.silent_clusters)
    return EvaluationOutcome(RuleError.PARTLY_WITHOUT_VALUES, tuple(names))


def note_evaluation(rules: Collection[uuid.UUID], outcome: EvaluationOutcome, now: datetime) -> None:
    """Store that enabled rules were evaluated now."""
    AlertRule.unscoped.filter(pk__in=rules, enabled=True).update(
        evaluated_at=now,
        error=outcome.error,
        error_since=_date_error(outcome.error, now),
        unread_clusters=list(outcome.clusters),
    )


def note_error(rules: Collection[uuid.UUID], error: str, now: datetime) -> None:
    """Store why rules were not evaluated."""
    AlertRule.unscoped.filter(pk__in=rules).update(
        error=error, error_since=_date_error(error, now), unread_clusters=[]
    )


def _date_error(error: str, now: datetime) -> Case | None:
    """Return the time since which rules have an error; rules that have it already keep their earlier time.

    If a rule is unevaluated for another reason than before, the time of the first reason stays.
    """
    if not error:
        return None
    reasons = UNEVALUATED if error in UNEVALUATED else (error,)
    began = When(error__in=reasons, error_since__isnull=False, then=F("error_since"))
    return Case(began, default=Value(now))
