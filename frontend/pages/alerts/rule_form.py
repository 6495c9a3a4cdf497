"""The form of an alert rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.delivery.messages import format_seconds
from alerts.metrics.base import AlertMetric
from alerts.metrics.catalogue import METRICS, PROMQL
from alerts.metrics.promql import QUERY_MAX, list_servers
from alerts.models import AlertRule, AlertSeverity, Comparison, NotificationChannel
from clusters.models import Cluster
from frontend.pages.alerts.rule_problem import describe_problem
from frontend.texts.formats import add_note
from tenants.models import Tenant

_DURATIONS: Final = (0, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600)
_KINDS: Final = {
    "job": gettext_lazy("Jobs"),
    "quota": gettext_lazy("Quota and budgets"),
    "budget": gettext_lazy("Quota and budgets"),
    "gpu": gettext_lazy("GPUs"),
    "node": gettext_lazy("Nodes"),
    "cluster": gettext_lazy("Clusters"),
    "source": gettext_lazy("Data sources"),
    "promql": gettext_lazy("Prometheus"),
    "platform": gettext_lazy("Platform"),
}
_REPEATS: Final = (1800, 3600, 6 * 3600, 24 * 3600)


class _QueryInput(forms.Textarea):
    """The input of a query, required for one metric only: the browser would refuse the hidden field of
    others.
    """

    def use_required_attribute(self, initial: Any) -> bool:
        return False


class RuleForm(forms.Form):
    """The form of a rule; names of clusters and channels are those that the owner can use."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    metric = forms.ChoiceField(label=gettext_lazy("Metric"))
    query = forms.CharField(
        label=gettext_lazy("PromQL query"),
        max_length=QUERY_MAX,
        widget=_QueryInput(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy("Each series of the answer is compared with the threshold"),
    )
    comparison = forms.ChoiceField(label=gettext_lazy("Condition"), choices=Comparison.choices)
    threshold = forms.FloatField(
        label=gettext_lazy("Threshold"), help_text=gettext_lazy("In the unit of the metric")
    )
    hold_s = forms.TypedChoiceField(label=gettext_lazy("Fires after"), coerce=int)
    resolve_s = forms.TypedChoiceField(label=gettext_lazy("Resolves after"), coerce=int)
    severity = forms.ChoiceField(label=gettext_lazy("Severity"), choices=AlertSeverity.choices)
    repeat_s = forms.TypedChoiceField(
        label=gettext_lazy("Repeat notification"), coerce=int, empty_value=None, required=False
    )
    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"), required=False)
    channels = forms.MultipleChoiceField(
        label=gettext_lazy("Channels"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Without a channel, alerts are shown in the console only."),
    )

    def __init__(
        self,
        data: object = None,
        *,
        tenant: Tenant | None,
        clusters: Sequence[Cluster],
        channels: Sequence[NotificationChannel],
        rule: AlertRule | None = None,
    ) -> None:
        prefix = str(rule.pk)[:8] if rule is not None and rule.name else None
        super().__init__(data, initial=_initial(rule), auto_id=f"id_{prefix or 'new'}_%s")  # type: ignore[arg-type]
        self._clusters = {str(cluster.pk): cluster for cluster in clusters}
        self._channels = {str(channel.pk): channel for channel in channels}
        is_asking = rule is not None and rule.metric == PROMQL
        self.problem = describe_problem(rule) if rule is not None else ""
        asks = tenant is None and (is_asking or bool(list_servers(None)))
        self._choose(
            "metric", _group_metrics([each for each in usable_metrics(tenant) if asks or each.name != PROMQL])
        )
        if not asks:
            del self.fields["query"]
        stored = [getattr(rule, name, None) for name in ("hold_s", "resolve_s", "repeat_s")]
        for name, value in zip(("hold_s", "resolve_s"), stored, strict=False):
            self._choose(name, [(each, _label_duration(each)) for each in _with(_DURATIONS, value)])
        repeats = [(each, _label_repeat(each)) for each in _with(_REPEATS, stored[2])]
        self._choose("repeat_s", [("", _("Never")), *repeats])
        names = [(pk, one.name) for pk, one in self._clusters.items()]
        self._choose("cluster", [("", _("All clusters")), *names])
        self._choose("channels", [(pk, one.name) for pk, one in self._channels.items()])
        if not self._channels:
            del self.fields["channels"]
        if tenant is not None or len(self._clusters) < 2:
            del self.fields["cluster"]

    def _choose(self, name: str, choices: Sequence[tuple[Any, Any]]) -> None:
        field: Any = self.fields[name]
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        """Require the query of its own metric alone, and drop input that belongs to another metric."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        if "query" in self.fields and values.get("metric") != PROMQL:
            self.errors.pop("query", None)
            values["query"] = ""
        return values

    def get_values(self) -> tuple[dict[str, Any], list[NotificationChannel]]:
        """Return the values of a valid form as the services take them."""
        values = dict(self.cleaned_data)
        channels = [self._channels[pk] for pk in values.pop("channels", [])]
        if "cluster" in self.fields:
            values["cluster"] = self._clusters.get(values["cluster"])
        return values, channels


def usable_metrics(tenant: Tenant | None) -> list[AlertMetric]:
    """Return the metrics that rules of a tenant, or of the platform without one, can use."""
    return [metric for metric in METRICS if tenant is None or metric.for_tenants]


def _group_metrics(metrics: Sequence[AlertMetric]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return metrics by the kind of their subjects, in the order of the kinds."""
    found: dict[str, list[tuple[str, str]]] = {}
    for metric in metrics:
        kind = metric.name.partition(".")[0]
        found.setdefault(str(_KINDS[kind]), []).append((metric.name, label_metric(metric)))
    return list(found.items())


def label_metric(metric: AlertMetric) -> str:
    """Return the name of a metric with its unit."""
    return add_note(metric.label, metric.unit) if metric.unit else str(metric.label)


def _initial(rule: AlertRule | None) -> dict[str, Any]:
    if rule is None:
        return {"hold_s": 300, "resolve_s": 120, "severity": AlertSeverity.WARNING}
    names = (
        "name",
        "metric",
        "query",
        "comparison",
        "threshold",
        "hold_s",
        "resolve_s",
        "repeat_s",
        "severity",
    )
    values: dict[str, Any] = {name: getattr(rule, name) for name in names}
    values["cluster"] = str(rule.cluster_id or "")
    values["channels"] = [str(channel.pk) for channel in rule.channels.all()]
    return values


def _with(choices: Sequence[int], value: int | None) -> list[int]:
    return sorted({*choices, *([] if value is None else [value])})


def _label_duration(seconds: int) -> str:
    return format_seconds(seconds) if seconds else _("Immediately")


def _label_repeat(seconds: int) -> str:
    return _("Every %(duration)s") % {"duration": format_seconds(seconds)}
