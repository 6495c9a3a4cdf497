"""The problem of a rule's last evaluation as text."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from alerts.models import UNEVALUATED, AlertRule, RuleError
from foundation.core.sentences import join_sentences
from frontend.texts.formats import format_absolute


def is_unevaluated(rule: AlertRule) -> bool:
    """Return whether an enabled rule has not been evaluated by its last run."""
    return rule.enabled and rule.error in UNEVALUATED


def describe_problem(rule: AlertRule) -> str:
    """Return why an enabled rule is not evaluated in full, where and since when; empty if it is.

    No date is stored for a single cluster: the rule may have lacked another cluster before.
    """
    if not rule.enabled or not rule.error:
        return ""
    error = str(rule.get_error_display())
    at = {"at": format_absolute(rule.error_since or rule.evaluated_at or rule.created_at)}
    if rule.error == RuleError.NO_VALUES:  # the alerts of metrics without values were resolved
        return join_sentences([error, _("Not evaluated since %(at)s.") % at])
    if is_unevaluated(rule):
        return join_sentences([error, _("Not evaluated since %(at)s; its alerts stay unchanged.") % at])
    if rule.error == RuleError.TOO_MANY:
        return join_sentences([error, _("Since %(at)s.") % at, *_describe_clusters(rule)])
    return join_sentences(_describe_clusters(rule))


def _describe_clusters(rule: AlertRule) -> list[str]:
    if not rule.unread_clusters:
        return []
    words = {"clusters": _(", ").join(rule.unread_clusters)}
    if rule.error == RuleError.PARTLY_WITHOUT_VALUES:
        return [_("No current values: %(clusters)s.") % words, _("Not evaluated there.")]
    unchanged = _("Not evaluated there; alerts there stay unchanged.")
    if rule.error == RuleError.PARTLY_WITHOUT_SOURCE:
        return [_("No enabled data source: %(clusters)s.") % words, unchanged]
    return [describe_unread(rule.unread_clusters), unchanged]


def describe_unread(clusters: Sequence[str]) -> str:
    """Return the sentence about clusters that could not be read; empty if all were read."""
    return _("Couldn't read: %(clusters)s.") % {"clusters": _(", ").join(clusters)} if clusters else ""
