"""The preview of a rule: its matches now and in the last day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from alerts.delivery.messages import format_value
from alerts.metrics.base import Unit
from alerts.metrics.catalogue import BY_NAME
from alerts.metrics.subject_names import name_subject
from alerts.models import AlertRule, Comparison, RuleError
from alerts.selectors.preview import RulePreview, preview_rule
from alerts.selectors.rule_history import RuleHistory, read_rule_history
from foundation.core import clock
from foundation.core.sentences import join_sentences
from frontend.charts import Chart, ChartLine, time_series
from frontend.pages.alerts.rule_problem import describe_unread
from frontend.pages.charts.drawing import describe_gaps
from frontend.texts.formats import format_number
from tenants.models import User

_SHOWN = 5
_MINUTE_S = 60
_WITHOUT_HISTORY: Final = {
    "quota.reserved_percent": gettext_lazy(
        "The last 24 hours can't be previewed: of reserved quota only the current amount is stored."
    ),
}
"""The reason why the past of a metric is unknown, where it is more specific than that it is not stored."""
_NOTHING_COVERED: Final = {"budget.used_percent": gettext_lazy("This rule covers no budgets.")}
"""The text for a rule that covers nothing now, where nothing in the past could have matched either."""


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """The subjects that a rule matches now, as text, and `past`: its last day, or why that is unknown."""

    sentence: str
    examples: list[tuple[str, str]]
    problem: str
    past: str
    chart: Chart | None


def describe_preview(who: User, rule: AlertRule) -> ShownPreview:
    """Return the preview of an unsaved rule. Raises: NotFound, PermissionDenied."""
    now = clock.now()
    found = preview_rule(who, rule, now=now)
    problem = str(RuleError(found.error).label) if found.error else ""
    if not (problem or found.subjects) and rule.metric in _NOTHING_COVERED:
        return ShownPreview(str(_NOTHING_COVERED[rule.metric]), [], "", "", None)
    sentences = _describe_meeting(found)
    sentence = join_sentences([*sentences, describe_unread(found.unread_clusters)])
    examples = [
        (name_subject(rule.metric, each.label), format_value(rule.metric, each.value))
        for each in found.meeting[:_SHOWN]
    ]
    history = read_rule_history(who, rule, now=now)
    chart = None if history is None or history.unreadable else _draw(rule, history)
    return ShownPreview(sentence, examples, problem, _describe_past(rule, history), chart)


def _describe_meeting(found: RulePreview) -> list[str]:
    """Return how many subjects meet the condition, without subjects of clusters that could not be read."""
    words = {"meeting": len(found.meeting), "subjects": found.subjects, "unknown": found.unknown}
    if not found.subjects:
        return [] if found.unread_clusters else [_("This rule covers no subjects now.")]
    sentences = [_("%(meeting)d of %(subjects)d subjects meet the condition now.") % words]
    if found.unknown:
        sentences.append(_("%(unknown)d have no current value.") % words)
    return sentences


def _describe_past(rule: AlertRule, history: RuleHistory | None) -> str:
    """Return how often the rule would have fired, or why that is unknown."""
    if history is None:
        return str(_WITHOUT_HISTORY.get(rule.metric, _("No history is stored for this metric.")))
    if history.unreadable:
        return _("The history can't be read.")
    if not history.has_values:
        return _("No values were measured in the last 24 hours.")
    sentences = [_count_fired(history), describe_unread(history.unread_clusters)]
    if history.jobs_max is not None:
        limit = _("Only the %(count)s jobs submitted last are considered.")
        sentences.append(limit % {"count": format_number(history.jobs_max)})
    if history.since is not None:
        older = _("Times before %(at)s aren't considered.")
        sentences.append(older % {"at": f"{history.since:%Y-%m-%d %H:%M} UTC"})
    if rule.metric == "budget.used_percent":
        sentences.append(_("Values are shares of the present budgets, from their creation on."))
    return join_sentences(sentences)


def _count_fired(history: RuleHistory) -> str:
    words = {"count": history.fired}
    if history.of_extreme:
        return (
            ngettext(
                "In the last 24 hours, the value shown would have fired %(count)s time.",
                "In the last 24 hours, the value shown would have fired %(count)s times.",
                history.fired,
            )
            % words
        )
    return (
        ngettext(
            "In the last 24 hours, this rule would have fired %(count)s time.",
            "In the last 24 hours, this rule would have fired %(count)s times.",
            history.fired,
        )
        % words
    )


def _draw(rule: AlertRule, history: RuleHistory) -> Chart:
    metric = BY_NAME[rule.metric]
    per, unit = (_MINUTE_S, "min") if metric.unit is Unit.SECONDS else (1, str(metric.unit))
    span = (history.start, history.end)
    name = _("Highest value") if rule.comparison == Comparison.ABOVE else _("Lowest value")
    level = rule.threshold / per
    points = [(at, None if value is None else value / per) for at, value in history.extreme]
    threshold = ChartLine(
        name=_("Threshold"),
        points=[(at, level) for at in span],
        color="failed",
        dash="dash",
        measured=False,
    )
    lines = [ChartLine(name=name, points=points, color="used"), threshold]
    gaps = describe_gaps(history.measured, span) if history.measured is not None else []
    return time_series("rule-preview", lines, unit=unit, title=str(metric.label), gaps=gaps, span=span)
