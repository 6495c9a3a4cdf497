"""Describes what went wrong at the last evaluation of a rule."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from alerts.models import UNEVALUATED, AlertRule, RuleError
from foundation.core.sentences import join_sentences
from frontend.texts.formats import format_absolute


def is_unevaluated(rule: AlertRule) -> bool:
    """Tell whether an enabled rule has not been evaluated by its last run."""
    return rule.enabled and rule.error in UNEVALUATED


def describe_problem(rule: AlertRule) -> str:
    """Return why an enabled rule is not evaluated in full, where and since when; empty if it is."""
    if not rule.enabled or not rule.error:
        return ""
    since = rule.error_since or rule.evaluated_at or rule.created_at
    if is_unevaluated(rule):
        when = _("Not evaluated since %(at)s; its alerts stay unchanged.")
    elif rule.unread_clusters:
        when = _("Not evaluated there since %(at)s; alerts there stay unchanged.")
    else:
        when = _("Since %(at)s.")
    return join_sentences([*_describe_error(rule), when % {"at": format_absolute(since)}])


def _describe_error(rule: AlertRule) -> list[str]:
    words = {"clusters": _(", ").join(rule.unread_clusters)}
    if rule.error == RuleError.PARTLY_WITHOUT_SOURCE:
        return [_("No enabled data source: %(clusters)s.") % words]
    if rule.error == RuleError.PARTLY_WITHOUT_VALUES:
        return [_("No current values: %(clusters)s.") % words]
    error = "" if rule.error == RuleError.PARTLY_UNREADABLE else str(rule.get_error_display())
    return [error, describe_unread(rule.unread_clusters)]


def describe_unread(clusters: Sequence[str]) -> str:
    """Return the sentence about clusters that could not be read; empty without any."""
    return _("Couldn't read: %(clusters)s.") % {"clusters": _(", ").join(clusters)} if clusters else ""
